//! The turn machine under a model, tools and a user that do whatever they like.

mod cases;
mod reports;
mod unfinished;

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use sortie::agent::Report;
use sortie::agent::history::{self, History, INTERRUPTED, Record};
use sortie::agent::report::REPORT;
use sortie::agent::report::{self, ReportRules};
use sortie::agent::turn::{End, Ending, Machine, Step};
use sortie::model::{Block, Message, Opaque, Reply, StopKind, ToolCall, ToolResult, Usage};
use sortie::plan::CauseKind;
use sortie::tool::Effect;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

fn call(id: &str, name: &str, args: Value) -> Block {
    Block::ToolCall(ToolCall::new(id, name, args))
}

fn read(id: &str) -> Block {
    call(id, "read_file", json!({ "file_path": id }))
}

fn reply(stop: StopKind, blocks: Vec<Block>) -> Reply {
    Reply { blocks, stop, usage: Usage { input: 1, output: 1, ..Usage::default() }, ..Reply::default() }
}

fn ok(id: &str) -> ToolResult {
    ToolResult { id: id.into(), text: format!("contents of {id}"), is_error: false }
}

fn output_schema() -> Value {
    json!({ "type": "object", "required": ["parts"] })
}

/// A subagent of a node with or without an `output` schema.
fn by_report(output: Option<&Value>) -> Ending {
    Ending::Report(Arc::new(ReportRules::new(output).unwrap()))
}

fn done() -> Value {
    json!({ "status": "done", "summary": "found it" })
}

/// A machine with everything that was ever seen of it.
struct Watched {
    machine: Machine,
    /// Whether `report` is the machine's own.
    by_report: bool,
    limit: u32,
    records: Vec<Record>,
    /// Ids that were handed out.
    handed: Vec<String>,
    /// Ids of calls that started while their reply streamed.
    early: HashSet<String>,
    last_turn: u32,
}

impl Watched {
    fn new(ending: Ending, limit: u32) -> Self {
        let by_report = matches!(ending, Ending::Report(_));
        let machine = Machine::new("the task", ending, limit);
        let mut watched = Watched {
            machine,
            by_report,
            limit,
            records: Vec::new(),
            handed: Vec::new(),
            early: HashSet::new(),
            last_turn: 0,
        };
        watched.look();
        watched
    }

    /// What holds at every moment.
    fn look(&mut self) {
        let new = self.machine.take_records();
        for record in &new {
            let line = serde_json::to_string(record).unwrap();
            assert_eq!(&serde_json::from_str::<Record>(&line).unwrap(), record, "{line}");
        }
        self.records.extend(new);
        let messages = self.machine.messages();
        assert_eq!(check_request(&self.records, &messages), Ok(()));
        assert_eq!(History::replay(&self.records).messages(), messages, "the records tell all");
    }

    fn step(&mut self) -> Step {
        let step = self.machine.step();
        self.look();
        match &step {
            Step::CallModel { turn } => {
                assert!(*turn == self.last_turn || *turn == self.last_turn + 1);
                self.last_turn = *turn;
                assert!(*turn <= self.limit);
            }
            Step::RunTools(calls) => {
                assert!(calls.is_empty() || !self.only_the_end(), "{calls:?} after the last turn was announced");
                self.handed.extend(calls.iter().map(|call| call.id.clone()));
            }
            Step::End(_) => {}
        }
        step
    }

    /// Whether the model was told that only the end is accepted.
    fn only_the_end(&self) -> bool {
        self.notes().iter().any(|note| note.contains("is accepted now"))
    }

    /// What the user's side has said after the prompt.
    fn notes(&self) -> Vec<&str> {
        let texts = self.records.iter().filter_map(|record| match record {
            Record::User { text } => Some(text.as_str()),
            Record::Start { .. } | Record::Assistant { .. } | Record::ToolResult { .. } => None,
        });
        texts.skip(1).collect()
    }

    fn results(&self) -> Vec<&ToolResult> {
        let results = self.records.iter().filter_map(|record| match record {
            Record::ToolResult { result } => Some(result),
            Record::Start { .. } | Record::User { .. } | Record::Assistant { .. } => None,
        });
        results.collect()
    }

