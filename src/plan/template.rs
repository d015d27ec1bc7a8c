//! Prompts and `foreach` expressions filled with inputs, items and the reports of other nodes.
//!
//! Strict: a name that does not exist is an error that says so, never an empty string. What is filled in is text:
//! braces or `$1` within a value stay as they are. Text goes in raw, lists and tables as JSON.
//! Loops and sizes are bounded, because a model may have written the template.

use super::{Foreach, MAX_FOREACH, Outcome};
use crate::text::{clip, plural};
use indexmap::IndexMap;
use minijinja::syntax::SyntaxConfig;
use minijinja::value::{Serde, ValueKind};
use minijinja::{Environment, Error, ErrorKind, State, UndefinedBehavior, Value as Filled};
use serde::Serialize;
use serde_json::Value;
use std::fmt;
use std::ops::Range;
use std::sync::OnceLock;

/// Steps that one template may take.
const FUEL: u64 = 1_000_000;
/// Bytes that values may fill into one template.
const MAX_FILLED: usize = 8 * 1024 * 1024;

/// What templates may name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Values {
    /// Inputs by name, resolved.
    pub inputs: IndexMap<String, Value>,
    /// `index` and `item` of an instance of a `foreach` node; with `batch` the item is a list.
    pub item: Option<(usize, Value)>,
    /// The ancestors' results by node id.
    pub nodes: IndexMap<String, NodeResult>,
}

/// What is behind `nodes.ID`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
pub enum NodeResult {
    /// Of a plain node.
    One(NodeView),
    /// Of a `foreach` node, in item order.
    Many(Vec<NodeView>),
}

/// What a template sees of an ended node.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeView {
    /// How it ended.
    pub outcome: Outcome,
    /// Its report's summary; empty when there is no report.
    pub summary: String,
    /// Its report's structured result; null when there is none.
    pub output: Option<Value>,
    /// Its report's findings as JSON objects.
    pub findings: Vec<Value>,
}

/// A template that is wrong, or does not fit its values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TemplateError {
    /// A lower-case fragment.
    pub message: String,
    /// The bytes of the template that it is about, where known.
    pub range: Option<Range<usize>>,
}

