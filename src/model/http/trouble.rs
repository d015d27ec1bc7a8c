//! What an error of the HTTP client means: one fragment and one next step per way in which a connection can fail.
//!
//! Nothing of the address but its host and port is ever told: a URL may hold a password.

use crate::model::ModelErrorKind;
use crate::model::wire::Failure;
use rustls::CertificateError;
use std::error::Error;
use std::io;

/// Reads an error by what is at the bottom of it; `place` is where the request was to go, `proxy` what it went through.
pub(super) fn read(error: &reqwest::Error, place: &str, proxy: Option<&str>) -> Failure {
    let causes = causes(error);
    if let Some(tls) = causes.iter().find_map(|cause| cause.downcast_ref::<rustls::Error>()) {
        return of_tls(tls, place);
    }
    if error.is_dns() {
        let (name, hint) = match proxy {
            Some(proxy) => (format!("the proxy `{proxy}`"), "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY"),
            None => (format!("`{place}`"), "check the spelling of the base URL and your network"),
        };
        return trouble(format!("the name of {name} is not known (DNS)"), hint);
    }
    if let Some(refused) = tunnel(&causes) {
        let proxy = proxy.unwrap_or("?");
        return trouble(
            format!("the proxy `{proxy}` does not let requests to `{place}` through: {refused}"),
            "check the proxy's address and password, or name the host in NO_PROXY",
        );
    }
    let reason = reason(&causes);
    if error.is_timeout() {
        let (what, hint) = match (error.is_connect(), proxy) {
            (true, Some(proxy)) => (format!("the proxy `{proxy}`"), "check the proxy's address"),
            (true, None) => (format!("`{place}`"), "check the base URL, your network, and whether a proxy is needed"),
            (false, _) => return trouble(format!("`{place}` did not answer in time"), ""),
        };
        return trouble(format!("{what} did not take a connection in time"), hint);
    }
    if error.is_connect() {
        return match proxy {
            Some(proxy) => trouble(
                format!("the proxy `{proxy}` cannot be reached: {reason}"),
                "check HTTPS_PROXY, HTTP_PROXY and ALL_PROXY, or name the host in NO_PROXY",
            ),
            None => trouble(
                format!("`{place}` cannot be reached: {reason}"),
                "check the base URL, and that the server runs",
            ),
        };
    }
    if error.is_body() || error.is_decode() {
        return trouble(format!("the connection to `{place}` broke while the reply was read: {reason}"), "");
    }
    trouble(format!("the request to `{place}` failed: {reason}"), "")
}

/// What happened, with the host in it, and what to do.
fn trouble(message: String, hint: &str) -> Failure {
    Failure { hint: hint.to_string(), ..Failure::new(ModelErrorKind::Network, message) }
}

/// All errors below this one, itself first. What a system error carries is one more level, which `source` skips.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> Vec<&'a (dyn Error + 'static)> {
    let mut causes = Vec::new();
    let mut next = Some(error);
    while let Some(cause) = next {
        causes.push(cause);
        next = match cause.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner),
            None => cause.source(),
        };
    }
    causes
}

/// What a proxy said to our wish for a tunnel. The error's type is private to its crate; its text is all there is.
fn tunnel(causes: &[&(dyn Error + 'static)]) -> Option<String> {
    let text = causes
        .iter()
        .map(ToString::to_string)
        .find_map(|text| Some(text.strip_prefix("tunnel error: ")?.to_string()))?;
    match text.as_str() {
        // Nothing of a tunnel yet: the proxy could not be reached at all.
        "failed to create underlying connection" => None,
        "unsuccessful" => Some("it refuses the tunnel".to_string()),
        "unexpected end of file" => Some("it closed the connection".to_string()),
        "proxy authorization required" => Some("it wants a name and a password".to_string()),
        _ => Some(text),
    }
}

/// The bottom of it: the system's words where there are any, without our number for them.
fn reason(causes: &[&(dyn Error + 'static)]) -> String {
    let bottom = causes.last().map(ToString::to_string).unwrap_or_default();
    let words = bottom.split_once(" (os error").map_or(bottom.as_str(), |(words, _)| words).to_lowercase();
    crate::text::clip(&crate::text::printable(&words), 200).into_owned()
}

fn of_tls(error: &rustls::Error, place: &str) -> Failure {
    use rustls::Error as Tls;
    match error {
        Tls::InvalidCertificate(CertificateError::UnknownIssuer) => trouble(
            format!("the TLS certificate of `{place}` is not trusted: its issuer is unknown"),
            "if the server or your proxy has a private root, name its PEM file in SSL_CERT_FILE, or in `ca_file` of the provider",
        ),
        Tls::InvalidCertificate(CertificateError::Expired | CertificateError::ExpiredContext { .. }) => trouble(
            format!("the TLS certificate of `{place}` has expired"),
            "check this machine's clock; if it is right, the server's certificate must be renewed",
        ),
        Tls::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        ) => trouble(
            format!("the TLS certificate of `{place}` is for another name"),
            "check the base URL: the certificate must name this host",
        ),
        Tls::InvalidCertificate(other) => {
            trouble(format!("the TLS certificate of `{place}` is not accepted: {}", short(other)), "")
        }
        Tls::InvalidMessage(_) => trouble(
            format!("`{place}` does not speak TLS"),
            "check the base URL: perhaps it is meant to begin with http://",
        ),
        // The enum is not ours and grows: its own words do for the rest.
        other => trouble(format!("no TLS connection to `{place}`: {}", short(other)), ""),
    }
}

fn short(error: &dyn std::fmt::Display) -> String {
    crate::text::clip(&crate::text::printable(&error.to_string()), 200).into_owned()
}
