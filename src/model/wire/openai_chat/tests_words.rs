//! Content and reasoning, one case for each way in which servers mix them.

use super::super::sse;
use super::Decoder;
use super::tests::{CALLS, DONE, LENGTH, STOP, check};
use crate::model::Delta;
use serde_json::json;

#[test]
fn reasoning_is_not_words_and_is_kept_as_it_came() {
    check(&[
        (
            "reasoning_content",
            &[
                r#"{"d":{"reasoning_content":"a"}}"#,
                r#"{"d":{"reasoning_content":"b","content":""}}"#,
                r#"{"d":{"content":"hi"}}"#,
                STOP,
                DONE,
            ],
            r#"text "hi"
            thinking {"reasoning_content":"ab"}
            stop End"#,
        ),
        (
            "the same in both fields",
            &[r#"{"d":{"reasoning_content":"a","reasoning":"a"}}"#, r#"{"d":{"content":"hi"}}"#, STOP, DONE],
            r#"text "hi"
            thinking {"reasoning_content":"a"}
            stop End"#,
        ),
        (
            "reasoning, with calls",
            &[
                r#"{"d":{"reasoning":"a","reasoning_content":null}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}],"content":null}}"#,
                CALLS,
                DONE,
            ],
            r#"thinking {"reasoning":"a"}
            call c f {}
            stop Tool"#,
        ),
        (
            "reasoning_details in pieces, a signature last, encrypted ones apart",
            &[
                r#"{"d":{"reasoning":"a","reasoning_details":[{"type":"reasoning.text","text":"a","format":"x","index":0}]}}"#,
                r#"{"d":{"reasoning":"b","reasoning_details":[{"type":"reasoning.text","text":"b","format":"x","index":0}]}}"#,
                r#"{"d":{"content":"hi"}}"#,
                r#"{"d":{"reasoning_details":[{"type":"reasoning.text","signature":"S","index":0}]}}"#,
                r#"{"d":{"reasoning_details":[{"type":"reasoning.encrypted","data":"D","index":0},{"type":"reasoning.encrypted","data":"E","index":0}]}}"#,
                STOP,
                DONE,
            ],
            r#"text "hi"
            thinking {"reasoning_details":[{"type":"reasoning.text","text":"ab","format":"x","index":0,"signature":"S"},{"type":"reasoning.encrypted","data":"D","index":0},{"type":"reasoning.encrypted","data":"E","index":0}]}
            stop End"#,
        ),
        (
            "a thought signature with its call, another in a delta of its own",
            &[
                r#"{"d":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{"thought_signature":"S"}}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}}"#,
                r#"{"d":{"tool_calls":[{"index":1,"extra_content":{"vertex":{"thought_signature":"T"}}}]}}"#,
                STOP,
                DONE,
            ],
            r#"call a f {} +{"google":{"thought_signature":"S"}}
            call b g {} +{"vertex":{"thought_signature":"T"}}
            stop Tool"#,
        ),
        (
            "the signature of a text",
            &[
                r#"{"d":{"content":"hi"}}"#,
                r#"{"d":{"content":"","extra_content":{"google":{"thought_signature":"S"}}}}"#,
                STOP,
                DONE,
            ],
            r#"text "hi"
            thinking {"extra_content":{"google":{"thought_signature":"S"}}}
            stop End"#,
        ),
        (
            "tags",
            &[
                r#"{"d":{"content":"\n<th"}}"#,
                r#"{"d":{"content":"ink>a </thi"}}"#,
                r#"{"d":{"content":"nk"}}"#,
                r#"{"d":{"content":">\n\nh"}}"#,
                r#"{"d":{"content":"i"}}"#,
                STOP,
                DONE,
            ],
            "text \"hi\"\nstop End",
        ),
        (
            "tags that the text is about",
            &[r#"{"d":{"content":"<thin"}}"#, r#"{"d":{"content":"g> and <think>x</think>"}}"#, STOP, DONE],
            "text \"<thing> and <think>x</think>\"\nstop End",
        ),
        ("the beginning of a tag alone", &[r#"{"d":{"content":" <"}}"#, STOP, DONE], "text \" <\"\nstop End"),
        ("reasoning that never ends", &[r#"{"d":{"content":"<think>a"}}"#, LENGTH, DONE], "stop Length"),
    ]);
}

#[test]
fn a_text_that_is_nothing_but_tool_calls_is_read_as_such() {
    check(&[
        (
            "two of them, after reasoning",
            &[
                r#"{"d":{"content":"<think>x</think>\n<tool_call>\n{\"name\": \"f\", \"argu"}}"#,
                r#"{"d":{"content":"ments\": {\"a\": 1}}\n</tool_call>\n<tool_call>{\"name\":\"g\"}</tool_call>\n"}}"#,
                STOP,
                DONE,
            ],
            r#"call call_1 f {"a":1}
            call call_2 g {}
            stop Tool"#,
        ),
        (
            "with words after it",
            &[r#"{"d":{"content":"<tool_call>{\"name\":\"f\"}</tool_call> is how it is written"}}"#, STOP, DONE],
            "text \"<tool_call>{\\\"name\\\":\\\"f\\\"}</tool_call> is how it is written\"\nstop End",
        ),
        (
            "cut",
            &[r#"{"d":{"content":"<tool_call>{\"name\":\"f\""}}"#, LENGTH, DONE],
            "text \"<tool_call>{\\\"name\\\":\\\"f\\\"\"\nstop Length",
        ),
        (
            "beside calls that the server found",
            &[
                r#"{"d":{"content":"<tool_call>{\"name\":\"f\"}</tool_call>"}}"#,
                r#"{"d":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}"#,
                CALLS,
                DONE,
            ],
            "text \"<tool_call>{\\\"name\\\":\\\"f\\\"}</tool_call>\"\ncall a f {}\nstop Tool",
        ),
    ]);
}

#[test]
fn the_model_shows_that_it_is_at_work_while_a_block_is_not_complete() {
    let mut decoder = Decoder::new("p/m".into());
    let mut out = Vec::new();
    for delta in [
        json!({ "reasoning_content": "r" }),
        json!({ "content": "<think>t" }),
        json!({ "tool_calls": [{ "index": 0, "id": "a", "function": { "name": "f", "arguments": "{\"a\"" } }] }),
        json!({ "reasoning_details": [{ "type": "reasoning.text", "text": "d" }] }),
    ] {
        let chunk = json!({ "choices": [{ "delta": delta }] }).to_string();
        decoder.event(&sse::Event { name: "", data: &chunk }, &mut out).unwrap();
    }
    let partial = |text: &str| Delta::Partial(text.into());
    assert_eq!(out, [partial("r"), partial("t"), partial("{\"a\"")]);
}
