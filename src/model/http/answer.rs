//! Reads what a server answers: a stream of events, or one JSON body, into deltas.

use super::outlet::Outlet;
use super::server::Server;
use crate::model::catalog::Price;
use crate::model::trace::Exchange;
use crate::model::wire::{Decoder, Failure, sse};
use crate::model::{Delta, ModelErrorKind, StopKind, Usage};
use reqwest::Response;
use reqwest::header::{CONTENT_ENCODING, CONTENT_TYPE};
use std::sync::Arc;
use std::time::Duration;

/// Bytes of one reply, framing included; more than the longest reply of any model takes.
pub const MAX_REPLY: usize = 32 << 20;
/// How long the end of a body is waited for once the reply is complete, so that its connection can be used again.
const LINGER: Duration = Duration::from_millis(30);

/// Reads one answer.
pub(super) struct Answer<'a> {
    server: &'a Server,
    decoder: Decoder,
    out: &'a Outlet,
    price: Option<&'a Price>,
    exchange: &'a mut Option<Exchange>,
    deltas: Vec<Delta>,
    /// Whether the model has said something that a second try would say again.
    pub(super) spoke: bool,
    /// What it has cost so far.
    pub(super) usage: Option<Usage>,
}

impl<'a> Answer<'a> {
    /// `name` is the model that the reply's opaque blocks belong to.
    pub(super) fn new(
        server: &'a Server,
        name: &Arc<str>,
        out: &'a Outlet,
        price: Option<&'a Price>,
        exchange: &'a mut Option<Exchange>,
    ) -> Self {
        let decoder = server.provider.protocol.decoder(Arc::clone(name));
        Answer { server, decoder, out, price, exchange, deltas: Vec::new(), spoke: false, usage: None }
    }

    /// Reads to the end of the reply; `begun` is called at the first sign of it.
    ///
    /// # Errors
    /// Whatever keeps it from being complete; [`Answer::spoke`] tells whether there was content before.
    pub(super) async fn read(&mut self, mut response: Response, mut begun: impl FnMut()) -> Result<(), Failure> {
        let header = |name| response.headers().get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let encoding = header(CONTENT_ENCODING);
        if !matches!(encoding, "" | "identity") {
            let encoding = crate::text::clip(encoding, 40);
            let message = format!("the answer is packed as `{encoding}`, which nobody asked for");
            return Err(Failure::new(ModelErrorKind::Protocol, message));
        }
        let kind = header(CONTENT_TYPE);
        if kind.starts_with("text/html") {
            // A page: a portal that wants a login, or an address that is no API.
            let body = error_body(response, self.exchange).await;
            return Err(Failure::read(self.server.provider.protocol, 200, |_| None, &body, Duration::ZERO));
        }
        if kind.starts_with("application/json") {
            let body = self.body(&mut response).await?;
            begun();
            self.decoder.whole(&body, &mut self.deltas)?;
            return match self.hand_out() {
                Some(stop) => self.stop(stop),
                None => self.finish(),
            };
        }
        let mut parser = sse::Parser::default();
        let mut size = 0;
        loop {
            let chunk = match response.chunk().await {
                Ok(Some(chunk)) => chunk,
                Ok(None) => break,
                // The line may break after the reply is whole, before its end mark has come.
                Err(error) => return self.finish().map_err(|_| self.server.broken(&error)),
            };
            size += chunk.len();
            if size > MAX_REPLY {
                return Err(too_long());
            }
            if let Some(exchange) = self.exchange {
                exchange.chunk(&chunk);
            }
            begun();
            let (decoder, deltas) = (&mut self.decoder, &mut self.deltas);
            let fed = parser.push(&chunk, |event| decoder.event(event, deltas));
            if let Some(stop) = self.hand_out() {
                let rest = async { while let Ok(Some(_)) = response.chunk().await {} };
                let _ = tokio::time::timeout(LINGER, rest).await;
                return self.stop(stop);
            }
            fed?;
            self.out.drained().await;
        }
        let (decoder, deltas) = (&mut self.decoder, &mut self.deltas);
        parser.finish(|event| decoder.event(event, deltas))?;
        self.finish()
    }

    /// The body has ended: what the decoder held back, and its verdict.
    fn finish(&mut self) -> Result<(), Failure> {
        let ended = self.decoder.end(&mut self.deltas);
        match self.hand_out() {
            Some(stop) => self.stop(stop),
            None => {
                ended?;
                Err(Failure::new(ModelErrorKind::Cut, "the reply ended without its end mark"))
            }
        }
    }

    /// Hands out what there is, except the end, which it returns.
    fn hand_out(&mut self) -> Option<StopKind> {
        let mut stop = None;
        let mut at = 0;
        while let Some(delta) = self.deltas.get(at) {
            match delta {
                Delta::Usage(usage) => {
                    self.usage = Some(*usage);
                    if let Some(price) = self.price {
                        self.deltas.insert(at + 1, Delta::Cost(price.cost(usage)));
                        at += 1;
                    }
                }
                Delta::Text(_) | Delta::Partial(_) | Delta::Thinking(_) | Delta::Call(_) => {
                    // By the measure of whoever reads: what only we took for words would be neither tried again here
                    // nor gone on with there.
                    self.spoke |= delta.is_content();
                }
                Delta::Stop(kind) => {
                    stop = Some(*kind);
                    self.deltas.truncate(at);
                }
                Delta::Waiting(_) | Delta::Sent | Delta::Switched(_) | Delta::Cost(_) => {}
            }
            at += 1;
        }
        self.out.take(&mut self.deltas);
        stop
    }

    fn stop(&self, stop: StopKind) -> Result<(), Failure> {
        self.out.push(Delta::Stop(stop));
        Ok(())
    }

    /// The whole body of an answer that does not stream.
    async fn body(&mut self, response: &mut Response) -> Result<Vec<u8>, Failure> {
        let mut body = Vec::new();
        while let Some(chunk) = response.chunk().await.map_err(|error| self.server.broken(&error))? {
            if body.len() + chunk.len() > MAX_REPLY {
                return Err(too_long());
            }
            if let Some(exchange) = self.exchange {
                exchange.chunk(&chunk);
            }
            body.extend_from_slice(&chunk);
        }
        Ok(body)
    }
}

fn too_long() -> Failure {
    Failure::new(ModelErrorKind::Protocol, format!("the reply has more than {} MiB", MAX_REPLY >> 20))
}

/// The first bytes of an error's body: enough to say what is wrong, however much there is and however slowly it comes.
pub(super) async fn error_body(mut response: Response, exchange: &mut Option<Exchange>) -> Vec<u8> {
    const ENOUGH: usize = 64 << 10;
    const PATIENCE: Duration = Duration::from_secs(10);
    let mut body = Vec::new();
    let read = async {
        while let Ok(Some(chunk)) = response.chunk().await {
            if let Some(exchange) = exchange {
                exchange.chunk(&chunk);
            }
            body.extend_from_slice(&chunk[..chunk.len().min(ENOUGH - body.len())]);
            if body.len() == ENOUGH {
                break;
            }
        }
    };
    let _ = tokio::time::timeout(PATIENCE, read).await;
    body
}
