//! A model server of which the test decides every byte: HTTP/1.1 on a loopback port of its own.
//!
//! *Gated*: each request becomes an [`Exchange`] that the test answers chunk by chunk. A chunk's future ends when it is
//! written, so what the client does between two chunks is the test's to see. *Directed*: a function answers each request
//! with a [`Plan`], for tests with many clients at once. Nothing sleeps unless a plan says so.
//!
//! With `SORTIE_WIRE_DUMP=DIR` in the environment every JSON body goes to a file there, named by protocol and content:
//! `tests/real/models/run` checks them against the vendors' own schemas.

use futures_util::future::BoxFuture;
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// The content type of a reply that streams.
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

/// The first byte of a client that speaks TLS: told in plain words that this is the wrong place, as most servers do.
const TLS: u8 = 0x16;

/// A server; it ends when this is dropped.
pub(crate) struct Server {
    url: String,
    hub: Arc<Hub>,
    exchanges: mpsc::UnboundedReceiver<Exchange>,
    accepting: JoinHandle<()>,
}

/// What all connections share.
struct Hub {
    answer: Answer,
    received: Mutex<Vec<Arc<Received>>>,
    arrived: AtomicUsize,
    open: AtomicUsize,
    most_open: AtomicUsize,
}

enum Answer {
    Gated(mpsc::UnboundedSender<Exchange>),
    Directed(Box<dyn Fn(&Received) -> Plan + Send + Sync>),
}

/// A request as it came.
#[derive(Debug)]
pub(crate) struct Received {
    /// When all of it was here.
    pub(crate) at: Instant,
    /// How many came before it.
    pub(crate) number: usize,
    pub(crate) method: String,
    pub(crate) path: String,
    /// Names in small letters.
    pub(crate) headers: BTreeMap<String, String>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    /// The body as JSON; null when it is none.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    /// Whether the body holds these words somewhere.
    pub(crate) fn says(&self, words: &str) -> bool {
        String::from_utf8_lossy(&self.body).contains(words)
    }
}

/// How a directed server answers a request.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    status: u16,
    headers: Vec<(String, String)>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
enum Step {
    Send(Vec<u8>),
    /// Waits until this time after the request's arrival.
    Wait(Duration),
    Stall,
    HangUp,
}

impl Plan {
    /// A reply that streams these pieces.
    pub(crate) fn stream(pieces: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        let steps = pieces.into_iter().map(|piece| Step::Send(piece.into())).collect();
        Plan { status: 200, headers: vec![(EVENTS.0.into(), EVENTS.1.into())], steps }
    }

    /// A reply in one piece.
    pub(crate) fn whole(status: u16, content_type: &str, body: impl Into<Vec<u8>>) -> Self {
        let headers = vec![("content-type".into(), content_type.into())];
        Plan { status, headers, steps: vec![Step::Send(body.into())] }
    }

    pub(crate) fn header(mut self, name: &str, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// Sends each piece at its time, counted from the request's arrival: a server's pace, for benchmarks.
    pub(crate) fn paced(mut self, first: Duration, gap: Duration) -> Self {
        let pieces = std::mem::take(&mut self.steps);
        for (piece, at) in pieces.into_iter().zip(0..) {
            self.steps.extend([Step::Wait(first + gap * at), piece]);
        }
        self
    }

    /// Goes silent after what there is so far, and keeps the connection open.
    pub(crate) fn then_stall(mut self) -> Self {
        self.steps.push(Step::Stall);
        self
    }

    /// Drops the connection after what there is so far.
    pub(crate) fn then_hang_up(mut self) -> Self {
        self.steps.push(Step::HangUp);
        self
    }
}

impl Server {
    /// Each request waits for [`Server::next`].
    pub(crate) async fn gated() -> io::Result<Self> {
        let (sender, exchanges) = mpsc::unbounded_channel();
        Server::start(Answer::Gated(sender), exchanges).await
    }

    /// Each request is answered by this function.
    pub(crate) async fn directed(director: impl Fn(&Received) -> Plan + Send + Sync + 'static) -> io::Result<Self> {
        let (_, exchanges) = mpsc::unbounded_channel();
        Server::start(Answer::Directed(Box::new(director)), exchanges).await
    }

