//! What `report` takes and what it sends back.

use super::*;

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
