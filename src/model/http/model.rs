//! One model of one provider over HTTP.
//!
//! ```text
//! stream ── by JSON tools? ──> talk: encode ─> hold ─> [ gate ─> send ─> answer ]… ─> deltas
//!                                                     └── tried again by the gate alone, before any content ──┘
//! ```
//!
//! A try that broke before the model had said anything is the gate's to judge. Once there was content the call ends with
//! what is wrong, and the conversation goes on from what was said: nothing is asked twice behind its back.

use super::answer::{Answer, error_body};
use super::outlet::{Outlet, written};
use super::provider::ToolMode;
use super::server::Server;
use super::words;
use crate::model::catalog::{ChatTools, ModelInfo, PrefixCache};
use crate::model::gate::{Lead, Permit, Turn, Verdict};
use crate::model::json_tools;
use crate::model::trace::{About, Exchange};
use crate::model::wire::{Effort, Failure, Protocol, RateState, Target};
use crate::model::{Delta, Deltas, Model, ModelError, ModelErrorKind, Request, Wait};
use crate::text;
use async_trait::async_trait;
use futures_util::StreamExt;
use reqwest::RequestBuilder;
use reqwest::header::HeaderMap;
use serde_json::Value;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The window of a model that nobody knows.
const UNKNOWN_WINDOW: u64 = 128_000;
/// Tokens of output that a request asks for at least, however full the window seems by estimate.
const LEAST_OUTPUT: u64 = 1024;

/// Tokens of output below which a request that would fit is of no use.
const LEAST_FITTED: u32 = 256;

/// What users choose for a model.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// How hard to think; `None` leaves it to the model.
    pub effort: Option<Effort>,
    /// How tools are offered; `None` is as the provider is configured.
    pub tool_mode: Option<ToolMode>,
}

/// A model of a provider.
pub struct HttpModel {
    inner: Arc<Inner>,
}

struct Inner {
    /// `provider/model`.
    name: Arc<str>,
    /// As the provider knows it.
    model: String,
    server: Arc<Server>,
    info: ModelInfo,
    options: Options,
    /// The backend has refused tools.
    refused_tools: AtomicBool,
    /// The backend has refused `stream_options`.
    refused_options: AtomicBool,
}

/// One try of a call.
struct Try<'a> {
    request: &'a Request,
    /// From 1.
    number: u32,
    post: RequestBuilder,
    body: &'a Body,
    out: &'a Outlet,
}

/// A try that brought no complete reply.
struct Broken {
    failure: Failure,
    /// The stream's permit; an error once the model had begun to speak: then there is no other try.
    permit: Result<Permit, Permit>,
}

impl HttpModel {
    /// The model that `name` (`provider/model`) means on this server; the provider knows it as `model`.
    pub fn new(server: Arc<Server>, name: &str, model: &str, info: ModelInfo, options: Options) -> Self {
        let model = model.to_string();
        let (refused_tools, refused_options) = (AtomicBool::new(false), AtomicBool::new(false));
        let inner = Inner { name: name.into(), model, server, info, options, refused_tools, refused_options };
        HttpModel { inner: Arc::new(inner) }
    }
}

#[async_trait]
impl Model for HttpModel {
    fn name(&self) -> &str {
        &self.inner.name
    }

    fn context_window(&self) -> u64 {
        self.inner.info.context_window.unwrap_or(UNKNOWN_WINDOW)
    }

    fn max_output(&self) -> Option<u32> {
        self.inner.info.max_output
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.inner.server.provider.idle_timeout
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let inner = Arc::clone(&self.inner);
        Ok(written(move |out| async move {
            if !inner.speaks_json() {
                let done = inner.talk(&request, &out).await;
                match done {
                    Err(error) if error.kind == ModelErrorKind::NoTools && inner.may_speak_json() => {
                        inner.refused_tools.store(true, Ordering::Relaxed);
                    }
                    done => return done,
                }
            }
            let turn = request.turn;
            let request = json_tools::rewrite(request);
            let talk = written(move |out| async move { inner.talk(&request, &out).await });
            let mut deltas = json_tools::decode(talk, turn);
            while let Some(delta) = deltas.next().await {
                out.push(delta?);
                out.drained().await;
            }
            Ok(())
        }))
    }
}

impl Inner {
    fn speaks_json(&self) -> bool {
        match self.tool_mode() {
            ToolMode::JsonSchema => true,
            ToolMode::Native => false,
            ToolMode::Auto => self.refused_tools.load(Ordering::Relaxed),
        }
    }

