//! A provider that is ready to be spoken to: address, headers, client, gate. Shared by all of its models.

use super::client::Http;
use super::provider::{Auth, AuthHeader, Provider, Secret};
use crate::model::gate::{Gate, GateSettings};
use crate::model::trace::HttpTrace;
use crate::model::wire::{Failure, Protocol};
use crate::redact::{Redactor, with_bare_key};
use reqwest::Url;
use reqwest::header::{ACCEPT, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use std::sync::{Arc, OnceLock};

/// The API version that Anthropic's Messages wants to be told.
const ANTHROPIC_VERSION: &str = "2023-06-01";

/// A provider that is ready to be spoken to.
pub struct Server {
    /// As it is configured.
    pub(super) provider: Provider,
    /// Where requests go.
    pub(super) endpoint: Url,
    /// The same for every request.
    pub(super) headers: HeaderMap,
    /// Who sends.
    pub(super) http: Http,
    /// Who may send, and when.
    pub(super) gate: Arc<Gate>,
    /// Who writes down what goes over the wire.
    pub(super) trace: OnceLock<Arc<HttpTrace>>,
}

impl Server {
    /// Gets ready. Opens no connection.
    ///
    /// # Errors
    /// When the base URL is none, or key or headers hold what no header may hold. Never shows a key.
    pub fn new(provider: Provider, http: Http, seed: u64, trace: Option<Arc<HttpTrace>>) -> Result<Arc<Self>, String> {
        let endpoint = provider.endpoint()?;
        let headers = headers(&provider)?;
        let settings = GateSettings {
            streams: provider.streams,
            rpm: provider.rpm,
            tpm: provider.tpm,
            seed,
            ..GateSettings::default()
        };
        let gate = Arc::new(Gate::new(&provider.name, &settings));
        let trace = trace.map_or_else(OnceLock::new, OnceLock::from);
        Ok(Arc::new(Server { provider, endpoint, headers, http, gate, trace }))
    }

    /// Writes down what goes over the wire from now on: a run's trace lies in its directory, which is made only once all
    /// of its models are known to be there. The first trace stays.
    pub fn trace_to(&self, trace: Arc<HttpTrace>) {
        let _ = self.trace.set(trace);
    }

    /// Why a request or its answer did not get through.
    pub(super) fn broken(&self, error: &reqwest::Error) -> Failure {
        self.http.trouble(error, &self.endpoint)
    }

    /// Where requests go, as it may be shown: a gateway may want its key in the query.
    pub(super) fn address(&self) -> String {
        Redactor::new(self.secrets()).url(self.endpoint.as_str())
    }

    /// What must not be shown of it: each word of it that is a secret.
    pub(super) fn secrets(&self) -> impl Iterator<Item = &str> {
        let key = match &self.provider.auth {
            Auth::None => None,
            Auth::Key { key, .. } => Some(key),
        };
        let all = key.into_iter().chain(self.provider.headers.iter().map(|(_, value)| value));
        all.map(Secret::reveal).flat_map(with_bare_key)
    }
}

fn headers(provider: &Provider) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
    match provider.protocol {
        Protocol::Anthropic => {
            headers.insert("anthropic-version", HeaderValue::from_static(ANTHROPIC_VERSION));
        }
        Protocol::OpenaiChat | Protocol::OpenaiResponses => {}
    }
    if let Auth::Key { key, header, variable } = &provider.auth {
        let (name, value) = match header {
            AuthHeader::ApiKey => ("x-api-key", key.reveal().to_string()),
            AuthHeader::Bearer => ("authorization", format!("Bearer {}", key.reveal())),
        };
        headers.insert(
            name,
            secret(&value).ok_or_else(|| {
                format!("the key in {variable} holds characters that no key has (a line end, perhaps): set it again")
            })?,
        );
    }
    for (name, value) in &provider.headers {
        let header: HeaderName =
            name.parse().map_err(|_| format!("`{name}` is no name of a header (provider `{}`)", provider.name))?;
        let value = secret(value.reveal()).ok_or_else(|| {
            format!(
                "the value of header `{name}` (provider `{}`) holds characters that no header may hold",
                provider.name
            )
        })?;
        headers.insert(header, value);
    }
    Ok(headers)
}

fn secret(text: &str) -> Option<HeaderValue> {
    let mut value = HeaderValue::from_str(text).ok()?;
    value.set_sensitive(true);
    Some(value)
}
