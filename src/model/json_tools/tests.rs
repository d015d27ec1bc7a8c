//! Requests without tools and replies with calls.

use super::*;
use crate::model::{ModelError, ModelErrorKind, Opaque, Switch, ToolResult, Usage};

fn tool(name: &str, schema: Value) -> ToolSpec {
    ToolSpec { name: name.into(), description: format!("Does {name}. More of it."), schema }
}

fn reading() -> ToolSpec {
    tool(
        "read_file",
        json!({
            "type": "object",
            "required": ["file_path"],
            "additionalProperties": false,
            "properties": {
                "file_path": { "type": "string", "description": "which" },
                "offset": { "type": ["integer", "null"], "format": "uint64", "minimum": 0, "default": null }
            }
        }),
    )
}

fn request(tools: Vec<ToolSpec>, messages: Vec<Message>) -> Request {
    Request {
        conversation: "a".into(),
        attempt: 1,
        turn: 3,
        system: "be brief".into(),
        tools: tools.into(),
        messages: messages.into_iter().map(Arc::new).collect(),
        max_output: 100,
        format: None,
    }
}

fn call_schema(name: &str, args: Value) -> Value {
    json!({ "type": "object", "required": ["name", "args"], "additionalProperties": false,
        "properties": { "name": { "const": name }, "args": args } })
}

#[test]
fn tools_become_words_and_a_schema_with_two_alternatives() {
    let rewritten = rewrite(request(vec![reading()], Vec::new()));
    assert!(rewritten.tools.is_empty());
    assert_eq!(
        &*rewritten.system,
        "be brief\n\nReply with JSON. To use tools:\n{\"calls\": [{\"name\": \"NAME\", \"args\": {}}]}\n\
         When you are done:\n{\"answer\": \"TEXT\"}\nTools:\n\
         - read_file(file_path: string, offset?: integer): Does read_file"
    );
    let args = json!({ "type": "object", "required": ["file_path"], "additionalProperties": false, "properties": {
        "file_path": { "type": "string" }, "offset": { "type": ["integer", "null"] } } });
    let calls = json!({ "type": "object", "required": ["calls"], "additionalProperties": false, "properties": {
        "calls": { "type": "array", "items": call_schema("read_file", args), "minItems": 1, "maxItems": 2 } } });
    let answer = json!({ "type": "object", "required": ["answer"], "additionalProperties": false,
        "properties": { "answer": { "type": "string" } } });
    assert_eq!(rewritten.format.as_deref(), Some(&json!({ "anyOf": [calls, answer] })));
}

#[test]
fn a_subagent_can_only_call() {
    let report = tool("report", json!({ "type": "object", "properties": { "summary": { "type": "string" } } }));
    let rewritten = rewrite(request(vec![reading(), report], Vec::new()));
    assert!(!rewritten.system.contains("answer"), "{}", rewritten.system);
    let format = rewritten.format.unwrap();
    assert_eq!(format["required"], json!(["calls"]));
    assert_eq!(format["properties"]["calls"]["items"]["anyOf"].as_array().map(Vec::len), Some(2));
}

#[test]
fn an_answer_has_the_form_that_the_caller_wants() {
    let mut asked = request(vec![reading()], Vec::new());
    asked.format =
        Some(Arc::new(json!({ "type": "object", "title": "T", "properties": { "n": { "type": "integer" } } })));
    let format = rewrite(asked.clone()).format.unwrap();
    let wanted =
        json!({ "type": "object", "properties": { "n": { "type": "integer" } }, "additionalProperties": false });
    assert_eq!(format["anyOf"][1]["properties"]["answer"], wanted);
    asked.tools = Vec::new().into();
    let kept = rewrite(asked.clone());
    assert_eq!((kept.format, kept.system), (asked.format, asked.system), "without tools there is nothing to rewrite");
}

