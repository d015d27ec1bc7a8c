//! One request that a person sends by hand: no gate, no second try, the answer as it came.

use super::answer::MAX_REPLY;
use super::server::Server;
use crate::model::trace::{ResponseLine, reply_of};
use crate::model::{ModelError, ModelErrorKind};
use crate::redact::Redactor;
use serde_json::Value;
use std::time::Duration;
use tokio::time::{Instant, timeout};

impl Server {
    /// Sends `body` to the provider's endpoint and reads the whole answer, whatever its status. Nothing may be silent for
    /// longer than `idle`. No key is in what comes back.
    ///
    /// # Errors
    /// When the settings forbid the address, or no whole answer came.
    pub async fn send_by_hand(&self, body: &Value, idle: Duration) -> Result<ResponseLine, ModelError> {
        let hidden = Redactor::new(self.secrets());
        let begun = Instant::now();
        let silent = |_| {
            let limit = humantime::format_duration(idle);
            ModelError::new(ModelErrorKind::Silent, format!("`{}` sent nothing for {limit}", self.provider.name))
        };
        let broken = |error: &reqwest::Error| {
            let failure = self.broken(error);
            ModelError::new(failure.kind, hidden.text(&failure.message)).request(failure.request_id)
        };
        let post = self.http.post(&self.endpoint)?.headers(self.headers.clone()).body(body.to_string());
        let mut response = timeout(idle, post.send()).await.map_err(silent)?.map_err(|error| broken(&error))?;
        let mut bytes = Vec::new();
        let mut first_byte_ms = None;
        let mut left_open = None;
        loop {
            let chunk = match timeout(idle, response.chunk()).await {
                Ok(chunk) => chunk.map_err(|error| broken(&error))?,
                Err(elapsed) => {
                    left_open = Some(elapsed);
                    None
                }
            };
            let Some(chunk) = chunk else { break };
            first_byte_ms.get_or_insert_with(|| millis(begun));
            bytes.extend_from_slice(&chunk);
            if bytes.len() > MAX_REPLY {
                let size = crate::text::size(MAX_REPLY as u64);
                return Err(ModelError::new(ModelErrorKind::Protocol, format!("the answer has more than {size}")));
            }
        }
        let headers = response.headers();
        let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let request_id = ["request-id", "x-request-id"].into_iter().find_map(text).map(str::to_string);
        let shown = ["content-type", "retry-after"].into_iter();
        let answer = ResponseLine {
            id: "1".to_string(),
            at: crate::event::Timestamp::from_system(std::time::SystemTime::now()),
            status: Some(response.status().as_u16()),
            request_id,
            headers: shown.filter_map(|name| Some((name.to_string(), text(name)?.to_string()))).collect(),
            bytes: bytes.len() as u64,
            left_out: 0,
            body: hidden.text(&String::from_utf8_lossy(&bytes)).into_owned(),
            ms: millis(begun),
            first_byte_ms,
            problem: None,
        };
        match left_open {
            // Some servers leave a connection open after the end of an answer.
            Some(elapsed) if reply_of(self.provider.protocol, &self.provider.name, &answer).1.is_some() => {
                Err(silent(elapsed))
            }
            Some(_) | None => Ok(answer),
        }
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}