    fn may_speak_json(&self) -> bool {
        self.tool_mode() == ToolMode::Auto
    }

    fn tool_mode(&self) -> ToolMode {
        self.options.tool_mode.unwrap_or(self.server.provider.tool_mode)
    }

    /// One model call, over all its tries.
    async fn talk(&self, request: &Request, out: &Outlet) -> Result<(), ModelError> {
        self.check_tools(request)?;
        // Before anybody waits for a place from which nothing may be sent.
        self.server.http.permits(&self.server.endpoint)?;
        let tell = |wait: Wait| out.push(Delta::Waiting(wait));
        let mut target = self.target(request.max_output);
        let mut body = self.body(request, &mut target);
        let mut lead = None;
        if let Some(prefix) = self.prefix(request) {
            match self.server.gate.hold().enter(prefix, &tell).await {
                Turn::Lead(first) => lead = Some(first),
                Turn::Follow => {}
            }
        }
        let mut call = self.server.gate.call(body.tokens() + u64::from(target.max_output));
        let mut fitted = false;
        for number in 1.. {
            let permit = match self.server.gate.enter(&mut call, &tell).await {
                Ok(permit) => permit,
                Err(give_up) => return Err(words::gave_up(&self.name, &self.server, &give_up)),
            };
            let post = self.server.http.post(&self.server.endpoint)?;
            out.push(Delta::Sent);
            let this = Try { request, number, post, body: &body, out };
            let broken = match self.attempt(this, permit, &mut lead).await {
                Ok(()) => return Ok(()),
                Err(broken) => broken,
            };
            let Broken { mut failure, permit } = broken;
            self.server.secrets().for_each(|secret| failure.redact(secret));
            let permit = match permit {
                Ok(permit) => permit,
                Err(permit) => {
                    permit.lost(&failure);
                    return Err(words::cut(&self.name, &failure));
                }
            };
            // Refused for what can be left out: once more without it, never the same again.
            if let Some(fits) = failure.fits_output
                && (LEAST_FITTED..target.max_output).contains(&fits)
                && !std::mem::replace(&mut fitted, true)
            {
                permit.lost(&failure);
                target.max_output = fits;
                body = self.body(request, &mut target);
                continue;
            }
            if failure.kind == ModelErrorKind::InvalidRequest
                && failure.message.contains("stream_options")
                // Siblings that went out together are refused together: what this request held is what counts.
                && !target.quirks.no_stream_options
            {
                self.refused_options.store(true, Ordering::Relaxed);
                permit.lost(&failure);
                body = self.body(request, &mut target);
                continue;
            }
            match self.server.gate.failed(&mut call, permit, failure) {
                Verdict::Retry => {}
                Verdict::GiveUp(give_up) => return Err(words::gave_up(&self.name, &self.server, &give_up)),
            }
        }
        Ok(())
    }

    /// One request and its answer.
    async fn attempt(&self, this: Try<'_>, mut permit: Permit, lead: &mut Option<Lead>) -> Result<(), Broken> {
        let Try { request, number, post, body, out } = this;
        let server = &self.server;
        let mut exchange = self.write_down(request, number, body);
        let sent = post.headers(server.headers.clone()).body(body.bytes.clone()).send().await;
        let response = match sent {
            Ok(response) => response,
            Err(error) => return Err(broken(server.broken(&error), Ok(permit), exchange)),
        };
        if let Some(exchange) = &mut exchange {
            exchange.answered(response.status().as_u16(), shown(response.headers()), request_id(response.headers()));
        }
        if !response.status().is_success() {
            let (status, headers) = (response.status().as_u16(), response.headers().clone());
            let body = error_body(response, &mut exchange).await;
            let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
            let failure = Failure::read(server.provider.protocol, status, header, &body, since_epoch());
            return Err(broken(failure, Ok(permit), exchange));
        }
        let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
        permit.answered(&RateState::read(header, since_epoch()));
        let mut answer = Answer::new(server, &self.name, out, self.info.price.as_ref(), &mut exchange);
        let begun = || {
            if let Some(lead) = lead.take() {
                lead.began();
            }
        };
        let read = answer.read(response, begun).await;
        let (spoke, usage) = (answer.spoke, answer.usage);
        match read {
            Ok(()) => {
                permit.settle(&usage.unwrap_or_default());
                if let Some(exchange) = exchange {
                    exchange.end(None);
                }
                Ok(())
            }
            Err(failure) => Err(broken(failure, if spoke { Err(permit) } else { Ok(permit) }, exchange)),
        }
    }