    fn result(&self, id: &str) -> &ToolResult {
        self.results().into_iter().find(|result| result.id == id).unwrap()
    }

    /// Asks for the next model call and answers it.
    fn turn(&mut self, stop: StopKind, blocks: Vec<Block>) {
        assert!(matches!(self.step(), Step::CallModel { .. }));
        self.machine.replied(reply(stop, blocks));
        self.look();
    }

    /// Runs what is handed out, with this result.
    fn run_tools(&mut self, result: impl Fn(&str) -> ToolResult) {
        let Step::RunTools(calls) = self.step() else { panic!("no calls are handed out") };
        for call in calls {
            self.machine.resolved(result(&call.id));
            self.look();
        }
    }

    fn end(&mut self) -> End {
        let Step::End(end) = self.step() else { panic!("it has not ended") };
        end
    }

    fn short(&mut self) -> (CauseKind, String, String) {
        match self.end() {
            End::Short { kind, detail, salvaged } => (kind, detail, salvaged),
            end @ (End::Reported(_) | End::Answered(_)) => panic!("{end:?}"),
        }
    }

    fn reported(&mut self) -> Report {
        match self.end() {
            End::Reported(report) => report,
            end @ (End::Answered(_) | End::Short { .. }) => panic!("{end:?}"),
        }
    }

    /// What holds once it is over, whatever came before.
    fn check_end(mut self) {
        let end = self.end();
        self.machine.replied(reply(StopKind::End, vec![Block::text("late"), read("late")]));
        self.machine.resolved(ok("nobody"));
        for id in self.handed.clone() {
            self.machine.resolved(ok(&id));
        }
        self.machine.model_failed("late");
        self.machine.stop(CauseKind::Interrupted, "late", |_| true);
        self.look();
        assert_eq!(self.machine.step(), Step::End(end), "an end is for good");
        assert!(self.machine.turns() <= self.limit);
        for cut in 0..=self.records.len() {
            let records = &self.records[..cut];
            assert_eq!(check_request(records, &History::replay(records).messages()), Ok(()), "cut at {cut}");
        }
        let mut whole = HashMap::new();
        for record in &self.records {
            if let Record::Assistant { blocks, stop, .. } = record {
                for block in blocks {
                    if let Block::ToolCall(call) = block {
                        let ours = self.by_report && call.name == REPORT;
                        let whole_reply = matches!(stop, StopKind::End | StopKind::Tool | StopKind::Paused);
                        let runs = !ours && (whole_reply || self.early.contains(&call.id));
                        assert!(whole.insert(call.id.as_str(), runs).is_none(), "{} twice", call.id);
                    }
                }
            }
        }
        let answered: Vec<&str> = self.results().iter().map(|result| result.id.as_str()).collect();
        assert_eq!(answered.len(), whole.len(), "one result per call");
        assert_eq!(answered.into_iter().collect::<HashSet<_>>(), whole.keys().copied().collect());
        for id in &self.early {
            assert!(!self.handed.contains(id), "`{id}` has started and is handed out");
            if let Some(result) = self.results().into_iter().find(|result| result.id == *id) {
                assert!(!result.text.starts_with("not run") && !result.text.contains("not run:"), "{result:?}");
            }
        }
        let handed: HashSet<&str> = self.handed.iter().map(String::as_str).collect();
        assert_eq!(handed.len(), self.handed.len(), "a call is handed out once");
        for id in handed {
            assert!(whole[id], "`{id}` is a report or from a reply that was cut");
        }
    }
}

/// The rules of requests. Only where the last thing that was said is a reply that the server paused does a request end
/// with the assistant's message.
fn check_request(records: &[Record], messages: &[Arc<Message>]) -> Result<(), String> {
    let said = records.iter().rev().find_map(|record| match record {
        Record::User { text } if text.trim().is_empty() => None,
        Record::User { .. } | Record::ToolResult { .. } => Some(StopKind::End),
        Record::Assistant { blocks, .. } if blocks.iter().any(|block| matches!(block, Block::ToolCall(_))) => {
            Some(StopKind::Tool)
        }
        Record::Assistant { blocks, stop, .. } => {
            blocks.iter().any(|block| matches!(block, Block::Text { .. })).then_some(*stop)
        }
        Record::Start { .. } => None,
    });
    if said == Some(StopKind::Paused) { history::check_paused(messages) } else { history::check(messages) }
}

