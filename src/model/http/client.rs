//! The one place that makes an HTTP client: which roots it trusts, through which proxy it goes, where it may go at all.
//!
//! Nothing here reads the environment: variables are read at the edge and handed in as [`NetSettings`].
//!
//! - **Roots** add up: the public ones that come along, the system's (or `SSL_CERT_FILE` in their place, as with every
//!   other tool), and a provider's own `ca_file`.
//! - **Proxies** are what the settings say, by the rules of curl; a proxy's name and password go nowhere else.
//! - **Redirects** are not followed: a key goes to the host that the user named, or nowhere.
//! - **Retries** are off: the gate is the only thing that sends a request twice.

use super::egress::{Egress, place};
use super::trouble;
use crate::model::ModelError;
use crate::model::wire::Failure;
use hyper_util::client::proxy::matcher::Matcher;
use reqwest::{Method, NoProxy, Proxy, RequestBuilder, Url, redirect, retry};
use rustls::pki_types::CertificateDer;
use rustls::{ClientConfig, RootCertStore};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long a connection may take to come about, TLS included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the system asks whether a silent peer is still there.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// What decides how servers are reached.
#[derive(Clone, Debug, Default)]
pub struct NetSettings {
    /// Where requests may go.
    pub egress: Egress,
    /// Proxies.
    pub proxies: Proxies,
    /// `SSL_CERT_FILE`: roots in place of the system's.
    pub cert_file: Option<PathBuf>,
}

/// Proxies, as in the variables of the same names; empty is none.
#[derive(Clone, Default)]
pub struct Proxies {
    /// `HTTP_PROXY`.
    pub http: String,
    /// `HTTPS_PROXY`.
    pub https: String,
    /// `ALL_PROXY`: where the one above says nothing.
    pub all: String,
    /// `NO_PROXY`: hosts, domains and networks that are reached directly.
    pub no: String,
}

impl std::fmt::Debug for Proxies {
    /// Without the addresses: they may hold passwords.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let set = |text: &str| !text.is_empty();
        let mut out = f.debug_struct("Proxies");
        out.field("http", &set(&self.http)).field("https", &set(&self.https)).field("all", &set(&self.all));
        out.field("no", &self.no).finish()
    }
}

/// A client that knows where it may go. Cheap to clone: all clones share one pool of connections.
#[derive(Clone, Debug)]
pub struct Http {
    client: reqwest::Client,
    egress: Egress,
    /// The same rules that the client goes by, to say in messages which way a request went.
    proxies: Arc<Matcher>,
}

/// Makes the client for a provider; `ca_file` holds roots of its own.
///
/// # Errors
/// A fragment that names the file or proxy that cannot be used.
pub fn http_client(net: &NetSettings, ca_file: Option<&Path>) -> Result<Http, String> {
    let mut builder = reqwest::Client::builder()
        .tls_backend_preconfigured(tls(net, ca_file)?)
        // The environment first goes out as a whole, then in come those that were handed to us.
        .no_proxy()
        .redirect(redirect::Policy::none())
        .retry(retry::never())
        .referer(false)
        .user_agent(concat!("sortie/", env!("CARGO_PKG_VERSION")))
        .connect_timeout(CONNECT_TIMEOUT)
        .tcp_keepalive(KEEPALIVE);
    for proxy in net.proxies.for_client()? {
        builder = builder.proxy(proxy);
    }
    let client = builder.build().map_err(|error| format!("cannot make an HTTP client: {}", error.without_url()))?;
    Ok(Http { client, egress: net.egress.clone(), proxies: Arc::new(net.proxies.matcher()) })
}

impl Http {
    /// Begins a POST.
    ///
    /// # Errors
    /// When the settings forbid this address; nothing has been opened then.
    pub fn post(&self, url: &Url) -> Result<RequestBuilder, ModelError> {
        self.request(Method::POST, url)
    }

    /// Begins a GET.
    ///
    /// # Errors
    /// As [`Http::post`].
    pub fn get(&self, url: &Url) -> Result<RequestBuilder, ModelError> {
        self.request(Method::GET, url)
    }

    /// Whether the settings let requests go to this address.
    pub(super) fn permits(&self, url: &Url) -> Result<(), ModelError> {
        self.egress.check(url)
    }

    fn request(&self, method: Method, url: &Url) -> Result<RequestBuilder, ModelError> {
        self.permits(url)?;
        Ok(self.client.request(method, url.clone()))
    }

    /// What an error of this client means for a request to this address.
    pub fn trouble(&self, error: &reqwest::Error, url: &Url) -> Failure {
        trouble::read(error, &place(url), self.proxy_of(url).as_deref())
    }

    /// `host:port` of the proxy that requests to this address go through, if any.
    pub fn proxy_of(&self, url: &Url) -> Option<String> {
        let intercept = self.proxies.intercept(&url.as_str().parse().ok()?)?;
        // Its address has no user in it: that is kept apart.
        Some(intercept.uri().authority()?.to_string())
    }
}

impl Proxies {
    fn for_client(&self) -> Result<Vec<Proxy>, String> {
        let no = (!self.no.trim().is_empty()).then(|| NoProxy::from_string(&self.no)).flatten();
        let mut proxies = Vec::new();
        // In this order, as with curl: the first that fits is taken.
        for (variable, text, make) in [
            ("HTTP_PROXY", &self.http, Proxy::http::<Url> as fn(Url) -> reqwest::Result<Proxy>),
            ("HTTPS_PROXY", &self.https, Proxy::https::<Url>),
            ("ALL_PROXY", &self.all, Proxy::all::<Url>),
        ] {
            if let Some(url) = proxy_url(variable, text)? {
                let proxy =
                    make(url).map_err(|error| format!("`{variable}` cannot be used: {}", error.without_url()))?;
                proxies.push(proxy.no_proxy(no.clone()));
            }
        }
        Ok(proxies)
    }