    /// Some models take tools over one protocol and not over the other; better told before it is paid for.
    fn check_tools(&self, request: &Request) -> Result<(), ModelError> {
        let over_chat = self.server.provider.protocol == Protocol::OpenaiChat;
        let takes_none = match self.info.quirks.chat_tools {
            ChatTools::No => over_chat && !request.tools.is_empty(),
            ChatTools::Yes | ChatTools::WithoutEffort | ChatTools::WithoutReasoning => false,
        };
        if !takes_none {
            return Ok(());
        }
        let message = format!("`{}` takes tools only over the Responses protocol", self.name);
        let hint = format!("name it as `openai-responses/{}`", self.model);
        Err(ModelError::new(ModelErrorKind::InvalidRequest, message).hint(hint))
    }

    fn target(&self, max_output: u32) -> Target {
        let mut quirks = self.info.quirks.clone();
        quirks.no_stream_options |= self.refused_options.load(Ordering::Relaxed);
        Target {
            name: Arc::clone(&self.name),
            model: self.model.clone(),
            max_output: max_output.min(self.info.max_output.unwrap_or(u32::MAX)),
            quirks,
            effort: self.options.effort,
            cache_marks: self.info.prefix_cache.as_ref().is_some_and(|cache| cache.marks),
        }
    }

    /// The request's body, with its output limit clamped to what the window leaves by estimate.
    fn body(&self, request: &Request, target: &mut Target) -> Body {
        target.quirks.no_stream_options |= self.refused_options.load(Ordering::Relaxed);
        let protocol = self.server.provider.protocol;
        let body = Body::of(protocol.encode(request, target));
        let Some(window) = self.info.context_window else { return body };
        let left = window.saturating_sub(body.tokens()).max(LEAST_OUTPUT);
        if u64::from(target.max_output) <= left {
            return body;
        }
        target.max_output = u32::try_from(left).unwrap_or(u32::MAX);
        Body::of(protocol.encode(request, target))
    }

    /// What siblings share, where the model caches prefixes and this one is long enough for it.
    fn prefix(&self, request: &Request) -> Option<u64> {
        let PrefixCache { min_tokens, .. } = self.info.prefix_cache.as_ref()?;
        let mut hasher = DefaultHasher::new();
        self.name.hash(&mut hasher);
        request.system.hash(&mut hasher);
        let mut tokens = text::tokens(&request.system);
        for tool in request.tools.iter() {
            let schema = tool.schema.to_string();
            (&tool.name, &tool.description, &schema).hash(&mut hasher);
            tokens += text::tokens(&schema) + text::tokens(&tool.description);
        }
        (tokens >= *min_tokens).then(|| hasher.finish())
    }

    fn write_down(&self, request: &Request, tries: u32, body: &Body) -> Option<Exchange> {
        let trace = self.server.trace.get()?;
        let about = About {
            conversation: request.conversation.clone(),
            attempt: request.attempt,
            turn: request.turn,
            try_number: tries,
            provider: self.server.provider.name.clone(),
            model: self.name.to_string(),
            protocol: self.server.provider.protocol,
        };
        let headers: Vec<_> = shown(&self.server.headers).collect();
        Some(trace.request(&about, self.server.endpoint.as_str(), &headers, &body.value))
    }
}

/// A request's body, once as a value and once as bytes.
struct Body {
    value: Value,
    bytes: Vec<u8>,
}

impl Body {
    fn of(value: Value) -> Self {
        let bytes = value.to_string().into_bytes();
        Body { value, bytes }
    }

    /// By estimate.
    fn tokens(&self) -> u64 {
        self.bytes.len() as u64 / 4
    }
}

/// Headers as text; what is none is left out.
fn shown(headers: &HeaderMap) -> impl Iterator<Item = (&str, &str)> {
    headers.iter().filter_map(|(name, value)| Some((name.as_str(), value.to_str().ok()?)))
}

fn request_id(headers: &HeaderMap) -> Option<&str> {
    ["request-id", "x-request-id"].into_iter().find_map(|name| headers.get(name)?.to_str().ok())
}

fn since_epoch() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn broken(failure: Failure, permit: Result<Permit, Permit>, exchange: Option<Exchange>) -> Broken {
    if let Some(exchange) = exchange {
        exchange.end(Some(&failure.message));
    }
    Broken { failure, permit }
}