/// How a model call ends.
#[derive(Clone, Copy, Debug)]
enum Ends {
    /// As the reply says.
    Whole,
    /// The stream breaks.
    Cut,
    /// It fails, after this much was said.
    Fails,
    /// Another model takes over from the start, and says the same.
    Switches,
    /// The conversation is stopped.
    Stopped,
}

/// What happens at one moment.
#[derive(Clone, Debug)]
enum Act {
    /// What the step asks for: the reply, or the result of one of the running calls.
    Go {
        reply: Reply,
        ends: Ends,
        /// Whether calls that have started have their result before the reply is whole.
        quick: bool,
        which: usize,
        is_error: bool,
    },
    ModelFails,
    UnknownResult,
    /// The result of a call that has one.
    ResultAgain(Index),
    Say(String),
    /// Stops; this share of the running calls had started.
    Stop(Index),
}

fn report_args() -> impl Strategy<Value = Value> {
    let long = "x".repeat(report::MAX_SUMMARY + 1);
    prop_oneof![
        Just(done()),
        Just(json!({ "status": "done", "summary": "s", "output": { "parts": [] } })),
        Just(json!({ "status": "done", "summary": "s", "output": 7 })),
        Just(json!({ "status": "partial", "summary": "some" })),
        Just(json!({ "status": "blocked", "summary": long })),
        Just(json!({ "status": "done", "summary": "s", "unknown": 1 })),
        Just(json!("not an object")),
    ]
}

fn blocks() -> impl Strategy<Value = Block> {
    let ids = prop::sample::select(vec!["", "call_0", "call_0_2", "call", "x"]);
    let names = prop::sample::select(vec!["read_file", "read_file", "read_file", "edit_file", "unknown"]);
    let args = prop_oneof![
        8 => (0..3).prop_map(|arg| json!({ "n": arg })),
        1 => prop::sample::select(vec![json!("{\"a\": \"b"), json!([1]), json!(null)]),
    ];
    let tool = (ids.clone(), names, args).prop_map(|(id, name, args)| call(id, name, args));
    let report = (ids, report_args()).prop_map(|(id, args)| call(id, REPORT, args));
    prop_oneof![
        3 => prop::sample::select(vec!["", " \n", "waiting for X", "é"]).prop_map(Block::text),
        1 => Just(Block::Thinking(Opaque { model: "m".into(), value: json!({ "signature": "s" }) })),
        1 => Just(Block::ToolResult(ok("call_0"))),
        6 => tool,
        1 => report,
    ]
}

fn stops() -> impl Strategy<Value = StopKind> {
    prop_oneof![
        4 => Just(StopKind::End),
        4 => Just(StopKind::Tool),
        2 => Just(StopKind::Length),
        1 => Just(StopKind::StreamCut),
        1 => Just(StopKind::Paused),
        1 => prop::sample::select(vec![StopKind::Refusal, StopKind::ContextFull, StopKind::Filtered]),
    ]
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let replies = (stops(), prop::collection::vec(blocks(), 0..5)).prop_map(|(stop, blocks)| reply(stop, blocks));
    let ends = prop_oneof![
        12 => Just(Ends::Whole),
        2 => Just(Ends::Cut),
        1 => prop::sample::select(vec![Ends::Fails, Ends::Switches, Ends::Stopped]),
    ];
    let act = prop_oneof![
        40 => (replies, ends, any::<bool>(), 0usize..4, any::<bool>()).prop_map(|(reply, ends, quick, which, is_error)| {
            Act::Go { reply, ends, quick, which, is_error }
        }),
        1 => Just(Act::ModelFails),
        3 => Just(Act::UnknownResult),
        3 => any::<Index>().prop_map(Act::ResultAgain),
        5 => prop::sample::select(vec!["a note", " "]).prop_map(|text| Act::Say(text.into())),
        1 => any::<Index>().prop_map(Act::Stop),
    ];
    prop::collection::vec(act, 0..40)
}

fn endings() -> impl Strategy<Value = Ending> {
    prop_oneof![Just(by_report(None)), Just(by_report(Some(&output_schema()))), Just(Ending::Text),]
}