    async fn start(answer: Answer, exchanges: mpsc::UnboundedReceiver<Exchange>) -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let url = format!("http://{}", listener.local_addr()?);
        let hub = Arc::new(Hub {
            answer,
            received: Mutex::default(),
            arrived: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            most_open: AtomicUsize::new(0),
        });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&hub)));
        Ok(Server { url, hub, exchanges, accepting })
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// The next request, in order of arrival.
    ///
    /// # Panics
    /// When none comes within a time that no healthy test needs, so that a broken one ends.
    pub(crate) async fn next(&mut self) -> Exchange {
        let next = tokio::time::timeout(Duration::from_secs(20), self.exchanges.recv());
        next.await.expect("no request came").expect("the server is gated")
    }

    /// Whether a request has come that [`Server::next`] has not given out.
    pub(crate) fn has_next(&self) -> bool {
        !self.exchanges.is_empty()
    }

    /// All requests so far.
    pub(crate) fn received(&self) -> Vec<Arc<Received>> {
        self.hub.received.lock().unwrap().clone()
    }

    /// The most requests that were open at once: from all of one being here to the end of its reply.
    pub(crate) fn most_open(&self) -> usize {
        self.hub.most_open.load(Ordering::SeqCst)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn accept(listener: TcpListener, hub: Arc<Hub>) {
    while let Ok((socket, _)) = listener.accept().await {
        // A failure here costs a few milliseconds per chunk, no more.
        let _ = socket.set_nodelay(true);
        tokio::spawn(serve(Connection { socket, buffer: Vec::new() }, Arc::clone(&hub)));
    }
}

/// Takes the next request of a connection and has it answered. Boxed, since the end of an exchange comes back here.
fn serve(mut connection: Connection, hub: Arc<Hub>) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let Some(received) = connection.request(&hub).await else { return };
        let exchange = Exchange::open(received, connection, Arc::clone(&hub));
        match &hub.answer {
            // Nobody asks any more when the server has gone.
            Answer::Gated(test) => drop(test.send(exchange)),
            Answer::Directed(director) => {
                let plan = director(&exchange.received);
                // An error here is a client that has gone.
                let _ = exchange.follow(plan).await;
            }
        }
    })
}

/// A request that waits for its reply. Dropping it closes the connection.
pub(crate) struct Exchange {
    pub(crate) received: Arc<Received>,
    /// There until the exchange is over.
    connection: Option<Connection>,
    hub: Arc<Hub>,
}

impl Exchange {
    fn open(received: Received, connection: Connection, hub: Arc<Hub>) -> Self {
        dump(&received);
        let received = Arc::new(received);
        hub.received.lock().unwrap().push(Arc::clone(&received));
        let open = hub.open.fetch_add(1, Ordering::SeqCst) + 1;
        hub.most_open.fetch_max(open, Ordering::SeqCst);
        Exchange { received, connection: Some(connection), hub }
    }

    /// Begins a reply that streams.
    pub(crate) async fn start(&mut self) -> io::Result<()> {
        self.head(200, &[EVENTS]).await
    }

    /// Begins a reply.
    pub(crate) async fn head(&mut self, status: u16, headers: &[(&str, &str)]) -> io::Result<()> {
        let mut head = format!("HTTP/1.1 {status} Status\r\ntransfer-encoding: chunked\r\n");
        headers.iter().for_each(|(name, value)| head += &format!("{name}: {value}\r\n"));
        self.write((head + "\r\n").as_bytes()).await
    }

    /// Sends a piece of the body. Ends when it is written.
    pub(crate) async fn chunk(&mut self, bytes: impl AsRef<[u8]>) -> io::Result<()> {
        let bytes = bytes.as_ref();
        if bytes.is_empty() {
            return Ok(());
        }
        let mut framed = format!("{:x}\r\n", bytes.len()).into_bytes();
        framed.extend_from_slice(bytes);
        framed.extend_from_slice(b"\r\n");
        self.write(&framed).await
    }

    /// Ends the reply; the connection takes the client's next request.
    pub(crate) async fn end(mut self) -> io::Result<()> {
        self.write(b"0\r\n\r\n").await?;
        if let Some(connection) = self.connection.take() {
            tokio::spawn(serve(connection, Arc::clone(&self.hub)));
        }
        Ok(())
    }

    /// Ends the reply and closes the connection without having said so.
    pub(crate) async fn end_and_close(mut self) -> io::Result<()> {
        self.write(b"0\r\n\r\n").await
    }

    /// The whole reply at once.
    pub(crate) async fn answer(mut self, status: u16, headers: &[(&str, &str)], body: &str) -> io::Result<()> {
        self.head(status, headers).await?;
        self.chunk(body).await?;
        self.end().await
    }

