//! The gate against simulated providers, in virtual time.

mod any;
mod failures;
mod order;

use super::retry::Why;
use super::*;
use crate::model::ModelErrorKind;
use crate::model::wire::RetryHint;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// From a request to the head of its answer.
const LATENCY: Duration = Duration::from_millis(20);
/// From there to the end of the stream.
const STREAM: Duration = Duration::from_millis(300);

/// What a provider answers to a request that comes at this time, as the `nth` from 0 and beside so many open streams.
type Rule = Box<dyn FnMut(Duration, usize, usize) -> Result<RateState, Failure> + Send>;

/// A provider that is a function of time, and what it saw.
struct Server {
    begin: Instant,
    rule: Mutex<Rule>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    /// When requests came.
    arrivals: Vec<Duration>,
    /// When they were turned away, and for how long.
    hints: Vec<(Duration, Option<Duration>)>,
    open: usize,
    most_open: usize,
}

impl Server {
    fn new(rule: impl FnMut(Duration, usize, usize) -> Result<RateState, Failure> + Send + 'static) -> Arc<Self> {
        Arc::new(Server { begin: Instant::now(), rule: Mutex::new(Box::new(rule)), seen: Mutex::default() })
    }

    /// Accepts this many in any second and turns others away.
    fn limited(per_second: usize, hint: Option<Duration>) -> Arc<Self> {
        let mut accepted: Vec<Duration> = Vec::new();
        Server::new(move |now, _, _| {
            let recent = accepted.iter().rev().take_while(|at| now - **at < Duration::from_secs(1)).count();
            if recent >= per_second {
                return Err(turned_away(429, hint));
            }
            accepted.push(now);
            Ok(RateState::default())
        })
    }

    fn arrivals(&self) -> Vec<Duration> {
        self.seen.lock().unwrap().arrivals.clone()
    }

    async fn answer(&self) -> Result<RateState, Failure> {
        let answer = {
            let mut seen = self.seen.lock().unwrap();
            let now = self.begin.elapsed();
            let answer = (self.rule.lock().unwrap())(now, seen.arrivals.len(), seen.open);
            seen.arrivals.push(now);
            seen.open += usize::from(answer.is_ok());
            seen.most_open = seen.most_open.max(seen.open);
            answer
        };
        sleep(LATENCY).await;
        if let Err(failure) = &answer {
            self.seen.lock().unwrap().hints.push((self.begin.elapsed(), failure.retry.after));
        }
        answer
    }

    /// Nobody sent in a time for which the provider had asked for silence.
    fn assert_silence(&self) {
        let seen = self.seen.lock().unwrap();
        for (at, hint) in seen.hints.iter().filter_map(|(at, hint)| Some((*at, (*hint)?))) {
            let early = seen.arrivals.iter().find(|arrival| at < **arrival && **arrival < at + hint);
            assert_eq!(early, None, "a request within {hint:?} of {at:?}");
        }
    }
}

fn turned_away(status: u16, after: Option<Duration>) -> Failure {
    let (kind, message) = match status {
        429 => (ModelErrorKind::RateLimit, "too many requests"),
        529 => (ModelErrorKind::Overloaded, "overloaded"),
        500 => (ModelErrorKind::Server, "broken"),
        _ => (ModelErrorKind::InvalidRequest, "no"),
    };
    let retry = RetryHint { after, should: None };
    Failure { status: Some(status), retry, ..Failure::new(kind, message) }
}

fn gate(settings: GateSettings) -> Arc<Gate> {
    Arc::new(Gate::new("some", &settings))
}

fn streams(streams: usize) -> GateSettings {
    GateSettings { streams, ..GateSettings::default() }
}

fn seconds(seconds: f64) -> Duration {
    Duration::from_secs_f64(seconds)
}

fn silent(_: Wait) {}

/// A model call as the model makes it. Gives its number of tries.
async fn call(gate: &Arc<Gate>, server: &Server, tell: &(dyn Fn(Wait) + Sync)) -> Result<u32, GiveUp> {
    let mut call = gate.call(1000);
    loop {
        let mut permit = gate.enter(&mut call, tell).await?;
        match server.answer().await {
            Ok(rates) => {
                permit.answered(&rates);
                sleep(STREAM).await;
                server.seen.lock().unwrap().open -= 1;
                permit.settle(&Usage { input: 900, output: 100, ..Usage::default() });
                return Ok(call.tries);
            }
            Err(failure) => match gate.failed(&mut call, permit, failure) {
                Verdict::Retry => {}
                Verdict::GiveUp(give_up) => return Err(give_up),
            },
        }
    }
}

fn spawn(gate: &Arc<Gate>, server: &Arc<Server>) -> JoinHandle<Result<u32, GiveUp>> {
    let (gate, server) = (Arc::clone(gate), Arc::clone(server));
    tokio::spawn(async move { call(&gate, &server, &silent).await })
}

/// So many agents at once; gives the tries of each.
async fn agents(count: usize, gate: &Arc<Gate>, server: &Arc<Server>) -> Vec<Result<u32, GiveUp>> {
    let calls: Vec<_> = (0..count).map(|_| spawn(gate, server)).collect();
    let mut ends = Vec::new();
    for call in calls {
        ends.push(call.await.unwrap());
    }
    assert_eq!(gate.state().load(), (0, 0), "something is left at the gate");
    ends
}

fn gaps(arrivals: &[Duration]) -> Vec<Duration> {
    arrivals.windows(2).map(|two| two[1] - two[0]).collect()
}
