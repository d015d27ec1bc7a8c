//! A provider as it is configured: where it is, how it is spoken to, with which key and how fast.

use crate::model::wire::Protocol;
use reqwest::Url;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A provider of models.
#[derive(Clone, Debug)]
pub struct Provider {
    /// As in `provider/model`.
    pub name: String,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// As the user wrote it: with or without slash and version.
    pub base_url: String,
    /// How we say who we are.
    pub auth: Auth,
    /// Further headers.
    pub headers: Vec<(String, Secret)>,
    /// Streams that may be open at once.
    pub streams: usize,
    /// Requests per minute, where the user limits them.
    pub rpm: Option<u32>,
    /// Tokens per minute, where the user limits them.
    pub tpm: Option<u64>,
    /// How long a stream may go without content, where it is not the run's.
    pub idle_timeout: Option<Duration>,
    /// How tools are offered.
    pub tool_mode: ToolMode,
    /// Roots that its certificate may come from, on top of the others.
    pub ca_file: Option<PathBuf>,
}

impl Provider {
    /// Where its requests go.
    ///
    /// # Errors
    /// As [`endpoint`].
    pub fn endpoint(&self) -> Result<Url, String> {
        endpoint(&self.base_url, self.protocol)
    }
}

/// Where requests go, from a base URL as people write it: with or without slash, version or the path itself.
///
/// - A base URL with a version in it (`/v1`, `/v1beta/openai`, `/api/paas/v4`) gets the protocol's path.
/// - One without gets `v1` and the path.
/// - One that ends in a path of one of the protocols has it replaced by this protocol's, and gets no version: so every
///   place can be named.
/// - A query is kept: some gateways want one.
///
/// # Errors
/// A fragment when it is not the URL of a server, or has a user or password in it.
pub fn endpoint(base_url: &str, protocol: Protocol) -> Result<Url, String> {
    let text = base_url.trim();
    let example = "write it as `https://api.example.com/v1`";
    // Nothing of it is repeated before it is known to hold no password.
    let mut url = match Url::parse(text) {
        Ok(url) => url,
        Err(error) if text.contains("://") => return Err(format!("the base URL cannot be read ({error}): {example}")),
        Err(_) => return Err(format!("the base URL has no `http://` or `https://` at its start: {example}")),
    };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(format!("the base URL does not begin with `http://` or `https://` and a host: {example}"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("the base URL holds a user name or a password: keep them in a variable, \
                    and name that in `key_env` or in `headers`"
            .to_string());
    }
    let mut segments: Vec<&str> = url.path().split('/').filter(|segment| !segment.is_empty()).collect();
    let known = [Protocol::Anthropic, Protocol::OpenaiChat, Protocol::OpenaiResponses];
    let own: Option<usize> = known.iter().find_map(|protocol| {
        let path: Vec<&str> = protocol.path().split('/').collect();
        segments.ends_with(&path).then_some(path.len())
    });
    match own {
        Some(len) => segments.truncate(segments.len() - len),
        None if segments.iter().any(|segment| is_version(segment)) => {}
        None => segments.push("v1"),
    }
    segments.push(protocol.path());
    let path = format!("/{}", segments.join("/"));
    url.set_path(&path);
    url.set_fragment(None);
    Ok(url)
}

/// `v1`, `v4`, `v1beta`, `v1beta2`.
fn is_version(segment: &str) -> bool {
    let Some(rest) = segment.strip_prefix('v') else { return false };
    let word = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
    rest.starts_with(|c: char| c.is_ascii_digit()) && matches!(word, "" | "alpha" | "beta")
}

/// How we say who we are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Auth {
    /// Not at all: a local server.
    None,
    /// With a key.
    Key {
        /// The key, trimmed.
        key: Secret,
        /// Where it goes.
        header: AuthHeader,
        /// The variable that it came from, for messages.
        variable: String,
    },
}

/// Where a key goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuthHeader {
    /// `x-api-key: KEY`.
    ApiKey,
    /// `authorization: Bearer KEY`.
    Bearer,
}

/// How tools are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ToolMode {
    /// By the protocol; by JSON Schema once the backend has refused tools.
    #[default]
    Auto,
    /// Only by the protocol.
    Native,
    /// The reply is a JSON object that holds either tool calls or the final answer.
    JsonSchema,
}

/// Text that must not be shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<str>);

impl Secret {
    /// Hides this text from `Debug`. Blanks and line ends around it are taken off: they come from files and shells.
    pub fn new(text: &str) -> Self {
        Secret(text.trim().into())
    }

    /// The text itself, for the one place that sends it.
    pub fn reveal(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_a_base_url_reaches_exactly_one_path() {
        let plain = ["http://h", "http://h/", "http://h/v1", "http://h/v1/", "http://h//v1//", " http://h/v1 "];
        let below = ["http://h/anthropic", "http://h/anthropic/", "http://h/anthropic/v1/", "http://h/anthropic/v1"];
        for protocol in [Protocol::Anthropic, Protocol::OpenaiChat, Protocol::OpenaiResponses] {
            let path = protocol.path();
            for base in plain {
                assert_eq!(endpoint(base, protocol).unwrap().as_str(), format!("http://h/v1/{path}"), "{base}");
            }
            for base in below {
                assert_eq!(
                    endpoint(base, protocol).unwrap().as_str(),
                    format!("http://h/anthropic/v1/{path}"),
                    "{base}"
                );
            }
            for full in ["http://h/v1/messages", "http://h/v1/chat/completions/", "http://h/v1/responses"] {
                assert_eq!(endpoint(full, protocol).unwrap().as_str(), format!("http://h/v1/{path}"), "{full}");
            }
        }
    }

    #[test]
    fn other_versions_full_paths_and_queries_are_kept() {
        for (base, expected) in [
            ("https://h/v1beta/openai", "https://h/v1beta/openai/chat/completions"),
            ("https://h/v1beta/openai/", "https://h/v1beta/openai/chat/completions"),
            ("https://h/api/paas/v4", "https://h/api/paas/v4/chat/completions"),
            ("https://h/compatible-mode/v1", "https://h/compatible-mode/v1/chat/completions"),
            ("https://h/chat/completions", "https://h/chat/completions"),
            ("https://h/inference/chat/completions", "https://h/inference/chat/completions"),
            ("https://h/openai?api-version=2", "https://h/openai/v1/chat/completions?api-version=2"),
            ("https://h/v1#part", "https://h/v1/chat/completions"),
            ("https://h/vision", "https://h/vision/v1/chat/completions"),
            ("https://h/v", "https://h/v/v1/chat/completions"),
            ("http://[::1]:8080", "http://[::1]:8080/v1/chat/completions"),
            ("HTTPS://Api.Example.com:443/v1", "https://api.example.com/v1/chat/completions"),
        ] {
            assert_eq!(endpoint(base, Protocol::OpenaiChat).unwrap().as_str(), expected, "{base}");
        }
    }

    #[test]
    fn what_is_no_base_url_is_said_without_repeating_it() {
        for (base, expected) in [
            ("", "has no `http://`"),
            ("api.example.com/v1", "has no `http://`"),
            ("localhost:8080", "does not begin with `http://`"),
            ("ftp://h/secret", "does not begin with `http://`"),
            ("http://", "cannot be read"),
            ("http://h:99999", "cannot be read"),
            ("http://user:secret@h/v1", "holds a user name or a password"),
            ("http://secret@h/v1", "holds a user name or a password"),
        ] {
            let error = endpoint(base, Protocol::Anthropic).unwrap_err();
            assert!(error.contains(expected) && !error.contains("secret"), "{base}: {error}");
        }
    }
}