    /// The whole reply as a stream of these pieces.
    pub(crate) async fn stream(mut self, pieces: &[impl AsRef<[u8]>]) -> io::Result<()> {
        self.start().await?;
        for piece in pieces {
            self.chunk(piece).await?;
        }
        self.end().await
    }

    /// Drops the connection, hard.
    pub(crate) fn hang_up(mut self) {
        if let Some(connection) = self.connection.take() {
            // Without it the client gets an orderly end of its stream, which is good enough a drop.
            let _ = connection.socket.set_zero_linger();
        }
    }

    /// Resolves when the client has closed the connection.
    pub(crate) async fn left(&mut self) {
        let Some(connection) = &mut self.connection else { return };
        let mut byte = [0];
        while matches!(connection.socket.read(&mut byte).await, Ok(1..)) {}
    }

    async fn follow(mut self, plan: Plan) -> io::Result<()> {
        let headers: Vec<(&str, &str)> = plan.headers.iter().map(|(name, value)| (&**name, &**value)).collect();
        let mut begun = false;
        for step in plan.steps {
            if !begun && !matches!(step, Step::Wait(_)) {
                self.head(plan.status, &headers).await?;
                begun = true;
            }
            match step {
                Step::Send(bytes) => self.chunk(bytes).await?,
                Step::Wait(time) => tokio::time::sleep_until(self.received.at + time).await,
                Step::Stall => {
                    self.left().await;
                    return Ok(());
                }
                Step::HangUp => {
                    self.hang_up();
                    return Ok(());
                }
            }
        }
        if !begun {
            self.head(plan.status, &headers).await?;
        }
        self.end().await
    }

    async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let connection = self.connection.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        connection.socket.write_all(bytes).await
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.hub.open.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Connection {
    socket: TcpStream,
    /// What was read beyond the last request.
    buffer: Vec<u8>,
}

impl Connection {
    /// The next request; `None` when the client has gone.
    async fn request(&mut self, hub: &Hub) -> Option<Received> {
        let head_end = loop {
            match self.buffer.windows(4).position(|window| window == b"\r\n\r\n") {
                Some(at) => break at + 4,
                None => self.fill().await?,
            }
            if self.buffer.first() == Some(&TLS) {
                let _ = self.socket.write_all(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\n\r\n").await;
                return None;
            }
        };
        let head = String::from_utf8_lossy(&self.buffer[..head_end]).into_owned();
        let mut lines = head.lines();
        let mut first = lines.next()?.split(' ').map(str::to_string);
        let (method, path) = (first.next()?, first.next()?);
        let pair =
            |line: &str| line.split_once(':').map(|(name, value)| (name.to_lowercase(), value.trim().to_string()));
        let headers: BTreeMap<String, String> = lines.filter_map(pair).collect();
        let length = headers.get("content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        while self.buffer.len() < head_end + length {
            self.fill().await?;
        }
        let rest = self.buffer.split_off(head_end + length);
        let body = std::mem::replace(&mut self.buffer, rest).split_off(head_end);
        let number = hub.arrived.fetch_add(1, Ordering::SeqCst);
        Some(Received { at: Instant::now(), number, method, path, headers, body })
    }

    async fn fill(&mut self) -> Option<()> {
        let read = self.socket.read_buf(&mut self.buffer).await;
        matches!(read, Ok(1..)).then_some(())
    }
}

/// Leaves the body of a request where `SORTIE_WIRE_DUMP` says, if it does.
fn dump(received: &Received) {
    let protocol = match received.path.rsplit('/').next() {
        Some("messages") => "anthropic",
        Some("completions") => "openai-chat",
        Some("responses") => "openai-responses",
        Some(_) | None => return,
    };
    write_body(protocol, &received.body);
}

/// Leaves a request's body for `tests/real/models/run`, which has set `SORTIE_WIRE_DUMP`.
///
/// # Panics
/// When it cannot: a body that was not checked must not count as one that was.
pub(crate) fn write_body(protocol: &str, body: &[u8]) {
    if let Some(folder) = std::env::var_os("SORTIE_WIRE_DUMP") {
        let mut hasher = DefaultHasher::new();
        body.hash(&mut hasher);
        let name = format!("{protocol}.{:016x}.json", hasher.finish());
        std::fs::write(Path::new(&folder).join(name), body).unwrap();
    }
}