#[test]
fn a_schema_keeps_what_every_grammar_knows() {
    let schema = json!({
        "$schema": "x", "title": "T", "type": "object", "required": ["a", "d", "e", "j"],
        "$defs": {
            "Name": { "type": "string", "pattern": "^a", "maxLength": 20, "minLength": 1 },
            "Tree": { "type": "object", "properties": { "children": { "type": "array", "items": { "$ref": "#/$defs/Tree" } } } }
        },
        "properties": {
            "a": { "$ref": "#/$defs/Name" },
            "b": { "anyOf": [{ "$ref": "#/$defs/Name" }, { "type": "null" }], "description": "d" },
            "c": { "oneOf": [{ "const": 1 }, { "type": "number", "minimum": 0 }] },
            "d": { "type": "string", "maxLength": 200_000 },
            "e": { "type": "array", "maxItems": 40, "items": { "type": "integer", "minimum": 1 } },
            "f": { "allOf": [{ "$ref": "#/$defs/Name" }] },
            "g": { "enum": ["x", "y"], "type": "string" },
            "h": { "$ref": "#/nowhere" },
            "i": { "type": "string", "maxLength": 200_000 },
            "j": { "$ref": "#/$defs/Tree" },
            "k": { "type": "array", "items": { "type": "string" } },
            "l": true
        }
    });
    let simple = schema::simple(&schema);
    let name = json!({ "type": "string", "maxLength": 20 });
    let properties = &simple["properties"];
    assert_eq!(properties["a"], name);
    assert_eq!(properties["b"], json!({ "anyOf": [name, { "type": "null" }] }));
    assert_eq!(properties["c"], json!({ "anyOf": [{ "const": 1 }, { "type": "number" }] }));
    assert_eq!(properties["d"], json!({ "type": "string", "maxLength": 400 }));
    assert_eq!(
        properties["e"],
        json!({ "type": "array", "items": { "type": "integer", "minimum": 1 }, "maxItems": 8 })
    );
    assert_eq!(properties["f"], name);
    assert_eq!(properties["g"], json!({ "enum": ["x", "y"] }));
    let names: Vec<&String> = properties.as_object().unwrap().keys().collect();
    assert_eq!(names, ["a", "b", "c", "d", "e", "f", "g", "j"], "what may be missing is left out where it is long");
    let text = simple.to_string();
    for word in ["$ref", "$defs", "pattern", "title", "description", "oneOf", "allOf", "minLength"] {
        assert!(!text.contains(&format!("\"{word}\"")), "{word}: {text}");
    }
    assert!(jsonschema::validator_for(&simple).is_ok());
    assert_eq!(
        schema::signature("t", &simple),
        "t(a: string, b?: string, c?: any|number, d: string, e: [integer], f?: string, g?: \"x\"|\"y\", j: object)"
    );
}

#[test]
fn the_history_is_told_in_words() {
    let call = |id: &str, name: &str, args: Value| Block::ToolCall(ToolCall::new(id, name, args));
    let result = |id: &str, text: &str, is_error: bool| {
        Block::ToolResult(ToolResult { id: id.into(), text: text.into(), is_error })
    };
    let user = |blocks| Message { speaker: Speaker::User, blocks };
    let assistant = |blocks| Message { speaker: Speaker::Assistant, blocks };
    let thinking = Block::Thinking(Opaque { model: "p/m".into(), value: json!({ "reasoning": "r" }) });
    let history = vec![
        user(vec![Block::text("task")]),
        assistant(vec![thinking, Block::text("hm"), call("x", "f", json!({ "a": 1 })), call("y", "g", json!({}))]),
        user(vec![result("x", "one", false), result("y", "bad", true), Block::text("note")]),
        assistant(vec![Block::text("done")]),
    ];
    let told: Vec<String> = rewrite(request(vec![reading()], history))
        .messages
        .iter()
        .flat_map(|message| message.blocks.clone())
        .map(|block| if let Block::Text { text } = block { text } else { panic!("{block:?}") })
        .collect();
    assert_eq!(
        told,
        [
            "task",
            "hm",
            r#"{"calls":[{"name":"f","args":{"a":1}},{"name":"g","args":{}}]}"#,
            "f returned:\none",
            "g failed:\nbad",
            "note",
            "done"
        ]
    );
}

