//! The forms of error bodies: where type, code and words stand in them.

use super::retry;
use serde_json::Value;
use std::time::Duration;

/// What an error body says, wherever it says it. Empty where it does not.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    /// Type, code and status words, in small letters, one per line.
    pub(super) codes: String,
    /// A code that is a number: an HTTP status with most.
    number: Option<u64>,
    /// The words.
    pub(super) message: String,
    pub(super) request_id: Option<String>,
    pub(super) retry_after: Option<Duration>,
}

impl Told {
    /// Words alone.
    pub(super) fn plain(message: String) -> Self {
        Told { message, ..Told::default() }
    }

    /// Finds its way through these forms:
    /// - Anthropic: `{type: "error", error: {type, message, details: {error_code}}, request_id}`
    /// - OpenAI and most: `{error: {message, type, code, param}}`; OpenRouter adds `metadata.raw`, Google
    ///   `status` and `details[].retryDelay`, and puts the whole into a list
    /// - Ollama: `{error: "…"}`; Mistral, DashScope, old vLLM: `{message, type, code}`; FastAPI: `{detail}`
    pub(super) fn read(body: &Value) -> Self {
        let body = body.as_array().and_then(|list| list.first()).unwrap_or(body);
        let mut told = Told { request_id: string(body, "request_id").map(str::to_string), ..Told::default() };
        let error = match body.get("error") {
            None | Some(Value::Null) => body,
            Some(error) => error,
        };
        if let Some(message) = error.as_str() {
            told.message = message.to_string();
            // `{"error": "Unauthorized", "message": "what it means"}`
            if let Some(more) = string(body, "message") {
                told.message = format!("{message}: {more}");
            }
            return told;
        }
        let details = error.get("details");
        told.code(error.get("type").filter(|kind| *kind != "error"));
        told.code(error.get("code"));
        told.code(error.get("status"));
        told.code(details.and_then(|details| details.get("error_code")));
        told.message = ["message", "detail", "msg", "error_description"]
            .iter()
            .find_map(|field| words(error.get(*field)))
            .unwrap_or_default();
        if let Some(raw) = error.get("metadata").and_then(|metadata| words(metadata.get("raw"))) {
            told.message = format!("{}: {raw}", told.message);
        }
        let delay = details.and_then(Value::as_array).into_iter().flatten().find_map(|d| string(d, "retryDelay"));
        told.retry_after = delay.and_then(retry::go_duration);
        told
    }

    fn code(&mut self, code: Option<&Value>) {
        match code {
            Some(Value::String(code)) => {
                self.number = self.number.or(code.parse().ok());
                self.codes.push_str(&code.to_lowercase());
                self.codes.push('\n');
            }
            Some(code) => self.number = self.number.or(code.as_u64()),
            None => {}
        }
    }

    /// The code, where it can be an HTTP status.
    pub(super) fn status(&self) -> Option<u16> {
        self.number.and_then(|number| u16::try_from(number).ok()).filter(|number| (400..600).contains(number))
    }
}

fn string<'v>(value: &'v Value, field: &str) -> Option<&'v str> {
    value.get(field).and_then(Value::as_str)
}

/// The words of a text, of FastAPI's list of `{loc, msg}`, or of an error in an error.
fn words(value: Option<&Value>) -> Option<String> {
    let words = match value? {
        Value::String(words) => words.clone(),
        Value::Array(list) => {
            let each = list.iter().filter_map(|item| {
                words(Some(item).filter(|item| item.is_string())).or_else(|| words(item.get("msg")))
            });
            each.collect::<Vec<String>>().join("; ")
        }
        object @ Value::Object(_) => Told::read(object).message,
        Value::Null | Value::Bool(_) | Value::Number(_) => String::new(),
    };
    (!words.trim().is_empty()).then_some(words)
}

/// Whether text that is no JSON is a page.
pub(super) fn is_html(body: &str) -> bool {
    let start: String = body.trim_start_matches(['\u{feff}', ' ', '\n', '\r', '\t']).chars().take(200).collect();
    let start = start.to_ascii_lowercase();
    start.starts_with("<!doctype")
        || start.starts_with("<html")
        || start.starts_with('<') && start.contains("<html")
        || start.starts_with("<!--")
        || start.starts_with("<head")
}

/// A page's title; all of it where it is none.
pub(super) fn title_or_words(body: &str) -> String {
    if !is_html(body) {
        return body.trim().to_string();
    }
    let title = body.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    title.map_or_else(String::new, |(title, _)| title.trim().to_string())
}
