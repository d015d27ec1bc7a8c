//! Where sortie's own requests may go. Asked before any socket opens.

use crate::model::{ModelError, ModelErrorKind};
use reqwest::Url;
use std::fmt;

/// Where requests may go: the setting `network`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Egress {
    /// Anywhere.
    #[default]
    Online,
    /// Nowhere, this machine included.
    Offline,
    /// Only to these.
    Hosts(Vec<Host>),
}

/// An entry of the list of hosts: `api.example.com`, `*.example.com`, `127.0.0.1`, `[::1]:8080`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// Lower case, without the dot at its end; an IPv6 address without brackets.
    name: String,
    /// Whether the name stands for what is below it.
    below: bool,
    /// Any, when there is none.
    port: Option<u16>,
}

impl Egress {
    /// Reads `offline`, `online` or a list of hosts with commas between them: the spelling of flags and variables.
    ///
    /// # Errors
    /// A fragment that says which entry is wrong and why.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.trim() {
            "offline" => Ok(Egress::Offline),
            "online" => Ok(Egress::Online),
            list => list.split(',').map(Host::parse).collect::<Result<_, _>>().map(Egress::Hosts),
        }
    }

    /// Whether a request may go to this address.
    ///
    /// # Errors
    /// [`ModelErrorKind::Egress`], with the setting that would permit it.
    pub fn check(&self, url: &Url) -> Result<(), ModelError> {
        let permitted = match self {
            Egress::Online => true,
            Egress::Offline => false,
            Egress::Hosts(hosts) => hosts.iter().any(|host| host.permits(url)),
        };
        if permitted {
            return Ok(());
        }
        let place = place(url);
        let host = url.host_str().unwrap_or_default();
        let hint = match self {
            Egress::Online | Egress::Offline => {
                format!("to permit this host alone, set network = [\"{host}\"] in the config or --network {host}")
            }
            Egress::Hosts(_) => format!("add {host} to --network, or \"{host}\" to `network` in the config"),
        };
        Err(ModelError::new(ModelErrorKind::Egress, format!("`{place}` may not be reached: network is {self}"))
            .hint(hint))
    }
}

impl fmt::Display for Egress {
    /// As it reads after "network is".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Egress::Online => f.write_str("online"),
            Egress::Offline => f.write_str("offline"),
            Egress::Hosts(hosts) if hosts.is_empty() => f.write_str("limited to no host at all"),
            Egress::Hosts(hosts) => {
                let hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
                write!(f, "limited to {}", hosts.join(", "))
            }
        }
    }
}

impl Host {
    /// Reads one entry.
    ///
    /// # Errors
    /// A fragment that says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let shown = crate::text::clip(text, 80);
        let wrong = |why: &str| Err(format!("`{shown}` is not a host: {why}"));
        if text.is_empty() {
            return Err("a host is empty".to_string());
        }
        if text.contains(['/', '@', '?', '#']) || text.contains(char::is_whitespace) {
            return wrong("write its name or address alone, such as `api.example.com` or `127.0.0.1:8080`");
        }
        if text == "*" {
            return wrong("leave `network` out to permit all hosts");
        }
        let (below, rest) = match text.strip_prefix("*.") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        if rest.contains('*') {
            return wrong("`*.` may stand only at its start");
        }
        // As a URL's authority, so that both sides are spelled the same: case, IPv6, international names. A bare IPv6
        // address lacks its brackets.
        let authority = if rest.parse::<std::net::Ipv6Addr>().is_ok() { format!("[{rest}]") } else { rest.to_string() };
        // Of the two schemes one has another default port, which is then kept.
        let parsed =
            Url::parse(&format!("http://{authority}")).ok().zip(Url::parse(&format!("https://{authority}")).ok());
        match parsed.as_ref().map(|(a, b)| (a.host_str(), a.port().or(b.port()))) {
            Some((Some(name), port)) => Ok(Host { name: bare(name), below, port }),
            Some((None, _)) | None => wrong("neither a name nor an address"),
        }
    }

    fn permits(&self, url: &Url) -> bool {
        let name = bare(url.host_str().unwrap_or_default());
        let same = match self.below {
            false => name == self.name,
            true => name.strip_suffix(&self.name).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.')),
        };
        same && self.port.is_none_or(|port| url.port_or_known_default() == Some(port))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.below {
            f.write_str("*.")?;
        }
        match (self.name.contains(':'), self.port) {
            (true, Some(port)) => write!(f, "[{}]:{port}", self.name),
            (false, Some(port)) => write!(f, "{}:{port}", self.name),
            (_, None) => f.write_str(&self.name),
        }
    }
}

