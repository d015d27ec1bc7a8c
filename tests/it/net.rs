//! The HTTP client against servers and proxies on loopback: who is reached, through what, and what is said when not.

use crate::command::PATIENCE;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use sortie::model::ModelErrorKind;
use sortie::model::http::{Egress, NetSettings, Proxies, http_client};
use sortie::model::wire::Failure;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};

/// A server that takes what comes and answers each connection with the same bytes; its requests can be read.
pub(crate) struct Server {
    /// `127.0.0.1:PORT`.
    pub(crate) place: String,
    requests: Mutex<Receiver<String>>,
}

impl Server {
    pub(crate) fn new(answer: impl Into<String>) -> Self {
        let answer = answer.into();
        Server::serve(move |mut stream, heard| {
            let head = head(&mut stream);
            // What is left unread when a connection is closed resets it, and the answer may be lost.
            let length =
                head.lines().find_map(|line| line.to_lowercase().strip_prefix("content-length: ")?.parse().ok());
            let _ = stream.read_exact(&mut vec![0; length.unwrap_or(0)]);
            let _ = heard.send(head);
            let _ = stream.write_all(answer.as_bytes());
        })
    }

    /// Speaks TLS with a certificate of the private root in `tests/it/tls`.
    fn tls(answer: &'static str) -> Self {
        let certificates = CertificateDer::pem_file_iter(tls("server.pem")).unwrap().map(Result::unwrap).collect();
        let key = PrivateKeyDer::from_pem_file(tls("server.key")).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config =
            rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let config = Arc::new(config.with_no_client_auth().with_single_cert(certificates, key).unwrap());
        Server::serve(move |stream, heard| {
            let session = rustls::ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = rustls::StreamOwned::new(session, stream);
            let _ = heard.send(head(&mut stream));
            let _ = stream.write_all(answer.as_bytes());
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })
    }

    fn serve(each: impl Fn(TcpStream, &Sender<String>) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = listener.local_addr().unwrap().to_string();
        let (heard, requests) = channel();
        let each = Arc::new(each);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (stream, heard, each) = (stream.unwrap(), heard.clone(), Arc::clone(&each));
                stream.set_read_timeout(Some(PATIENCE)).unwrap();
                // A client may open more connections than it uses.
                std::thread::spawn(move || each(stream, &heard));
            }
        });
        Server { place, requests: Mutex::new(requests) }
    }

    /// The heads of the requests until now; a connection on which nothing came is an empty one.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.requests.lock().unwrap().try_iter().collect()
    }

    /// The port alone.
    fn port(&self) -> &str {
        self.place.rsplit(':').next().unwrap()
    }
}

/// The head of a request, as far as it comes; of a TLS greeting, which a plain server cannot read, the first byte.
fn head(stream: &mut impl Read) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && head != [22] && stream.read(&mut byte).is_ok_and(|read| read == 1) {
        head.push(byte[0]);
    }
    String::from_utf8_lossy(&head).into_owned()
}

fn tls(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/tls").join(name)
}

/// A port on which nobody listens.
fn closed() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

/// The body of a GET, or what is said of the failure.
async fn get(net: &NetSettings, ca_file: Option<&Path>, address: &str) -> Result<String, Failure> {
    let http = http_client(net, ca_file).unwrap();
    let url = reqwest::Url::parse(address).unwrap();
    let trouble = |error: reqwest::Error| http.trouble(&error, &url);
    let sent = http.get(&url).unwrap().send();
    let response = tokio::time::timeout(PATIENCE, sent).await.expect("it ends").map_err(trouble)?;
    response.text().await.map_err(trouble)
}

async fn fails(net: &NetSettings, address: &str) -> String {
    let trouble = get(net, None, address).await.unwrap_err();
    assert_eq!(trouble.kind, ModelErrorKind::Network);
    let said = format!("{}; {}", trouble.message, trouble.hint);
    assert!(!said.contains("hush"), "{said}");
    said
}

fn through(proxy: &str, no: &str) -> NetSettings {
    let (all, no) = (proxy.to_string(), no.to_string());
    NetSettings { proxies: Proxies { all, no, ..Proxies::default() }, ..NetSettings::default() }
}

#[tokio::test]
async fn each_way_to_fail_has_words_of_its_own() {
    let direct = NetSettings::default();
    let nobody = closed();
    let said = fails(&direct, &format!("http://me:hush@{nobody}/v1?key=hush")).await;
    assert_eq!(
        said,
        format!("`{nobody}` cannot be reached: connection refused; check the base URL, and that the server runs")
    );

    let plain = Server::new("HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\n\r\n");
    let said = fails(&direct, &format!("https://{}", plain.place)).await;
    assert!(said.starts_with(&format!("`{}` does not speak TLS; check the base URL", plain.place)), "{said}");

    let private = Server::tls(OK);
    let said = fails(&direct, &format!("https://{}", private.place)).await;
    assert!(said.contains("certificate") && said.contains("its issuer is unknown; "), "{said}");
    assert!(said.contains("SSL_CERT_FILE") && said.contains("`ca_file`"), "{said}");

    let short = Server::new("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf");
    let said = fails(&direct, &format!("http://{}", short.place)).await;
    assert!(said.starts_with(&format!("the connection to `{}` broke while the reply was read", short.place)), "{said}");

    let nothing = Server::new("");
    let said = fails(&direct, &format!("http://{}", nothing.place)).await;
    assert!(said.starts_with(&format!("the request to `{}` failed: ", nothing.place)), "{said}");
}