fn effect(name: &str) -> Option<Effect> {
    match name {
        "read_file" => Some(Effect::Read),
        "edit_file" => Some(Effect::Edit),
        _ => None,
    }
}

/// Plays a reply that streams as the driver does: each call is admitted, and those that may start run.
fn stream(watched: &mut Watched, running: &mut Vec<String>, mut reply: Reply, ends: Ends, quick: bool) {
    let rounds = if matches!(ends, Ends::Switches) { 2 } else { 1 };
    for round in 1..=rounds {
        let mut acted = false;
        let admitted = reply.blocks.clone().into_iter().map(|block| match block {
            Block::ToolCall(call) => {
                let effect = effect(&call.name);
                acted |= effect == Some(Effect::Edit);
                let (call, starts) = watched.machine.admit(call, effect);
                assert!(!starts || (effect == Some(Effect::Read) && !acted && call.args.is_object()), "{call:?}");
                if starts {
                    assert!(watched.early.insert(call.id.clone()), "{call:?} has started twice");
                    running.push(call.id.clone());
                    watched.look();
                    if quick {
                        watched.machine.resolved(ok(&call.id));
                        running.retain(|id| *id != call.id);
                        watched.look();
                    }
                }
                Block::ToolCall(call)
            }
            other @ (Block::Text { .. } | Block::Thinking(_) | Block::ToolResult(_)) => other,
        });
        let blocks: Vec<Block> = admitted.collect();
        if round < rounds {
            watched.machine.void();
            running.clear();
        } else {
            reply.blocks = blocks;
        }
    }
    match ends {
        Ends::Whole | Ends::Switches => watched.machine.replied(reply),
        Ends::Cut => watched.machine.cut(reply, "the connection was lost"),
        Ends::Fails => {
            watched.machine.broken_off(reply);
            watched.look();
            watched.machine.model_failed("the model is gone");
        }
        Ends::Stopped => {
            watched.machine.broken_off(reply);
            watched.look();
            let running = running.clone();
            watched.machine.stop(CauseKind::Interrupted, "stopped", |id| running.iter().any(|other| other == id));
        }
    }
}

/// Drives a machine through these acts, and then to its end with a model that says nothing.
fn drive(ending: Ending, limit: u32, raises: bool, acts: Vec<Act>) -> Watched {
    let mut watched = Watched::new(ending, limit);
    if raises {
        watched.machine.can_raise_output();
    }
    let mut running: Vec<String> = Vec::new();
    let silence = || Act::Go {
        reply: reply(StopKind::End, Vec::new()),
        ends: Ends::Whole,
        quick: false,
        which: 0,
        is_error: false,
    };
    for act in acts.into_iter().chain(std::iter::repeat_with(silence).take(100)) {
        match act {
            Act::Go { reply, ends, quick, which, is_error } => match watched.step() {
                Step::CallModel { .. } => stream(&mut watched, &mut running, reply, ends, quick),
                Step::RunTools(calls) => {
                    running.extend(calls.into_iter().map(|call| call.id));
                    let id = running.swap_remove(which % running.len());
                    watched.machine.resolved(ToolResult { is_error, ..ok(&id) });
                }
                Step::End(_) => return watched,
            },
            Act::ModelFails => watched.machine.model_failed("the model is gone"),
            Act::UnknownResult => watched.machine.resolved(ok("nobody")),
            Act::ResultAgain(which) => {
                let ids: Vec<String> = watched.results().iter().map(|result| result.id.clone()).collect();
                if !ids.is_empty() {
                    watched.machine.resolved(ok(&ids[which.index(ids.len())]));
                }
            }
            Act::Say(text) => watched.machine.say(&text),
            Act::Stop(share) => {
                let share = share.index(running.len() + 1);
                watched.machine.stop(CauseKind::Interrupted, "stopped", |id| running[..share].iter().any(|r| r == id));
            }
        }
        watched.look();
    }
    panic!("it does not end")
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Calls and results pair up, any cut of the records is a valid request, and there is one end, in time.
    #[test]
    fn any_behaviour_leaves_a_valid_history_and_ends(
        ending in endings(), limit in 1u32..=8, raises in any::<bool>(), acts in acts()
    ) {
        drive(ending, limit, raises, acts).check_end();
    }
}