/// A host as it is compared.
fn bare(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').trim_end_matches('.').to_ascii_lowercase()
}

/// `host` or `host:port` of an address: what messages may say of it. Never its user, path or query.
pub(crate) fn place(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    match url.port() {
        Some(port) => format!("{host}:{port}"),
        None => host.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn permits(network: &str, url: &str) -> bool {
        Egress::parse(network).unwrap().check(&Url::parse(url).unwrap()).is_ok()
    }

    #[test]
    fn hosts_are_compared_whole_and_without_case() {
        for (network, url, permitted) in [
            ("online", "https://example.com/v1", true),
            ("offline", "https://example.com/v1", false),
            ("offline", "http://127.0.0.1:8080", false),
            ("offline", "http://localhost", false),
            ("127.0.0.1", "http://127.0.0.1:8080", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8080", true),
            ("127.0.0.1:8080", "http://127.0.0.1:8081", false),
            ("127.0.0.1", "http://localhost", false),
            ("Api.Example.com", "https://api.example.COM/v1", true),
            ("api.example.com", "https://api.example.com./v1", true),
            ("api.example.com.", "https://api.example.com/v1", true),
            ("api.example.com", "https://api.example.com.evil.test", false),
            ("api.example.com", "https://evil-api.example.com", false),
            ("api.example.com", "https://api.example.com@evil.test/", false),
            ("*.example.com", "https://api.example.com", true),
            ("*.example.com", "https://a.b.example.com", true),
            ("*.example.com", "https://example.com", false),
            ("*.example.com", "https://badexample.com", false),
            ("example.com:443", "https://example.com", true),
            ("example.com:80", "http://example.com", true),
            ("example.com:80", "https://example.com", false),
            ("::1", "http://[::1]:9", true),
            ("[::1]:9", "http://[::1]:9", true),
            ("[::1]:8", "http://[::1]:9", false),
            ("other.test, bücher.test", "https://xn--bcher-kva.test", true),
        ] {
            assert_eq!(permits(network, url), permitted, "{network} {url}");
        }
    }

    #[test]
    fn a_refusal_says_how_to_permit_the_host_and_never_the_rest_of_the_address() {
        let url = Url::parse("http://user:secret@127.0.0.1:8080/v1?key=secret").unwrap();
        let error = Egress::Offline.check(&url).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Egress);
        assert_eq!(error.message, "`127.0.0.1:8080` may not be reached: network is offline");
        assert!(error.hint.contains("network = [\"127.0.0.1\"]"), "{error}");
        assert!(!error.to_string().contains("secret"));
        let error = Egress::parse("a.test, *.b.test:1, [::1]:2").unwrap().check(&url).unwrap_err();
        assert_eq!(
            error.to_string(),
            "`127.0.0.1:8080` may not be reached: network is limited to a.test, *.b.test:1, [::1]:2; add 127.0.0.1 to --network, or \"127.0.0.1\" to `network` in the config"
        );
        let nothing = Egress::Hosts(Vec::new()).check(&url).unwrap_err();
        assert!(nothing.message.ends_with("limited to no host at all"), "{nothing}");
    }

    #[test]
    fn what_is_not_a_host_is_said() {
        for text in ["", "a,,b", "*", "http://a", "a/b", "user@a", "*a", "a.*", "a b", "[::1", "a:b", "a:99999999"] {
            assert!(Egress::parse(text).is_err(), "{text}");
        }
        let error = Egress::parse("https://api.example.com").unwrap_err();
        assert!(error.contains("write its name or address alone"), "{error}");
    }
}
