//! Cases that other agents have got wrong.

use super::*;
use sortie::agent::ReportStatus;
use sortie::agent::turn::{MAX_CONTINUED, MAX_CUTS, MAX_IDLE, MAX_PAUSES, MAX_REPEATS};

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
fn a_paused_reply_is_sent_back_as_it_is_and_its_parts_are_one_answer() {
    let mut watched = Watched::new(Ending::Text, 40);
    watched.turn(StopKind::Paused, vec![Block::text("so far")]);
    watched.step();
    let messages = watched.machine.messages();
    assert_eq!(history::check_paused(&messages), Ok(()));
    assert_eq!(messages.last().unwrap().blocks, [Block::text("so far")]);
    watched.turn(StopKind::End, vec![Block::text("so good")]);
    assert_eq!(watched.end(), End::Answered("so far\n\nso good".into()));
    assert_eq!(watched.notes(), [""; 0]);

    let mut watched = Watched::new(Ending::Text, 40);
    for _ in 0..=MAX_PAUSES {
        watched.turn(StopKind::Paused, vec![Block::text("still at it")]);
    }
    assert_eq!(watched.short().0, CauseKind::CutShort, "not for ever");
}

/// A model call that breaks after this was said.
fn cut(watched: &mut Watched, blocks: Vec<Block>) {
    assert!(matches!(watched.step(), Step::CallModel { .. }));
    watched.machine.cut(reply(StopKind::StreamCut, blocks), "the connection was lost");
    watched.look();
}

#[test]
fn a_reply_that_broke_is_gone_on_with_twice_in_a_row() {
    let mut watched = Watched::new(Ending::Text, 40);
    for _ in 0..2 {
        cut(&mut watched, vec![Block::text("first words, then ")]);
        cut(&mut watched, vec![]);
        watched.turn(StopKind::Tool, vec![read("a")]);
        watched.run_tools(ok);
    }
    assert_eq!(watched.notes().len(), 2, "nothing to say about a cut that left nothing: {:?}", watched.notes());
    cut(&mut watched, vec![Block::text("half an ")]);
    cut(&mut watched, vec![Block::text("ans")]);
    let mut lucky = Watched::new(Ending::Text, 40);
    cut(&mut lucky, vec![Block::text("half an ")]);
    lucky.turn(StopKind::End, vec![Block::text("answer")]);
    assert_eq!(lucky.end(), End::Answered("half an answer".into()));
    for _ in 2..=MAX_CUTS {
        cut(&mut watched, vec![Block::text("wer")]);
    }
    let (kind, detail, salvaged) = watched.short();
    assert_eq!((kind, detail.as_str()), (CauseKind::Model, "the connection was lost"));
    assert_eq!(salvaged, "half an answer");
    watched.check_end();
}

#[test]
fn a_cut_on_the_last_turn_is_the_end() {
    let mut watched = Watched::new(by_report(None), 1);
    cut(&mut watched, vec![Block::text("half"), call("r", REPORT, done())]);
    assert_eq!(watched.short(), (CauseKind::Model, "the connection was lost".into(), "half".into()));
    assert!(watched.result("r").text.contains("cut in transit"));
    watched.check_end();
}

#[test]
fn a_reply_at_its_limit_is_continued_twice_in_a_row() {
    let mut watched = Watched::new(Ending::Text, 40);
    for part in ["one ", "two "] {
        watched.turn(StopKind::Length, vec![Block::text(part)]);
        assert!(watched.notes().last().unwrap().contains("Go on exactly where you stopped"));
    }
    watched.turn(StopKind::End, vec![Block::text("three")]);
    assert_eq!(watched.end(), End::Answered("one two three".into()));

    for ending in [Ending::Text, by_report(None)] {
        for blocks in [vec![Block::text("long")], vec![call("a", "edit_file", json!({ "text": "long" }))]] {
            let mut watched = Watched::new(ending.clone(), 40);
            for _ in 0..=MAX_CONTINUED {
                watched.turn(StopKind::Length, blocks.clone());
            }
            let (kind, detail, _) = watched.short();
            assert_eq!((kind, detail.as_str()), (CauseKind::CutShort, "the reply was cut at its output limit"));
            watched.check_end();
        }
    }
}

#[test]
fn the_output_limit_is_raised_once_before_anything_is_continued() {
    let mut watched = Watched::new(Ending::Text, 40);
    watched.machine.can_raise_output();
    watched.turn(StopKind::Length, vec![Block::text("far too lo"), call("a", "edit_file", json!({}))]);
    assert!(watched.machine.is_raised());
    assert_eq!(watched.machine.messages().len(), 1, "the cut reply is not kept");
    assert_eq!(watched.notes(), [""; 0]);
    watched.turn(StopKind::Length, vec![Block::text("longer, but ")]);
    watched.turn(StopKind::End, vec![Block::text("not long enough")]);
    assert_eq!(watched.end(), End::Answered("longer, but not long enough".into()));

    // What was cut is all there is when nothing better comes.
    let mut watched = Watched::new(Ending::Text, 40);
    watched.machine.can_raise_output();
    watched.turn(StopKind::Length, vec![Block::text("far too lo")]);
    watched.step();
    watched.machine.model_failed("gone");
    assert_eq!(watched.short(), (CauseKind::Model, "gone".into(), "far too lo".into()));

    let mut watched = Watched::new(Ending::Text, 1);
    watched.machine.can_raise_output();
    watched.turn(StopKind::Length, vec![Block::text("half")]);
    assert_eq!(watched.short().0, CauseKind::TurnLimit, "there is no turn left to ask again");
}