impl TemplateError {
    fn new(message: impl Into<String>) -> Self {
        TemplateError { message: message.into(), range: None }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for TemplateError {}

impl From<Error> for TemplateError {
    fn from(error: Error) -> Self {
        let detail = error.detail().filter(|detail| !detail.is_empty());
        let message = match error.kind() {
            ErrorKind::SyntaxError => format!("syntax error: {}", detail.unwrap_or("this cannot be read")),
            ErrorKind::UndefinedError => match detail {
                Some(detail) => format!("a name is not defined: {detail}"),
                None => "a name is not defined".to_owned(),
            },
            ErrorKind::OutOfFuel => format!("it takes more than {FUEL} steps"),
            kind => match detail {
                Some(detail) => detail.to_owned(),
                None => kind.to_string(),
            },
        };
        TemplateError { message, range: error.range() }
    }
}

/// Fills a template.
///
/// # Errors
/// When the template cannot be read, names something that is not there, or grows without bounds.
pub fn render(template: &str, values: &Values) -> Result<String, TemplateError> {
    if !template.contains('{') {
        return Ok(template.to_owned());
    }
    Ok(environment().template_from_str(template)?.render(context(template, values))?)
}

/// Fills the template of a command line: values become words of the shell, whatever they hold.
///
/// # Errors
/// As [`render`].
pub fn render_command(template: &str, values: &Values) -> Result<String, TemplateError> {
    if !template.contains('{') {
        return Ok(template.to_owned());
    }
    static SHELL: OnceLock<Environment<'static>> = OnceLock::new();
    let shell = SHELL.get_or_init(|| {
        let mut environment = environment().clone();
        environment.set_formatter(write_words);
        environment
    });
    Ok(shell.template_from_str(template)?.render(context(template, values))?)
}

/// The items of a `foreach`.
///
/// # Errors
/// When its expression cannot be evaluated, is not a list (the error says what it is), or has more than
/// [`MAX_FOREACH`] items.
pub fn items(foreach: &Foreach, values: &Values) -> Result<Vec<Value>, TemplateError> {
    let items = match foreach {
        Foreach::Items(items) => items.clone(),
        Foreach::Expression(expression) => evaluate(expression, values)?,
    };
    if items.len() > MAX_FOREACH {
        let count = plural(items.len(), "item");
        return Err(TemplateError::new(format!("`foreach` got {count}; at most {MAX_FOREACH} are run")));
    }
    Ok(items)
}

fn evaluate(expression: &str, values: &Values) -> Result<Vec<Value>, TemplateError> {
    let value = environment().compile_expression(expression)?.eval(context(expression, values))?;
    let not_a_list = |what: String| TemplateError::new(format!("`foreach` needs a list, but `{expression}` is {what}"));
    match value.kind() {
        ValueKind::Seq | ValueKind::Iterable => {}
        ValueKind::Undefined => return Err(not_a_list("not defined".to_owned())),
        ValueKind::None => return Err(not_a_list("null".to_owned())),
        ValueKind::String => return Err(not_a_list(format!("the text `{}`", clip(&value.to_string(), 40)))),
        ValueKind::Map => return Err(not_a_list("a table".to_owned())),
        kind => return Err(not_a_list(format!("a {kind}: `{}`", clip(&value.to_string(), 40)))),
    }
    // Counted before anything is copied: an expression such as `range(100000)` is made in a moment.
    let mut items = Vec::new();
    for item in value.try_iter()? {
        if items.len() > MAX_FOREACH {
            break;
        }
        let item = serde_json::to_value(&item)
            .map_err(|error| TemplateError::new(format!("an item of `{expression}` is no JSON value: {error}")))?;
        items.push(item);
    }
    if items.len() > MAX_FOREACH {
        return Err(TemplateError::new(format!("`{expression}` has more than the {MAX_FOREACH} items that are run")));
    }
    Ok(items)
}

/// Reads a template without filling it.
pub(super) fn compile(template: &str) -> Result<Vec<String>, TemplateError> {
    let template = environment().template_from_str(template)?;
    Ok(sorted(template.undeclared_variables(true)))
}

/// Reads an expression without evaluating it.
pub(super) fn compile_expression(expression: &str) -> Result<Vec<String>, TemplateError> {
    let expression = environment().compile_expression(expression)?;
    Ok(sorted(expression.undeclared_variables(true)))
}

/// Whether templates have a filter of this name.
pub(super) fn is_filter(name: &str) -> bool {
    let test = environment().compile_expression("name is filter");
    test.and_then(|test| test.eval(minijinja::context! { name })).is_ok_and(|answer| answer.is_true())
}

fn sorted(names: std::collections::HashSet<String>) -> Vec<String> {
    let mut names: Vec<String> = names.into_iter().collect();
    names.sort_unstable();
    names
}

fn environment() -> &'static Environment<'static> {
    static ENVIRONMENT: OnceLock<Environment<'static>> = OnceLock::new();
    ENVIRONMENT.get_or_init(|| {
        let mut environment = Environment::new();
        environment.set_undefined_behavior(UndefinedBehavior::Strict);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        // Fails only for delimiters that clash; these are the usual ones.
        if let Ok(syntax) = SyntaxConfig::builder().keep_trailing_newline(true).build() {
            environment.set_syntax(syntax);
        }
        // Errors then name what is not defined, in release builds too.
        environment.set_debug(true);
        environment.set_fuel(Some(FUEL));
        environment.set_formatter(write_value);
        // It prints the whole context, which is no text for a prompt.
        environment.remove_global("debug");
        environment
    })
}

/// How much the values of one template have filled in.
#[derive(Default)]
struct Written(usize);

fn write_value(out: &mut minijinja::Output<'_>, state: &mut State<'_, '_>, value: &Filled) -> Result<(), Error> {
    let text = match value.as_str() {
        Some(text) => std::borrow::Cow::Borrowed(text),
        None => match value.kind() {
            ValueKind::Undefined => return Ok(()),
            // The engine writes `True` and `none` where a reader of a plan expects JSON.
            ValueKind::Seq | ValueKind::Iterable | ValueKind::Map | ValueKind::None | ValueKind::Bool => {
                let json = serde_json::to_string(value);
                json.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?.into()
            }
            _ => value.to_string().into(),
        },
    };
    write_bounded(out, state, &text)
}

fn write_words(out: &mut minijinja::Output<'_>, state: &mut State<'_, '_>, value: &Filled) -> Result<(), Error> {
    if value.kind() == ValueKind::Undefined {
        return Ok(());
    }
    let json = serde_json::to_value(value);
    let json = json.map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))?;
    write_bounded(out, state, &super::command::words(&json))
}

fn write_bounded(out: &mut minijinja::Output<'_>, state: &mut State<'_, '_>, text: &str) -> Result<(), Error> {
    let written = state.get_or_insert_extension_with(Written::default);
    written.0 = written.0.saturating_add(text.len());
    if written.0 > MAX_FILLED {
        let message = format!("the values fill more than {MAX_FILLED} bytes into it");
        return Err(Error::new(ErrorKind::InvalidOperation, message));
    }
    out.write_str(text).map_err(Error::from)
}

