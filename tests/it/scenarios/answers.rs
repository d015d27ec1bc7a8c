//! A model server that answers from a file, byte by byte as the file says: what a scenario's `answers.toml` is.
//!
//! ```toml
//! protocol = "openai-chat"       # of the provider `test`, whose model `test/m` answers
//! provider = """…"""             # further lines of `[providers.test]`, if any
//! key = "{key}\r\n"              # what the key's variable holds; the key alone unless told
//!
//! [[answer]]                     # the first one that fits and was not given yet
//! to = "words"                   # only to a request that holds these
//! status = 429                   # 200 unless told
//! headers = { retry-after = "1" }
//! body = '''…'''                 # a stream of events, unless it begins with `{` or `<`
//! pieces = 3                     # bytes sent at once; all of them unless told
//! end = "close"                  # the connection breaks after the body; "stall" sends nothing more
//! times = 2                      # how often it is given; once unless told
//! ```

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answers {
    protocol: String,
    #[serde(default)]
    provider: String,
    #[serde(default = "key")]
    key: String,
    #[serde(default)]
    answer: Vec<Answer>,
}

#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    #[serde(default)]
    to: String,
    #[serde(default = "ok")]
    status: u16,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    #[serde(default)]
    body: String,
    pieces: Option<usize>,
    #[serde(default)]
    end: End,
    #[serde(default = "once")]
    times: usize,
}

#[derive(Clone, Copy, Default, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    #[default]
    Proper,
    Close,
    Stall,
}

fn ok() -> u16 {
    200
}

fn key() -> String {
    "{key}".to_string()
}

fn once() -> usize {
    1
}

/// A server that listens until the process ends.
pub(super) struct Server {
    shared: Arc<Shared>,
    /// `http://127.0.0.1:PORT`.
    pub(super) url: String,
    protocol: String,
    provider: String,
    /// What the key's variable holds; `{key}` stands for the key.
    pub(super) key: String,
}

struct Shared {
    left: Mutex<Vec<Answer>>,
    got: Mutex<Vec<(String, Value)>>,
}

impl Server {
    /// Starts one, if the scenario has answers.
    pub(super) fn of(scenario: &Path) -> Option<Server> {
        let text = std::fs::read_to_string(scenario.join("answers.toml")).ok()?;
        let answers: Answers = toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", scenario.display()));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shared = Arc::new(Shared { left: Mutex::new(answers.answer), got: Mutex::default() });
        let server = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let server = Arc::clone(&server);
                std::thread::spawn(move || server.talk(stream));
            }
        });
        Some(Server { shared, url, protocol: answers.protocol, provider: answers.provider, key: answers.key })
    }

    /// The user's settings that name it.
    pub(super) fn settings(&self) -> String {
        let provider = self.provider.replace("{server}", &self.url);
        let base = if provider.contains("base_url") { String::new() } else { format!("base_url = \"{}\"\n", self.url) };
        let key = if provider.contains("key_env") { "" } else { "key_env = \"TEST_KEY\"\n" };
        format!("[providers.test]\nprotocol = \"{}\"\n{base}{key}{provider}", self.protocol)
    }

    /// What it was asked, and how many answers nobody asked for.
    pub(super) fn asked(&self) -> (Vec<(String, Value)>, usize) {
        let got = self.shared.got.lock().unwrap().clone();
        (got, self.shared.left.lock().unwrap().iter().map(|answer| answer.times).sum())
    }
}

impl Shared {
    /// Answers requests on one connection until it ends.
    fn talk(&self, stream: TcpStream) -> Option<()> {
        let mut reader = BufReader::new(stream.try_clone().ok()?);
        loop {
            let (path, body) = read_request(&mut reader)?;
            let text = String::from_utf8_lossy(&body).into_owned();
            self.got.lock().unwrap().push((path, serde_json::from_slice(&body).unwrap_or(Value::Null)));
            match self.pick(&text) {
                Some(answer) => give(&stream, &answer)?,
                None => give(&stream, &Answer { status: 418, body: "no answer is left".into(), ..Answer::nothing() })?,
            }
        }
    }

    fn pick(&self, text: &str) -> Option<Answer> {
        let mut left = self.left.lock().unwrap();
        let at = left.iter().position(|answer| answer.times > 0 && text.contains(&answer.to))?;
        left[at].times -= 1;
        Some(left[at].clone())
    }
}

impl Answer {
    fn nothing() -> Self {
        let (to, headers, body) = (String::new(), BTreeMap::new(), String::new());
        Answer { to, status: 200, headers, body, pieces: None, end: End::Proper, times: 1 }
    }
}

/// Path and body of the next request; nothing when the client has gone.
fn read_request(reader: &mut BufReader<TcpStream>) -> Option<(String, Vec<u8>)> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    let path = line.split_whitespace().nth(1)?.to_string();
    let mut length = 0;
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let header = line.trim();
        if header.is_empty() {
            break;
        }
        if let Some((name, value)) = header.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((path, body))
}

/// Sends an answer; nothing when the connection is of no use afterwards.
fn give(mut stream: &TcpStream, answer: &Answer) -> Option<()> {
    let kind = match answer.body.trim_start().bytes().next() {
        Some(b'{' | b'[') => "application/json",
        Some(b'<') => "text/html",
        Some(_) | None if answer.status == 200 => "text/event-stream",
        Some(_) | None => "text/plain",
    };
    let mut head = format!("HTTP/1.1 {} Said\r\ntransfer-encoding: chunked\r\n", answer.status);
    if !answer.headers.contains_key("content-type") {
        head.push_str(&format!("content-type: {kind}\r\n"));
    }
    for (name, value) in &answer.headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).ok()?;
    let body = answer.body.as_bytes();
    for piece in body.chunks(answer.pieces.unwrap_or(body.len()).max(1)) {
        stream.write_all(format!("{:x}\r\n", piece.len()).as_bytes()).ok()?;
        stream.write_all(piece).ok()?;
        stream.write_all(b"\r\n").ok()?;
        stream.flush().ok()?;
    }
    match answer.end {
        End::Proper => stream.write_all(b"0\r\n\r\n").ok(),
        End::Close => {
            let _ = stream.shutdown(std::net::Shutdown::Both);
            None
        }
        // Until the client goes.
        End::Stall => {
            let _ = stream.read(&mut [0]);
            None
        }
    }
}
