//! The turn machine under a model, tools and a user that do whatever they like; then the cases that other agents have
//! got wrong.

use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};
use sortie::agent::history::{self, History, INTERRUPTED, Record};
use sortie::agent::report::{self, ReportRules};
use sortie::agent::turn::{End, Ending, MAX_IDLE, MAX_REPEATS, Machine, REPORT, Step};
use sortie::agent::{Report, ReportStatus};
use sortie::model::{Block, Reply, StopKind, ToolCall, ToolResult, Usage};
use sortie::plan::CauseKind;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

fn call(id: &str, name: &str, args: Value) -> Block {
    Block::ToolCall(ToolCall { id: id.into(), name: name.into(), args })
}

fn read(id: &str) -> Block {
    call(id, "read_file", json!({ "file_path": id }))
}

fn reply(stop: StopKind, blocks: Vec<Block>) -> Reply {
    Reply { blocks, stop, usage: Usage { input: 1, output: 1, ..Usage::default() } }
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
    last_turn: u32,
}

impl Watched {
    fn new(ending: Ending, limit: u32) -> Self {
        let by_report = matches!(ending, Ending::Report(_));
        let machine = Machine::new("the task", ending, limit);
        let mut watched = Watched { machine, by_report, limit, records: Vec::new(), handed: Vec::new(), last_turn: 0 };
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
        assert_eq!(history::check(&messages), Ok(()));
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
            assert_eq!(history::check(&History::replay(&self.records[..cut]).messages()), Ok(()), "cut at {cut}");
        }
        let mut whole = HashMap::new();
        for record in &self.records {
            if let Record::Assistant { blocks, stop, .. } = record {
                for block in blocks {
                    if let Block::ToolCall(call) = block {
                        let ours = self.by_report && call.name == REPORT;
                        let runs = !ours && matches!(stop, StopKind::End | StopKind::Tool | StopKind::Paused);
                        assert!(whole.insert(call.id.as_str(), runs).is_none(), "{} twice", call.id);
                    }
                }
            }
        }
        let answered: Vec<&str> = self.results().iter().map(|result| result.id.as_str()).collect();
        assert_eq!(answered.len(), whole.len(), "one result per call");
        assert_eq!(answered.into_iter().collect::<HashSet<_>>(), whole.keys().copied().collect());
        let handed: HashSet<&str> = self.handed.iter().map(String::as_str).collect();
        assert_eq!(handed.len(), self.handed.len(), "a call is handed out once");
        for id in handed {
            assert!(whole[id], "`{id}` is a report or from a reply that was cut");
        }
    }
}