#[tokio::test]
async fn a_name_that_does_not_exist_is_told_as_that() {
    let said = fails(&NetSettings::default(), "http://no-such-host.invalid/v1").await;
    assert!(said.starts_with("the name of `no-such-host.invalid` is not known (DNS); check the spelling"), "{said}");
}

#[tokio::test]
async fn a_proxy_in_the_way_is_named_without_its_password() {
    let proxy = closed();
    let refused = through(&format!("http://me:hush@{proxy}"), "");
    for address in ["http://api.test/v1", "https://api.test/v1"] {
        let said = fails(&refused, address).await;
        assert!(
            said.starts_with(&format!("the proxy `{proxy}` cannot be reached: connection refused; check HTTPS_PROXY")),
            "{said}"
        );
    }
    for (answer, expected) in [
        ("HTTP/1.1 403 Forbidden\r\n\r\n", "it refuses the tunnel"),
        ("HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "it wants a name and a password"),
        ("", "it closed the connection"),
    ] {
        let proxy = Server::new(answer);
        let said = fails(&through(&format!("http://me:hush@{}", proxy.place), ""), "https://api.test/v1").await;
        let words = format!("the proxy `{}` does not let requests to `api.test` through: {expected}; ", proxy.place);
        assert!(said.starts_with(&words), "{said}");
        assert!(proxy.heard()[0].starts_with("CONNECT api.test:443 "), "the name is resolved by the proxy");
    }
}

#[tokio::test]
async fn requests_go_through_the_proxy_unless_the_host_is_excepted() {
    let (server, proxy) = (Server::new(OK), Server::new(OK));
    let address = format!("http://{}/v1", server.place);
    assert_eq!(get(&through(&proxy.place, "127.0.0.1"), None, &address).await.unwrap(), "ok");
    assert_eq!((server.heard().len(), proxy.heard().len()), (1, 0), "NO_PROXY");
    assert_eq!(
        get(&through(&format!("http://me:pw@{}", proxy.place), "other.test"), None, &address).await.unwrap(),
        "ok"
    );
    let heard = proxy.heard();
    assert_eq!((server.heard().len(), heard.len()), (0, 1));
    assert!(heard[0].starts_with(&format!("GET {address} ")), "{heard:?}");
    assert!(heard[0].to_lowercase().contains("proxy-authorization: basic bwu6chc="), "{heard:?}");
    assert!(heard[0].contains("user-agent: sortie/"), "{heard:?}");
}

#[tokio::test]
async fn a_private_root_can_be_given_in_two_ways() {
    let server = Server::tls(OK);
    let by_name = format!("https://localhost:{}", server.port());
    let root = tls("root.pem");
    let net = NetSettings { cert_file: Some(root.clone()), ..NetSettings::default() };
    assert_eq!(get(&net, None, &format!("https://{}", server.place)).await.unwrap(), "ok");
    assert_eq!(get(&NetSettings::default(), Some(&root), &by_name).await.unwrap(), "ok");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let there = Server::new(OK);
    let answer =
        format!("HTTP/1.1 307 Temporary Redirect\r\nlocation: http://{}/v1\r\ncontent-length: 0\r\n\r\n", there.place);
    let here = Server::new(answer);
    let http = http_client(&NetSettings::default(), None).unwrap();
    let url = reqwest::Url::parse(&format!("http://{}/v1", here.place)).unwrap();
    let response = http.post(&url).unwrap().header("x-api-key", "k").body("{}").send().await.unwrap();
    assert_eq!(response.status(), 307);
    assert_eq!((here.heard().len(), there.heard().len()), (1, 0));
}

#[tokio::test]
async fn a_forbidden_host_sees_no_connection() {
    let server = Server::new(OK);
    let url = reqwest::Url::parse(&format!("http://{}/v1", server.place)).unwrap();
    for network in ["offline", "other.test"] {
        let net = NetSettings { egress: Egress::parse(network).unwrap(), ..NetSettings::default() };
        let error = http_client(&net, None).unwrap().post(&url).unwrap_err();
        assert_eq!(error.kind, ModelErrorKind::Egress);
    }
    let net = NetSettings { egress: Egress::parse("127.0.0.1").unwrap(), ..NetSettings::default() };
    assert_eq!(get(&net, None, url.as_str()).await.unwrap(), "ok");
    assert_eq!(server.heard().len(), 1, "the permitted one alone");
}