/// Streams these calls; returns which of them start at once.
fn admit(watched: &mut Watched, calls: &[(&str, &str, Value)]) -> (Vec<Block>, Vec<String>) {
    assert!(matches!(watched.step(), Step::CallModel { .. }));
    let (mut blocks, mut started) = (Vec::new(), Vec::new());
    for (id, name, args) in calls {
        let (call, starts) = watched.machine.admit(ToolCall::new(*id, *name, args.clone()), effect(name));
        if starts {
            started.push(call.id.clone());
            watched.early.insert(call.id.clone());
        }
        blocks.push(Block::ToolCall(call));
    }
    (blocks, started)
}

#[test]
fn only_reads_before_the_first_call_that_acts_start_while_the_reply_streams() {
    let at = |path: &str| json!({ "file_path": path });
    let calls = [
        ("1", "read_file", at("a")),
        ("2", "unknown", json!({})),
        ("3", REPORT, json!({ "status": "done", "summary": "" })),
        ("4", "read_file", json!("{\"file_path\": \"b")),
        ("5", "read_file", at("b")),
        ("6", "edit_file", at("a")),
        ("7", "read_file", at("a")),
    ];
    let mut watched = Watched::new(by_report(None), 9);
    let (blocks, started) = admit(&mut watched, &calls);
    assert_eq!(started, ["1", "5"]);
    watched.machine.resolved(ok("5"));
    watched.machine.replied(reply(StopKind::Tool, blocks));
    watched.look();
    assert!(watched.result("4").text.contains("no JSON (EOF while parsing a string at line 1 column 16)"));
    let Step::RunTools(calls) = watched.step() else { panic!("nothing is handed out") };
    let ids: Vec<&str> = calls.iter().map(|call| call.id.as_str()).collect();
    assert_eq!(ids, ["2", "6", "7"]);
    for id in ["2", "7", "1", "6"] {
        watched.machine.resolved(ok(id));
        watched.look();
    }
    assert_eq!(watched.step(), Step::CallModel { turn: 2 });
    let messages = watched.machine.messages();
    let order: Vec<&str> = messages[2]
        .blocks
        .iter()
        .map(|block| match block {
            Block::ToolResult(result) => result.id.as_str(),
            Block::Text { .. } | Block::Thinking(_) | Block::ToolCall(_) => panic!("{block:?}"),
        })
        .collect();
    assert_eq!(order, ["1", "2", "3", "4", "5", "6", "7"], "results keep call order");
}

#[test]
fn a_cut_keeps_the_results_of_what_has_started_and_runs_nothing_else() {
    let calls = [("1", "read_file", json!({})), ("2", "read_file", json!({})), ("3", "edit_file", json!({}))];
    for stop in [StopKind::StreamCut, StopKind::Length] {
        for raises in [false, true] {
            let mut watched = Watched::new(by_report(None), 9);
            if raises {
                watched.machine.can_raise_output();
            }
            let (blocks, started) = admit(&mut watched, &calls);
            assert_eq!(started, ["1", "2"]);
            watched.machine.resolved(ok("1"));
            watched.machine.replied(reply(stop, blocks));
            watched.look();
            assert_eq!(watched.step(), Step::RunTools(Vec::new()), "2 still runs");
            watched.machine.resolved(ok("2"));
            assert_eq!(watched.step(), Step::CallModel { turn: 2 });
            assert_eq!((watched.result("1"), watched.result("2")), (&ok("1"), &ok("2")));
            assert!(watched.result("3").is_error && watched.result("3").text.contains("was not run"));
            assert_eq!(watched.machine.is_raised(), raises && stop == StopKind::Length);
        }
    }
}

#[test]
fn nothing_starts_early_while_only_the_end_is_accepted() {
    let mut watched = Watched::new(by_report(None), 1);
    let (_, started) = admit(&mut watched, &[("1", "read_file", json!({}))]);
    assert_eq!(started, [""; 0]);
}

#[test]
fn calls_of_a_reply_that_another_model_replaced_are_not_in_the_history() {
    let mut watched = Watched::new(by_report(None), 9);
    let (_, started) = admit(&mut watched, &[("a", "read_file", json!({}))]);
    assert_eq!(started, ["a"]);
    watched.machine.void();
    let (blocks, started) = admit(&mut watched, &[("a", "read_file", json!({}))]);
    assert_eq!(started, ["a_2"], "an id is never used again");
    watched.machine.resolved(ok("a"));
    watched.machine.replied(reply(StopKind::Tool, blocks));
    watched.machine.resolved(ok("a_2"));
    watched.look();
    assert_eq!(watched.results().len(), 1);
}

#[test]
fn arguments_that_are_no_object_are_answered_with_the_reason_and_the_other_calls_run() {
    let cases = [(json!("{\"a\": \"b"), "line 1 column 8"), (json!("x"), "no JSON"), (json!([1]), "a list")];
    for (args, reason) in cases.into_iter().chain([(json!(null), "null"), (json!(7), "a number")]) {
        for ending in [by_report(None), Ending::Text] {
            let mut watched = Watched::new(ending, 9);
            watched.turn(StopKind::Tool, vec![call("bad", "read_file", args.clone()), read("good")]);
            watched.run_tools(ok);
            assert_eq!(watched.handed, ["good"]);
            assert!(watched.result("bad").is_error && watched.result("bad").text.contains(reason), "{args}");
            assert_eq!(watched.step(), Step::CallModel { turn: 2 });
        }
    }
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