/// What comes of a reply in these pieces, without what only shows life.
async fn replied(pieces: &[&str], end: Result<Delta, ModelError>) -> Vec<Result<Delta, ModelError>> {
    let mut deltas: Vec<_> = pieces.iter().map(|piece| Ok(Delta::Text(piece.to_string()))).collect();
    deltas.push(end);
    let out: Vec<_> = decode(stream::iter(deltas).boxed(), 7).collect().await;
    let partial = out.iter().filter(|delta| matches!(delta, Ok(Delta::Partial(_)))).count();
    assert_eq!(partial, pieces.len(), "the idle timer is fed with every piece");
    out.into_iter().filter(|delta| !matches!(delta, Ok(Delta::Partial(_)))).collect()
}

fn text(text: &str) -> Result<Delta, ModelError> {
    Ok(Delta::Text(text.into()))
}

#[tokio::test]
async fn a_reply_becomes_calls_or_words() {
    use StopKind::{End, Filtered, Length, StreamCut, Tool};
    let call = |n: u32, name: &str, args: Value| Ok(Delta::Call(ToolCall::new(format!("json_7_{n}"), name, args)));
    let read = || call(1, "read_file", json!({ "file_path": "a" }));
    let json = r#"{"calls": [{"name": "read_file", "args": {"file_path": "a"}}]}"#;
    for (pieces, stop, said, stopped) in [
        (vec![&json[..9], &json[9..]], End, vec![read()], Tool),
        (vec![json], Length, vec![read()], Tool),
        (vec![json], Filtered, vec![read()], Filtered),
        (vec!["```json\n", json, "\n```"], End, vec![read()], Tool),
        (
            vec![r#"{"calls": [{"name": "f"}, {"name": "g", "args": [1]}]}"#],
            End,
            vec![call(1, "f", json!({})), call(2, "g", json!([1]))],
            Tool,
        ),
        (vec![r#"{"answer": "it is "#, r#"so"}"#], End, vec![text("it is so")], End),
        (vec![r#"{"answer": {"n": 1}}"#], End, vec![text(r#"{"n":1}"#)], End),
        (vec![r#"{"answer": " "}"#], End, vec![], End),
        (vec![r#"{"calls": [{"name": "read_"#], Length, vec![text(r#"{"calls": [{"name": "read_"#)], Length),
        (vec!["I do not know JSON."], End, vec![text("I do not know JSON.")], End),
        (vec![r#"{"calls": []}"#], End, vec![text(r#"{"calls": []}"#)], End),
        (vec![r#"{"calls": [{"args": {}}]}"#], StreamCut, vec![text(r#"{"calls": [{"args": {}}]}"#)], StreamCut),
        (vec!["  "], End, vec![], End),
    ] {
        let mut wanted = said;
        wanted.push(Ok(Delta::Stop(stopped)));
        assert_eq!(replied(&pieces, Ok(Delta::Stop(stop))).await, wanted, "{pieces:?}");
    }
}

#[tokio::test]
async fn what_was_said_before_an_error_stays_and_other_deltas_pass() {
    let error = ModelError::new(ModelErrorKind::Cut, "broke");
    assert_eq!(replied(&["{\"ans"], Err(error.clone())).await, [text("{\"ans"), Err(error)]);
    let switch = Delta::Switched(Switch { to: "q/n".into(), why: "overloaded".into() });
    let native = Delta::Call(ToolCall::new("c", "f", json!({})));
    let usage = Delta::Usage(Usage::default());
    let deltas = vec![
        Delta::Sent,
        Delta::Text("void".into()),
        switch.clone(),
        native.clone(),
        usage.clone(),
        Delta::Stop(StopKind::Tool),
    ];
    let out: Vec<_> = decode(stream::iter(deltas.into_iter().map(Ok)).boxed(), 1).map(Result::unwrap).collect().await;
    let void = Delta::Partial("void".into());
    assert_eq!(out, [Delta::Sent, void, switch, native, usage, Delta::Stop(StopKind::Tool)]);
}

#[tokio::test]
async fn an_end_without_its_mark_stays_one() {
    let deltas = stream::iter([Ok(Delta::Text("half".into()))]).boxed();
    let out: Vec<_> = decode(deltas, 1).collect().await;
    assert_eq!(out, [Ok(Delta::Partial("half".into())), text("half")]);
}
