//! Arguments that no tool can be called with.

use serde_json::Value;

/// Why arguments are not the object that every tool takes, if they are not: the reason and the place, for the model.
/// Text stands for what was no JSON when it came.
pub(in crate::agent) fn unusable(args: &Value) -> Option<String> {
    Some(match args {
        Value::Object(_) => return None,
        Value::String(raw) => match serde_json::from_str::<Value>(raw) {
            Err(error) => format!("the arguments are no JSON ({error})"),
            Ok(Value::Object(_)) => {
                "the arguments are a text that holds an object; they must be the object itself".into()
            }
            Ok(_) => "the arguments are a text, and must be an object".into(),
        },
        Value::Array(_) => "the arguments are a list, and must be an object".into(),
        Value::Null => "the arguments are null, and must be an object".into(),
        Value::Bool(_) => "the arguments are a truth value, and must be an object".into(),
        Value::Number(_) => "the arguments are a number, and must be an object".into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_an_object_is_usable_and_the_reason_names_the_place() {
        let cases = [
            (json!({}), None),
            (json!("{\"a\": \"b"), Some("no JSON (EOF while parsing a string at line 1 column 8)")),
            (json!("{\"a\": }"), Some("no JSON (expected value at line 1 column 7)")),
            (json!("{\"a\": 1}"), Some("the object itself")),
            (json!("x"), Some("no JSON (expected value at line 1 column 1)")),
            (json!([1]), Some("a list")),
            (json!(null), Some("null")),
            (json!(7), Some("a number")),
        ];
        for (args, wanted) in cases {
            let problem = unusable(&args);
            assert_eq!(problem.is_some(), wanted.is_some(), "{args}");
            assert!(problem.unwrap_or_default().contains(wanted.unwrap_or_default()), "{args}");
        }
    }
}
