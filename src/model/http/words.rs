//! What users read when a model call failed: what, which provider, what to do.

use super::provider::Auth;
use super::server::Server;
use crate::model::gate::GiveUp;
use crate::model::wire::Failure;
use crate::model::{ModelError, ModelErrorKind};

/// The call was given up before the model had said anything.
pub(super) fn gave_up(model: &str, server: &Server, give_up: &GiveUp) -> ModelError {
    let failure = &give_up.failure;
    let provider = &server.provider;
    let name = &provider.name;
    let host = host(server);
    let said = said(failure);
    let (message, hint) = match failure.kind {
        ModelErrorKind::Auth => match &provider.auth {
            Auth::Key { variable, .. } => (
                format!("`{name}` at {host} refused the key in {variable}{said}"),
                format!("check {variable}, and that it belongs to this provider"),
            ),
            Auth::None => (
                format!("`{name}` at {host} wants a key, and none is configured{said}"),
                format!("name the variable that holds it: [providers.{name}] key_env = \"…\""),
            ),
        },
        ModelErrorKind::Quota => (
            format!("`{name}` refuses `{model}`: quota or credit is used up{said}"),
            "see the provider's billing page; waiting does not help".to_string(),
        ),
        ModelErrorKind::NotFound if failure.status.is_some_and(|status| (300..400).contains(&status)) => (
            format!("`{name}` is not at {}{said}", server.address()),
            "correct the base URL: redirects are not followed".to_string(),
        ),
        ModelErrorKind::NotFound => (
            format!("`{name}` at {} knows no `{model}`, or the address is wrong{said}", server.address()),
            "check the model's name (`sortie models`) and the base URL".to_string(),
        ),
        ModelErrorKind::RateLimit => (
            format!("`{name}` kept refusing because of its rate limit{said}"),
            format!("lower the load: `streams`, `rpm` or `tpm` in [providers.{name}], or --jobs"),
        ),
        ModelErrorKind::Overloaded => (
            format!("`{name}` is overloaded{said}"),
            "try later, or name another model to fall back to: --fallback-model PROVIDER/MODEL".to_string(),
        ),
        ModelErrorKind::Server => (format!("`{name}` at {host} broke{said}"), String::new()),
        ModelErrorKind::Network | ModelErrorKind::Cut | ModelErrorKind::Silent => (
            format!("no answer of `{name}`{said}"),
            match failure.hint.as_str() {
                "" => "check the base URL, the network and the proxy settings".to_string(),
                hint => hint.to_string(),
            },
        ),
        ModelErrorKind::ContextFull => (
            format!("the conversation does not fit the window of `{model}`{said}"),
            "split the node's work, or use a model with a larger window".to_string(),
        ),
        ModelErrorKind::NoTools => (
            format!("`{model}` has no tool calling here{said}"),
            format!("ask for JSON instead: [providers.{name}] tool_mode = \"json-schema\""),
        ),
        ModelErrorKind::Protocol => (
            format!("`{name}` at {} answered with something that its protocol does not know{said}", server.address()),
            "check the base URL and `protocol`; a run with --trace-http records what came".to_string(),
        ),
        ModelErrorKind::InvalidRequest | ModelErrorKind::Egress | ModelErrorKind::Script => (
            format!("`{name}` did not accept the request for `{model}`{said}"),
            "a run with --trace-http records what was sent".to_string(),
        ),
    };
    let tried = give_up.words().map_or_else(String::new, |words| format!("; {words}"));
    ModelError::new(failure.kind, message + &tried).hint(hint).request(failure.request_id.clone())
}

/// The stream broke after the model had begun to speak.
pub(super) fn cut(model: &str, failure: &Failure) -> ModelError {
    let kind = match failure.kind {
        ModelErrorKind::Network => ModelErrorKind::Cut,
        kind => kind,
    };
    let message = format!("the reply of `{model}` broke off in the middle ({})", failure.message);
    ModelError::new(kind, message).request(failure.request_id.clone())
}

/// The server's own words, in brackets.
fn said(failure: &Failure) -> String {
    match (failure.status, failure.message.as_str()) {
        (None, "") => String::new(),
        (None, words) => format!(": {words}"),
        (Some(status), "") => format!(" ({status})"),
        (Some(status), words) => format!(" ({status}: {words})"),
    }
}

fn host(server: &Server) -> String {
    let url = &server.endpoint;
    match (url.host_str(), url.port()) {
        (Some(host), Some(port)) => format!("{host}:{port}"),
        (Some(host), None) => host.to_string(),
        (None, _) => url.to_string(),
    }
}