/// What happens at one moment.
#[derive(Clone, Debug)]
enum Act {
    /// What the step asks for: the reply, or the result of one of the running calls.
    Go {
        reply: Reply,
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
    let tool = (ids.clone(), 0..3).prop_map(|(id, arg)| call(id, "read_file", json!({ "n": arg })));
    let report = (ids, report_args()).prop_map(|(id, args)| call(id, REPORT, args));
    prop_oneof![
        3 => prop::sample::select(vec!["", " \n", "waiting for X", "é"]).prop_map(Block::text),
        1 => Just(Block::Thinking { blob: json!({ "signature": "s" }) }),
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
    let act = prop_oneof![
        40 => (replies, 0usize..4, any::<bool>()).prop_map(|(reply, which, is_error)| Act::Go { reply, which, is_error }),
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

/// Drives a machine through these acts, and then to its end with a model that says nothing.
fn drive(ending: Ending, limit: u32, acts: Vec<Act>) -> Watched {
    let mut watched = Watched::new(ending, limit);
    let mut running: Vec<String> = Vec::new();
    let silence = || Act::Go { reply: reply(StopKind::End, Vec::new()), which: 0, is_error: false };
    for act in acts.into_iter().chain(std::iter::repeat_with(silence).take(100)) {
        match act {
            Act::Go { reply, which, is_error } => match watched.step() {
                Step::CallModel { .. } => watched.machine.replied(reply),
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
    fn any_behaviour_leaves_a_valid_history_and_ends(ending in endings(), limit in 1u32..=8, acts in acts()) {
        drive(ending, limit, acts).check_end();
    }
}

#[test]
fn only_a_report_ends_a_subagent() {
    // Words do not, however final, nor does a stop reason that says so; each is asked for a report once.
    let thinking = || Block::Thinking { blob: json!({}) };
    let cases: Vec<(&str, StopKind, Vec<Block>, &str)> = vec![
        ("words", StopKind::End, vec![Block::text("waiting for X")], "without calling `report`"),
        ("a tool stop without a call", StopKind::Tool, vec![], "held none"),
        ("nothing", StopKind::End, vec![], "was empty"),
        ("blanks", StopKind::End, vec![Block::text(" \n")], "was empty"),
        ("thinking alone", StopKind::End, vec![thinking()], "was empty"),
        ("a cut reply", StopKind::Length, vec![Block::text("waiting for X")], "cut at its output limit"),
        ("a cut stream", StopKind::StreamCut, vec![], "cut in transit"),
    ];
    for (what, stop, blocks, note) in cases {
        let mut watched = Watched::new(by_report(None), 10);
        watched.turn(stop, blocks.clone());
        assert!(watched.notes().concat().contains(note), "{what}: {:?}", watched.notes());
        watched.turn(StopKind::Tool, vec![call("r", REPORT, done())]);
        assert_eq!(watched.reported().summary, "found it", "{what}");

        let mut watched = Watched::new(by_report(None), 10);
        watched.turn(StopKind::Tool, vec![Block::text("first words"), read("a")]);
        watched.run_tools(ok);
        watched.turn(stop, blocks.clone());
        watched.turn(stop, blocks.clone());
        let spoke = blocks.contains(&Block::text("waiting for X"));
        let (kind, _, salvaged) = watched.short();
        let cut = matches!(stop, StopKind::Length | StopKind::StreamCut);
        assert_eq!(kind, if cut { CauseKind::CutShort } else { CauseKind::NoReport }, "{what}");
        assert_eq!(salvaged, if spoke { "waiting for X" } else { "first words" }, "{what}");
        assert_eq!(watched.notes().len(), 1, "{what}: asked once");
    }
}

#[test]
fn a_coordinator_answers_in_the_words_of_its_last_reply() {
    let thinking = Block::Thinking { blob: json!({}) };
    let mut watched = Watched::new(Ending::Text, 10);
    watched.turn(StopKind::Tool, vec![Block::text("let me look"), read("a")]);
    watched.run_tools(ok);
    watched.turn(StopKind::End, vec![Block::text("one half"), thinking, Block::text("the other")]);
    assert_eq!(watched.end(), End::Answered("one half\n\nthe other".into()));
}

#[test]
fn an_empty_or_cut_reply_is_no_answer() {
    // Words of an earlier turn do not stand in for it.
    let cases: Vec<(StopKind, Vec<Block>, CauseKind)> = vec![
        (StopKind::End, vec![], CauseKind::NoReport),
        (StopKind::Tool, vec![], CauseKind::NoReport),
        (StopKind::Tool, vec![Block::text("I call a tool")], CauseKind::NoReport),
        (StopKind::Length, vec![Block::text("half an ans")], CauseKind::CutShort),
        (StopKind::StreamCut, vec![Block::text("half an ans")], CauseKind::CutShort),
        (StopKind::Refusal, vec![Block::text("no")], CauseKind::CutShort),
        (StopKind::Filtered, vec![Block::text("half")], CauseKind::CutShort),
        (StopKind::ContextFull, vec![Block::text("half")], CauseKind::CutShort),
    ];
    for (stop, blocks, expected) in cases {
        let mut watched = Watched::new(Ending::Text, 10);
        watched.turn(StopKind::Tool, vec![Block::text("let me look"), read("a")]);
        watched.run_tools(ok);
        watched.turn(stop, blocks.clone());
        if !matches!(stop, StopKind::Refusal | StopKind::Filtered | StopKind::ContextFull) {
            watched.turn(stop, blocks.clone());
        }
        assert_eq!(watched.short().0, expected, "{stop:?} {blocks:?}");
    }
}

#[test]
fn the_last_turn_is_announced_before_it_and_takes_only_the_end() {
    for (ending, note) in
        [(by_report(None), "Only `report` is accepted now"), (Ending::Text, "No tool is accepted now")]
    {
        let mut watched = Watched::new(ending, 3);
        for id in ["a", "b"] {
            assert_eq!(watched.notes(), [""; 0], "not before the last turn");
            watched.turn(StopKind::Tool, vec![Block::text("looking"), read(id)]);
            watched.run_tools(ok);
        }
        assert_eq!(watched.step(), Step::CallModel { turn: 3 });
        assert!(watched.notes().concat().starts_with("This is your last turn."));
        assert!(watched.notes().concat().contains(note), "{:?}", watched.notes());
        watched.turn(StopKind::Tool, vec![read("c")]);
        assert!(watched.result("c").is_error && watched.result("c").text.starts_with("not run"));
        let (kind, detail, salvaged) = watched.short();
        assert_eq!((kind, salvaged.as_str()), (CauseKind::TurnLimit, "looking"));
        assert!(detail.starts_with("3 turns were used up without"), "{detail}");
        watched.check_end();
    }
}

#[test]
fn a_report_on_the_last_turn_counts() {
    let mut watched = Watched::new(by_report(None), 1);
    watched.turn(StopKind::Tool, vec![read("a"), call("r", REPORT, done())]);
    assert_eq!(watched.reported().status, ReportStatus::Done);
    assert!(watched.result("a").text.contains("only `report`"));
}

#[test]
fn a_paused_reply_goes_on_but_not_past_the_last_turn() {
    let mut watched = Watched::new(Ending::Text, 2);
    watched.turn(StopKind::Paused, vec![Block::text("so far")]);
    watched.turn(StopKind::Paused, vec![Block::text("so good")]);
    assert_eq!(watched.short().0, CauseKind::TurnLimit);
}

#[test]
fn going_in_circles_ends_in_a_last_turn() {
    type Blocks = fn(u32) -> Vec<Block>;
    let same: Blocks = |_| vec![call("c", "read_file", json!({ "file_path": "a" }))];
    let other: Blocks = |turn| vec![call("c", "read_file", json!({ "n": turn }))];
    let alternating: Blocks = |turn| vec![call("c", "read_file", json!({ "n": turn % 2 }))];
    let cases = [
        ("the same call", same, false, MAX_REPEATS, CauseKind::Repetition),
        ("always another failure", other, true, MAX_IDLE, CauseKind::NoProgress),
        // The first two turns bring something.
        ("two calls in turn", alternating, false, 2 + MAX_IDLE, CauseKind::NoProgress),
    ];
    for (what, blocks, is_error, turns, expected) in cases {
        let mut watched = Watched::new(by_report(None), 40);
        for turn in 1..=turns {
            assert!(!watched.only_the_end(), "{what}, turn {turn}");
            watched.turn(StopKind::Tool, blocks(turn));
            watched.run_tools(|id| ToolResult { id: id.into(), text: "same".into(), is_error });
        }
        assert!(watched.only_the_end(), "{what}");
        watched.turn(StopKind::Tool, blocks(turns + 1));
        assert_eq!(watched.short().0, expected, "{what}");
        assert_eq!(watched.machine.turns(), turns + 1, "{what}");
    }
}

#[test]
fn new_results_are_progress_and_a_stray_result_is_no_turn() {
    let mut watched = Watched::new(by_report(None), 40);
    for turn in 0..3 * MAX_IDLE {
        watched.turn(StopKind::Tool, vec![call("c", "read_file", json!({}))]);
        watched.run_tools(|id| ToolResult { id: id.into(), text: format!("state {turn}"), is_error: false });
        for _ in 0..MAX_IDLE {
            watched.machine.resolved(ok("c"));
            watched.machine.resolved(ok("nobody"));
        }
    }
    assert!(!watched.only_the_end());
    assert_eq!(watched.machine.turns(), 3 * MAX_IDLE);
}

#[test]
fn a_stray_result_does_not_ask_the_model_twice() {
    let mut watched = Watched::new(by_report(None), 9);
    assert_eq!(watched.step(), Step::CallModel { turn: 1 });
    watched.machine.resolved(ok("nobody"));
    assert_eq!(watched.step(), Step::CallModel { turn: 1 });
}

#[test]
fn a_cut_reply_runs_nothing_and_says_why() {
    for (stop, words) in [(StopKind::Length, "output limit"), (StopKind::StreamCut, "in transit")] {
        let mut watched = Watched::new(by_report(None), 9);
        let half = call("a", "write_file", json!({ "path": "a", "content": "lin" }));
        watched.turn(stop, vec![half, call("r", REPORT, done())]);
        for id in ["a", "r"] {
            assert!(watched.result(id).is_error && watched.result(id).text.contains(words), "{stop:?}");
        }
        assert_eq!(watched.step(), Step::CallModel { turn: 2 });
        assert_eq!(watched.handed, [""; 0]);
    }
}

#[test]
fn an_interrupted_call_is_not_called_unexecuted() {
    let mut watched = Watched::new(by_report(None), 9);
    watched.turn(StopKind::Tool, vec![Block::text("on it"), read("a"), read("b"), read("c")]);
    assert!(matches!(watched.step(), Step::RunTools(calls) if calls.len() == 3));
    watched.machine.resolved(ok("a"));
    watched.machine.stop(CauseKind::Interrupted, "interrupted by the user", |id| id == "b");
    watched.machine.say("go on then");
    watched.look();
    assert_eq!(watched.result("a"), &ok("a"), "a real result stays");
    assert_eq!(watched.result("b").text, INTERRUPTED);
    assert!(watched.result("b").text.contains("may or may not have had an effect"));
    assert_eq!(watched.result("c").text, "interrupted before it started");
    let messages = watched.machine.messages();
    let [.., last] = messages.as_slice() else { panic!("no messages") };
    assert_eq!(last.blocks.len(), 4, "the results, then the words, in one message: {last:?}");
    assert_eq!(last.blocks[3], Block::text("go on then"));
    let (kind, detail, salvaged) = watched.short();
    assert_eq!(
        (kind, detail.as_str(), salvaged.as_str()),
        (CauseKind::Interrupted, "interrupted by the user", "on it")
    );
    watched.check_end();
}

#[test]
fn a_late_result_does_not_reopen_what_has_ended() {
    let mut watched = Watched::new(by_report(None), 9);
    watched.turn(StopKind::Tool, vec![read("a")]);
    watched.step();
    watched.machine.stop(CauseKind::Timeout, "its time was up", |_| true);
    watched.machine.resolved(ok("a"));
    assert_eq!(watched.short().0, CauseKind::Timeout);
    assert_eq!(watched.result("a").text, INTERRUPTED);
}

#[test]
fn a_report_that_was_taken_survives_a_stop() {
    let mut watched = Watched::new(by_report(None), 9);
    watched.turn(StopKind::Tool, vec![call("r", REPORT, done()), read("a")]);
    watched.step();
    watched.machine.stop(CauseKind::Timeout, "its time was up", |_| true);
    assert_eq!(watched.reported().summary, "found it");
}

#[test]
fn one_failed_call_leaves_the_others_their_results() {
    let mut watched = Watched::new(by_report(None), 9);
    watched.turn(StopKind::Tool, vec![read("a"), read("b"), read("c")]);
    watched.step();
    for result in [ok("c"), ToolResult { id: "b".into(), text: "cancelled".into(), is_error: true }, ok("a")] {
        watched.machine.resolved(result);
    }
    let messages = watched.machine.messages();
    let [_, _, results] = messages.as_slice() else { panic!("{messages:?}") };
    let errors: Vec<(&str, bool)> = results
        .blocks
        .iter()
        .map(|block| match block {
            Block::ToolResult(result) => (result.id.as_str(), result.is_error),
            Block::Text { .. } | Block::Thinking { .. } | Block::ToolCall(_) => panic!("{block:?}"),
        })
        .collect();
    assert_eq!(errors, [("a", false), ("b", true), ("c", false)], "all of them, in call order");
}

#[test]
fn a_malformed_report_is_answered_and_the_conversation_goes_on() {
    let malformed = [json!(null), json!("{\"status\": \"done\"]]"), json!([]), json!({}), json!({ "status": "ready" })];
    for args in malformed {
        let mut watched = Watched::new(by_report(None), 9);
        watched.turn(StopKind::Tool, vec![call("r", REPORT, args.clone())]);
        assert!(watched.result("r").is_error, "{args}");
        assert!(watched.result("r").text.contains("Example:"), "{args}: {}", watched.result("r").text);
        assert_eq!(watched.step(), Step::CallModel { turn: 2 }, "{args}");
    }
}

#[test]
fn a_model_that_fails_keeps_what_there_was() {
    let mut watched = Watched::new(by_report(None), 9);
    for id in ["a", "b"] {
        watched.turn(StopKind::Tool, vec![Block::text(format!("reading {id}")), read(id)]);
        watched.run_tools(ok);
    }
    watched.step();
    watched.machine.model_failed("`script/x` is overloaded (529)");
    let expected = (CauseKind::Model, "`script/x` is overloaded (529)".to_string(), "reading b".to_string());
    assert_eq!(watched.short(), expected);
    assert_eq!(watched.machine.messages().len(), 5);
    assert_eq!(sortie::agent::turn::usage_of(&watched.records).total(), 4);
}

#[test]
fn an_output_that_does_not_fit_has_one_repair_round() {
    let bad = || json!({ "status": "done", "summary": "s", "output": {} });
    let good = || json!({ "status": "done", "summary": "s", "output": { "parts": ["a"] } });
    let huge = json!({ "status": "done", "summary": "s", "output": { "parts": ["x".repeat(report::MAX_OUTPUT)] } });
    for first in [bad(), done(), huge] {
        for (second, output) in [(good(), Some(json!({ "parts": ["a"] }))), (bad(), None), (done(), None)] {
            let mut watched = Watched::new(by_report(Some(&output_schema())), 9);
            // A second try in the same reply has not seen what was wrong with the first.
            watched.turn(StopKind::Tool, vec![call("r", REPORT, first.clone()), call("r", REPORT, first.clone())]);
            for id in ["r", "r_2"] {
                assert!(watched.result(id).is_error && watched.result(id).text.contains("`output`"), "{second}");
            }
            watched.turn(StopKind::Tool, vec![call("s", REPORT, second.clone())]);
            assert_eq!(watched.reported().output, output, "{second}");
        }
    }
    let mut last = Watched::new(by_report(Some(&output_schema())), 1);
    last.turn(StopKind::Tool, vec![call("r", REPORT, bad())]);
    assert_eq!(last.reported().output, None, "no round is left on the last turn");
}

#[test]
fn a_second_report_in_a_reply_is_refused() {
    let mut watched = Watched::new(by_report(None), 9);
    let other = json!({ "status": "blocked", "summary": "another" });
    watched.turn(StopKind::Tool, vec![call("r", REPORT, done()), call("r", REPORT, other)]);
    assert!(!watched.result("r").is_error && watched.result("r_2").is_error);
    assert_eq!(watched.reported().summary, "found it");
}

#[test]
fn a_report_over_a_limit_hears_which() {
    let text = |over: usize| "é".repeat(over + 1);
    let notes = |count: usize| vec!["n"; count + 1];
    let evidence = json!({ "path": "a.rs", "line": 1 });
    let claim = json!({ "claim": "c" });
    let with = |key: &str, value: Value| {
        let mut args = done();
        args[key] = value;
        args
    };
    let cases = [
        (with("summary", json!(text(report::MAX_SUMMARY))), "`summary` has 1501 characters, at most 1500"),
        (with("summary", json!(" ")), "`summary` is empty"),
        (with("findings", json!(vec![claim; report::MAX_FINDINGS + 1])), "`findings` has 41 entries, at most 40"),
        (
            with("findings", json!([{ "claim": text(report::MAX_CLAIM) }])),
            "`findings[0].claim` has 401 characters, at most 400",
        ),
        (
            with("findings", json!([{ "claim": "c", "evidence": vec![evidence; report::MAX_EVIDENCE + 1] }])),
            "`findings[0].evidence` has 6 entries, at most 5",
        ),
        (
            with(
                "findings",
                json!([{ "claim": "c", "evidence": [{ "path": "a", "line": 1, "quote": text(report::MAX_QUOTE) }] }]),
            ),
            "`findings[0].evidence[0].quote` has 201 characters, at most 200",
        ),
        (
            with("findings", json!([{ "claim": "c", "evidence": [{ "path": "a", "line": 0 }] }])),
            "`findings[0].evidence[0].line` is 0",
        ),
        (
            with("findings", json!([{ "claim": "c", "evidence": [{ "path": "a", "line": 1, "check": "verified" }] }])),
            "`findings[0].evidence[0].check` is not yours to set",
        ),
        (with("decisions", json!(notes(report::MAX_NOTES))), "`decisions` has 21 entries, at most 20"),
        (with("decisions", json!([text(report::MAX_NOTE)])), "`decisions[0]` has 301 characters, at most 300"),
        (with("open_questions", json!(notes(report::MAX_NOTES))), "`open_questions` has 21 entries, at most 20"),
        (with("open_questions", json!([text(report::MAX_NOTE)])), "`open_questions[0]` has 301 characters"),
        (with("body", json!(text(report::MAX_BODY))), "`body` has 200001 characters, at most 200000"),
        (with("output", json!({})), "`output` is not asked for here"),
        (with("sumary", json!("s")), "unknown field `sumary`"),
    ];
    for (args, expected) in cases {
        let mut watched = Watched::new(by_report(None), 9);
        watched.turn(StopKind::Tool, vec![call("r", REPORT, args)]);
        let result = watched.result("r");
        assert!(result.is_error && result.text.contains(expected), "{expected}: {}", result.text);
    }
    let rules = ReportRules::new(Some(&json!({}))).unwrap();
    let problem = rules.check(&with("output", json!("x".repeat(report::MAX_OUTPUT)))).unwrap_err();
    assert!(problem.message.contains("`output` has 32770 bytes of JSON, at most 32768"), "{}", problem.message);
}

#[test]
fn a_report_at_every_limit_is_taken_and_read_back_as_it_was_checked() {
    let evidence = json!({ "path": "a.rs", "line": 1, "quote": "é".repeat(report::MAX_QUOTE) });
    let finding = json!({
        "claim": "é".repeat(report::MAX_CLAIM), "evidence": vec![evidence; report::MAX_EVIDENCE], "confidence": "low"
    });
    let notes = vec!["é".repeat(report::MAX_NOTE); report::MAX_NOTES];
    let args = json!({
        "status": "partial", "summary": "é".repeat(report::MAX_SUMMARY), "decisions": notes, "open_questions": notes,
        "findings": vec![finding; report::MAX_FINDINGS], "used_inputs": ["map"],
        "body": "é".repeat(report::MAX_BODY), "output": "x".repeat(report::MAX_OUTPUT - 2),
    });
    let mut report = ReportRules::new(Some(&json!({}))).unwrap().check(&args).unwrap();
    // As the log keeps it once the runtime has looked the quotes up.
    report.findings[0].evidence[0].check = Some(sortie::agent::QuoteCheck::Verified);
    let line = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<Report>(&line).unwrap(), report);
}

#[test]
fn ids_that_come_again_are_made_unique_and_still_matched() {
    let mut watched = Watched::new(by_report(None), 9);
    for turn in 0..3 {
        watched.turn(StopKind::Tool, vec![call("call_0", "read_file", json!({ "n": turn })), read("call_0")]);
        watched.run_tools(ok);
    }
    assert_eq!(watched.handed.len(), 6);
    watched.machine.stop(CauseKind::Interrupted, "stopped", |_| true);
    watched.check_end();
}

#[test]
fn words_of_the_user_merge_into_one_message_and_blank_ones_vanish() {
    let mut watched = Watched::new(by_report(None), 9);
    for text in ["a reminder", " \n", "and the prompt"] {
        watched.machine.say(text);
        watched.look();
    }
    let messages = watched.machine.messages();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].blocks.len(), 3);
}

#[test]
fn a_result_without_its_call_is_not_replayed() {
    let call_made =
        Record::Assistant { turn: 1, blocks: vec![read("a")], stop: StopKind::Tool, usage: Usage::default() };
    let records = [
        Record::User { text: "task".into() },
        Record::ToolResult { result: ok("a") },
        call_made,
        Record::ToolResult { result: ok("b") },
    ];
    let messages = History::replay(&records).messages();
    assert_eq!(history::check(&messages), Ok(()));
    let interrupted = ToolResult { id: "a".into(), text: INTERRUPTED.into(), is_error: true };
    assert_eq!(messages[2].blocks, [Block::ToolResult(interrupted)]);
}
