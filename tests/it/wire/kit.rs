//! What the tests of this folder share: a client for the fixture, runs over it, and time that stands still.

use super::server::Server as Fixture;
use crate::kit::Play;
use sortie::event::{Event, EventKind};
use sortie::model::catalog::ModelInfo;
use sortie::model::http::{
    Auth, AuthHeader, HttpModel, NetSettings, Options, Provider, Secret, Server, ToolMode, http_client,
};
use sortie::model::wire::Protocol;
use sortie::model::{Block, Delta, Message, Model, ModelError, Models, Reply, Request, Speaker, Wait, collect};
use sortie::ui::Reporter;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// The key that every client here sends; must never be seen anywhere else.
pub(crate) const KEY: &str = "sk-fixture-1234567890";

/// The fixture as a provider.
pub(crate) fn provider(url: &str, protocol: Protocol) -> Provider {
    let header = match protocol {
        Protocol::Anthropic => AuthHeader::ApiKey,
        Protocol::OpenaiChat | Protocol::OpenaiResponses => AuthHeader::Bearer,
    };
    let auth = Auth::Key { key: Secret::new(KEY), header, variable: "FIXTURE_KEY".into() };
    Provider {
        name: "fixture".into(),
        protocol,
        base_url: url.into(),
        auth,
        headers: Vec::new(),
        ca_file: None,
        streams: 64,
        rpm: None,
        tpm: None,
        idle_timeout: None,
        tool_mode: ToolMode::Native,
    }
}

/// A model of this provider that nothing is known about.
pub(crate) fn model_of(provider: Provider) -> Arc<HttpModel> {
    model_with(provider, ModelInfo::default())
}

/// A model of this provider, of which this is known.
pub(crate) fn model_with(provider: Provider, info: ModelInfo) -> Arc<HttpModel> {
    let http = http_client(&NetSettings::default(), None).unwrap();
    let server = Server::new(provider, http, 7, None).unwrap();
    Arc::new(HttpModel::new(server, "fixture/m", "m", info, Options::default()))
}

/// A model of the fixture.
pub(crate) fn model(server: &Fixture, protocol: Protocol) -> Arc<HttpModel> {
    model_of(provider(server.url(), protocol))
}

/// A request of one message.
pub(crate) fn ask(words: &str) -> Request {
    let message = Message { speaker: Speaker::User, blocks: vec![Block::text(words)] };
    Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 1,
        system: "You read code.".into(),
        tools: Vec::new().into(),
        messages: vec![Arc::new(message)],
        max_output: 1000,
        format: None,
    }
}

/// Makes a call and reads its reply.
pub(crate) async fn answer(model: &dyn Model, words: &str) -> Result<Reply, ModelError> {
    collect(model.stream(ask(words)).await?, |_| {}).await
}

/// The words of a reply.
pub(crate) fn words(reply: &Reply) -> String {
    let text = |block: &Block| match block {
        Block::Text { text } => Some(text.clone()),
        Block::Thinking(_) | Block::ToolCall(_) | Block::ToolResult(_) => None,
    };
    reply.blocks.iter().filter_map(text).collect()
}

/// Time that passes only when the test says so, with real sockets: a paused clock would jump ahead whenever everybody
/// waits for a socket, and does not while a blocking task runs.
pub(crate) struct Frozen {
    /// The blocking task ends with it.
    _hold: std::sync::mpsc::Sender<()>,
}

impl Frozen {
    pub(crate) fn new() -> Self {
        tokio::time::pause();
        let (hold, held) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || held.recv());
        Frozen { _hold: hold }
    }

    /// Lets this much time pass.
    pub(crate) async fn pass(&self, time: Duration) {
        tokio::time::advance(time).await;
        settle().await;
    }

    /// Lets time pass in small steps until `done`.
    ///
    /// # Panics
    /// When an hour has passed without it.
    pub(crate) async fn until(&self, step: Duration, mut done: impl FnMut() -> bool) {
        let begun = tokio::time::Instant::now();
        settle().await;
        while !done() {
            assert!(begun.elapsed() < Duration::from_secs(3600), "it never happens");
            self.pass(step).await;
        }
    }
}

/// Lets everything happen that needs no time: many turns of the runtime, which looks at its sockets every few.
pub(crate) async fn settle() {
    for _ in 0..500 {
        tokio::task::yield_now().await;
    }
}

/// Calls that are made at once, each a task; tells what they wait for.
pub(crate) struct Crowd {
    pub(crate) replies: tokio::task::JoinSet<(usize, Result<Reply, ModelError>)>,
    pub(crate) waits: mpsc::UnboundedReceiver<(usize, Wait)>,
}

impl Crowd {
    /// `count` calls; the message of each says `agent N.`
    pub(crate) fn ask(model: &Arc<HttpModel>, count: usize) -> Self {
        let (tell, waits) = mpsc::unbounded_channel();
        let mut replies = tokio::task::JoinSet::new();
        for agent in 0..count {
            let (model, tell) = (Arc::clone(model), tell.clone());
            replies.spawn(async move {
                let call = async {
                    let deltas = model.stream(ask(&format!("I am agent {agent}."))).await?;
                    let observe = |delta: &Delta| {
                        if let Delta::Waiting(wait) = delta {
                            let _ = tell.send((agent, wait.clone()));
                        }
                    };
                    collect(deltas, observe).await
                };
                (agent, call.await)
            });
        }
        Crowd { replies, waits }
    }

    /// Lets time pass until all have their reply, which says that it is `Done.`
    pub(crate) async fn finish(&mut self, time: &Frozen, step: Duration) {
        let mut left = self.replies.len();
        time.until(step, || {
            while let Some(reply) = self.replies.try_join_next() {
                let (agent, reply) = reply.unwrap();
                assert_eq!(words(&reply.unwrap()), "Done.", "agent {agent}");
                left -= 1;
            }
            left == 0
        })
        .await;
    }
}

/// Hands every event to the test as it happens.
pub(crate) struct Watch(mpsc::UnboundedSender<EventKind>);

impl Reporter for Watch {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.0.send(event.kind.clone()).map_err(|_| io::ErrorKind::BrokenPipe.into())
    }
}

/// What a run tells, as it happens.
pub(crate) struct Told(mpsc::UnboundedReceiver<EventKind>);

impl Told {
    /// The next event that this fits, and all that came before it.
    ///
    /// # Panics
    /// When the run has ended without one.
    pub(crate) async fn until(&mut self, fits: impl Fn(&EventKind) -> bool) -> Vec<EventKind> {
        let mut seen = Vec::new();
        loop {
            let event = self.0.recv().await.expect("the run has ended without it");
            let found = fits(&event);
            seen.push(event);
            if found {
                return seen;
            }
        }
    }
}

/// A run over the fixture, and what it tells.
pub(crate) fn play(model: Arc<dyn Model>) -> (Play, Told) {
    let mut play = Play::new("");
    play.harness.models = Models::new(model);
    let (sender, told) = mpsc::unbounded_channel();
    play.harness.reporters.push(Box::new(Watch(sender)));
    (play, Told(told))
}

/// A plan of one node.
pub(crate) const ONE: &str = "[[node]]\nid = \"a\"\nprompt = \"Look at it.\"\n";