/// Inputs, `item`, `index`; and `nodes`, whose reports may be large, only where the template speaks of them.
fn context(template: &str, values: &Values) -> Filled {
    let mut context: Vec<(&str, Filled)> =
        values.inputs.iter().map(|(name, value)| (name.as_str(), Filled::from(Serde(value)))).collect();
    if let Some((index, item)) = &values.item {
        context.push(("index", Filled::from(*index)));
        context.push(("item", Filled::from(Serde(item))));
    }
    if template.contains("nodes") {
        context.push(("nodes", Filled::from(Serde(&values.nodes))));
    }
    Filled::from_pairs(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn view(summary: &str, output: Option<Value>) -> NodeView {
        NodeView { outcome: Outcome::Succeeded, summary: summary.into(), output, findings: vec![json!({"claim": "c"})] }
    }

    fn values() -> Values {
        let mut values = Values { item: Some((2, json!({"path": "src"}))), ..Values::default() };
        values.inputs.insert("question".into(), json!("why {{ item }} costs $1?"));
        values.inputs.insert("paths".into(), json!(["a", "b"]));
        values.inputs.insert("depth".into(), json!(3));
        values.inputs.insert("deep".into(), json!(true));
        let map = view("two parts", Some(json!({"parts": ["x", "y"], "z": 1, "a": null})));
        values.nodes.insert("map".into(), NodeResult::One(map));
        let parts = ["first", "second"].map(|summary| view(summary, None));
        values.nodes.insert("a-b".into(), NodeResult::Many(parts.into()));
        values
    }

    #[test]
    fn values_are_filled_in_as_text_or_json_and_never_expanded_again() {
        for (template, expected) in [
            ("plain { text } $1\n", "plain { text } $1\n"),
            ("{{ question }}\n", "why {{ item }} costs $1?\n"),
            ("{{ depth }} {{ deep }} {{ paths }}", "3 true [\"a\",\"b\"]"),
            ("{{ item }} {{ item.path }} {{ index }}", "{\"path\":\"src\"} src 2"),
            ("{{ nodes.map.output }}", "{\"parts\":[\"x\",\"y\"],\"z\":1,\"a\":null}"),
            ("{{ nodes.map.outcome }}: {{ nodes.map.summary }}", "succeeded: two parts"),
            ("{% for r in nodes['a-b'] %}{{ loop.index }} {{ r.summary }};{% endfor %}", "1 first;2 second;"),
            ("{{ nodes['a-b'][0].output }}", "null"),
            ("{{ nodes.map.findings[0].claim | upper }}", "C"),
            ("{% raw %}{{ x }}{% endraw %} <b>&", "{{ x }} <b>&"),
        ] {
            assert_eq!(render(template, &values()).unwrap(), expected, "{template}");
        }
    }

    #[test]
    fn what_is_not_there_is_an_error_that_names_it() {
        for (template, expected) in [
            ("{{ quesion }}", "a name is not defined: `quesion` is undefined"),
            ("{{ nodes.map.output.prts }}", "a name is not defined: `nodes.map.output.prts` is undefined"),
            ("{{ nodes.gone.summary }}", "a name is not defined: `nodes.gone` is undefined"),
            ("{% if quesion %}x{% endif %}", "a name is not defined: `quesion` is undefined"),
            ("{{ x", "syntax error: unexpected end of input, expected end of variable block"),
            ("{% include 'x' %}", "syntax error: unknown statement include"),
            ("{{ question | nope }}", "filter nope is unknown"),
        ] {
            assert_eq!(render(template, &values()).unwrap_err().to_string(), expected, "{template}");
        }
    }

    #[test]
    fn foreach_yields_a_list_or_says_what_it_is_instead() {
        let of = |text: &str| items(&Foreach::Expression(text.into()), &values());
        assert_eq!(of("nodes.map.output.parts").unwrap(), [json!("x"), json!("y")]);
        assert_eq!(of("paths").unwrap(), [json!("a"), json!("b")]);
        assert_eq!(of("nodes['a-b']").unwrap().len(), 2);
        assert_eq!(of("range(1000)").unwrap().len(), 1000);
        assert_eq!(items(&Foreach::Items(vec![json!(1)]), &values()).unwrap(), [json!(1)]);
        for (expression, expected) in [
            ("question", "`foreach` needs a list, but `question` is the text `why {{ item }} costs $1?`"),
            ("nodes.map.output", "`foreach` needs a list, but `nodes.map.output` is a table"),
            ("nodes.map.output.z", "`foreach` needs a list, but `nodes.map.output.z` is a number: `1`"),
            ("nodes.map.output.a", "`foreach` needs a list, but `nodes.map.output.a` is null"),
            ("nodes.map.output.b", "`foreach` needs a list, but `nodes.map.output.b` is not defined"),
            ("range(1001)", "`range(1001)` has more than the 1000 items that are run"),
        ] {
            assert_eq!(of(expression).unwrap_err().to_string(), expected);
        }
    }

    #[test]
    fn hostile_templates_end() {
        let loops = "{% for a in range(99999) %}".repeat(3) + "x" + &"{% endfor %}".repeat(3);
        assert!(render(&loops, &values()).unwrap_err().to_string().contains("steps"));
        let big = "{% set s = 'x' * 1000000 %}{% for a in range(99999) %}{{ s }}{% endfor %}";
        assert!(render(big, &values()).unwrap_err().to_string().contains("bytes"));
        let deep = format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000));
        assert!(render(&deep, &values()).is_err());
        let deep = format!("{}x{}", "{% if true %}".repeat(10_000), "{% endif %}".repeat(10_000));
        assert!(render(&deep, &values()).is_err());
    }
}
