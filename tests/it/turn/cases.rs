//! Cases that other agents have got wrong.

use super::*;
use sortie::agent::ReportStatus;
use sortie::agent::turn::{MAX_IDLE, MAX_REPEATS};

#[test]
fn only_a_report_ends_a_subagent() {
    // Words do not, however final, nor does a stop reason that says so; each is asked for a report once.
    let thinking = || Block::Thinking(Opaque { model: "m".into(), value: json!({}) });
    let cases: Vec<(&str, StopKind, Vec<Block>, &str)> = vec![
        ("words", StopKind::End, vec![Block::text("waiting for X")], "without calling `report`"),
        ("a tool stop without a call", StopKind::Tool, vec![], "held none"),
        ("nothing", StopKind::End, vec![], "was empty"),
        ("blanks", StopKind::End, vec![Block::text(" \n")], "was empty"),
        ("thinking alone", StopKind::End, vec![thinking()], "was empty"),
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
        assert_eq!(kind, CauseKind::NoReport, "{what}");
        assert_eq!(salvaged, if spoke { "waiting for X" } else { "first words" }, "{what}");
        assert_eq!(watched.notes().len(), 1, "{what}: asked once");
    }
}

#[test]
fn a_coordinator_answers_in_the_words_of_its_last_reply() {
    let thinking = Block::Thinking(Opaque { model: "m".into(), value: json!({}) });
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
    let mut usage = Usage::default();
    for record in &watched.records {
        if let Record::Assistant { usage: one, .. } = record {
            usage += *one;
        }
    }
    assert_eq!(usage.total(), 4);
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
