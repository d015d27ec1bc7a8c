//! Replies that are cut, paused or still on their way.

use super::*;
use sortie::agent::turn::{MAX_CONTINUED, MAX_CUTS, MAX_PAUSES};

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