    fn matcher(&self) -> Matcher {
        let trimmed = |text: &str| text.trim().to_string();
        Matcher::builder()
            .http(trimmed(&self.http))
            .https(trimmed(&self.https))
            .all(trimmed(&self.all))
            .no(trimmed(&self.no))
            .build()
    }
}

/// A proxy's address; without a scheme it is `http`. Never shown: it may hold a password.
fn proxy_url(variable: &str, text: &str) -> Result<Option<Url>, String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok(None);
    }
    let spelled = if text.contains("://") { text.to_string() } else { format!("http://{text}") };
    let url = Url::parse(&spelled).map_err(|error| format!("`{variable}` is not the address of a proxy: {error}"))?;
    match url.scheme() {
        "http" | "https" => Ok(Some(url)),
        other => Err(format!("`{variable}` names a proxy that speaks `{other}`; sortie knows http and https proxies")),
    }
}

/// TLS by `ring`, named here so that no process-wide default is needed or changed.
fn tls(net: &NetSettings, ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let versions = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
    let builder = versions.map_err(|error| format!("TLS cannot be set up: {error}"))?;
    let mut config = builder.with_root_certificates(roots(net, ca_file)?).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn roots(net: &NetSettings, ca_file: Option<&Path>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore { roots: webpki_roots::TLS_SERVER_ROOTS.to_vec() };
    match &net.cert_file {
        Some(file) => add_file(&mut roots, file, "SSL_CERT_FILE")?,
        // What the system has may be missing or broken in parts: the roots that come along are there anyway.
        None => _ = roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs),
    }
    if let Some(file) = ca_file {
        add_file(&mut roots, file, "ca_file")?;
    }
    Ok(roots)
}

fn add_file(roots: &mut RootCertStore, file: &Path, setting: &str) -> Result<(), String> {
    let shown = file.display();
    let found = rustls_native_certs::load_certs_from_paths(Some(file), None);
    let certificates: Vec<CertificateDer<'static>> = found.certs;
    if let (true, Some(error)) = (certificates.is_empty(), found.errors.first()) {
        return Err(format!("cannot read the certificates in `{shown}` (`{setting}`): {error}"));
    }
    match roots.add_parsable_certificates(certificates) {
        (0, _) => Err(format!("`{shown}` (`{setting}`) holds no certificate in PEM form")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    fn through(proxies: Proxies) -> Http {
        http_client(&NetSettings { proxies, ..NetSettings::default() }, None).unwrap()
    }

    #[test]
    fn a_proxy_is_taken_by_scheme_and_left_out_by_host() {
        let http = through(Proxies {
            https: "http://user:secret@secure.test:1".to_string(),
            all: "any.test:2".to_string(),
            no: "127.0.0.1, 10.0.0.0/8, .direct.test".to_string(),
            ..Proxies::default()
        });
        for (address, proxy) in [
            ("https://api.test/v1", Some("secure.test:1")),
            ("http://api.test/v1", Some("any.test:2")),
            ("http://127.0.0.1:8080", None),
            ("https://10.1.2.3", None),
            ("https://a.direct.test", None),
            ("https://direct.test", None),
            ("https://indirect.test", Some("secure.test:1")),
        ] {
            assert_eq!(http.proxy_of(&url(address)).as_deref(), proxy, "{address}");
        }
        assert!(!format!("{http:?}").contains("secret"));
    }

    #[test]
    fn a_setting_that_cannot_be_used_is_named_without_its_password() {
        for (text, expected) in [
            ("socks5://user:secret@h:1", "speaks `socks5`"),
            ("http://user:secret@", "`HTTP_PROXY` is not the address of a proxy"),
            ("http://user:secret@h:99999", "`HTTP_PROXY` is not the address of a proxy"),
        ] {
            let proxies = Proxies { http: text.to_string(), ..Proxies::default() };
            let error = http_client(&NetSettings { proxies, ..NetSettings::default() }, None).unwrap_err();
            assert!(error.contains(expected) && !error.contains("secret"), "{error}");
        }
        let folder = tempfile::tempdir().unwrap();
        let empty = folder.path().join("empty.pem");
        std::fs::write(&empty, "no certificate").unwrap();
        for file in [&empty, &folder.path().join("missing.pem")] {
            let error = http_client(&NetSettings::default(), Some(file)).unwrap_err();
            assert!(error.contains("`ca_file`") && error.contains(&file.display().to_string()), "{error}");
            let net = NetSettings { cert_file: Some(file.clone()), ..NetSettings::default() };
            let error = http_client(&net, None).unwrap_err();
            assert!(error.contains("`SSL_CERT_FILE`"), "{error}");
        }
    }

    #[test]
    fn a_private_root_comes_on_top_of_the_public_ones() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("root.pem");
        std::fs::write(&file, include_str!("../../../tests/it/tls/root.pem")).unwrap();
        let public = webpki_roots::TLS_SERVER_ROOTS.len();
        let instead_of_the_systems = NetSettings { cert_file: Some(file.clone()), ..NetSettings::default() };
        assert_eq!(roots(&instead_of_the_systems, None).unwrap().len(), public + 1);
        assert_eq!(roots(&instead_of_the_systems, Some(&file)).unwrap().len(), public + 2);
    }
}
