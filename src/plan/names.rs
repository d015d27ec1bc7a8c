//! What a template speaks of, found without running it.
//!
//! The template engine lists the names that a template looks up, loop variables excepted. It knows no brackets, so
//! `nodes['a-b'].output` is first written with dots, and it reads `nodes.a-b` as a subtraction, which is found here.
//! Only code is looked at: text between braces that are not a template's stays what it is.

use super::template::{TemplateError, compile, compile_expression, is_filter};
use std::collections::BTreeSet;
use std::ops::Range;

/// A `-` of a node id while the engine looks at it: ids have no capitals.
const HYPHEN: char = 'H';

/// A name that a template looks up, with the fields it takes of it: `nodes.map.output` is `nodes` and two fields.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Reference {
    /// The first part.
    pub root: String,
    /// The fields, outermost first.
    pub path: Vec<String>,
}

impl Reference {
    /// As it is written with dots.
    pub fn dotted(&self) -> String {
        std::iter::once(&self.root).chain(&self.path).map(String::as_str).collect::<Vec<_>>().join(".")
    }
}

/// What one template or expression speaks of.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct References {
    /// Every name once, sorted; `a` is not listed beside `a.b` unless it stands alone too.
    pub names: Vec<Reference>,
    /// Node ids with `-` behind a dot, which reads as a subtraction.
    pub subtracted: Vec<String>,
    /// Filters that do not exist.
    pub unknown_filters: Vec<String>,
}

/// What a template speaks of. `is_node` tells whether an id with `-` is a node's.
///
/// # Errors
/// When the template cannot be read.
pub fn references(template: &str, is_node: impl Fn(&str) -> bool) -> Result<References, TemplateError> {
    if !template.contains('{') {
        return Ok(References::default());
    }
    collect(template, &code_regions(template), &is_node, compile)
}

/// What an expression speaks of.
///
/// # Errors
/// When the expression cannot be read.
pub fn expression_references(expression: &str, is_node: impl Fn(&str) -> bool) -> Result<References, TemplateError> {
    let whole = 0..expression.len();
    collect(expression, std::slice::from_ref(&whole), &is_node, compile_expression)
}

fn collect(
    text: &str,
    regions: &[Range<usize>],
    is_node: &dyn Fn(&str) -> bool,
    compile: fn(&str) -> Result<Vec<String>, TemplateError>,
) -> Result<References, TemplateError> {
    let mut found = References::default();
    let mut dotted = String::with_capacity(text.len());
    let mut filters = BTreeSet::new();
    let mut done = 0;
    for region in regions {
        dotted.push_str(&text[done..region.start]);
        let code = &text[region.clone()];
        dotted.push_str(&with_dots(code, is_node, &mut found.subtracted));
        filters.extend(filters_of(code));
        done = region.end;
    }
    dotted.push_str(&text[done..]);
    let mut names = compile(text)?;
    // Should the rewriting ever break a template, its plain reading still holds.
    if dotted != text
        && let Ok(better) = compile(&dotted)
    {
        names = better;
    }
    found.names = names.iter().map(|name| reference(name)).collect();
    found.unknown_filters = filters.into_iter().filter(|name| !is_filter(name)).collect();
    Ok(found)
}

fn reference(name: &str) -> Reference {
    let mut parts = name.split('.').map(str::to_owned);
    let root = parts.next().unwrap_or_default();
    let mut path: Vec<String> = parts.collect();
    if root == "nodes"
        && let Some(id) = path.first_mut()
    {
        *id = id.replace(HYPHEN, "-");
    }
    Reference { root, path }
}

/// The insides of `{{ … }}` and `{% … %}`, without comments and raw blocks.
pub(super) fn code_regions(text: &str) -> Vec<Range<usize>> {
    let mut regions = Vec::new();
    let mut at = 0;
    while let Some(open) = text[at..].find('{').map(|found| at + found) {
        let close = match text.as_bytes().get(open + 1) {
            Some(b'{') => "}}",
            Some(b'%') => "%}",
            Some(b'#') => {
                at = text[open..].find("#}").map_or(text.len(), |end| open + end + 2);
                continue;
            }
            _ => {
                at = open + 1;
                continue;
            }
        };
        let inside = open + 2..code_end(text, open + 2, close);
        at = (inside.end + 2).min(text.len());
        let word = text[inside.clone()].trim_matches(['-', '+', ' ', '\t', '\n']);
        if close == "%}" && word == "raw" {
            at = text[at..].find("endraw").map_or(text.len(), |end| at + end);
        } else {
            regions.push(inside);
        }
    }
    regions
}

/// Where the code that begins at `from` ends: at its closing braces outside of quotes.
fn code_end(text: &str, from: usize, close: &str) -> usize {
    let mut quote = None;
    for (at, c) in text[from..].char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, _) if text[from + at..].starts_with(close) => return from + at,
            (None, _) => {}
        }
    }
    text[from..].find(close).map_or(text.len(), |end| from + end)
}

pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// `['name']` as `.name`, and node ids with `-` as the engine can take them.
fn with_dots(code: &str, is_node: &dyn Fn(&str) -> bool, subtracted: &mut Vec<String>) -> String {
    let mut out = String::with_capacity(code.len());
    let mut at = 0;
    while let Some(c) = code[at..].chars().next() {
        let rest = &code[at..];
        let behind_value = out.ends_with(|c: char| is_word(c) || matches!(c, ']' | ')'));
        if c == '['
            && behind_value
            && let Some((name, length)) = bracketed(rest)
            && (!name.contains('-') || out.ends_with("nodes"))
        {
            out.push('.');
            out.push_str(&name.replace('-', &HYPHEN.to_string()));
            at += length;
        } else if matches!(c, '\'' | '"') {
            let end = rest[1..].find(c).map_or(rest.len(), |end| end + 2);
            out.push_str(&rest[..end]);
            at += end;
        } else if !behind_value && let Some(id) = hyphenated(rest, is_node) {
            out.push_str("nodes.");
            out.push_str(&id.replace('-', &HYPHEN.to_string()));
            at += "nodes.".len() + id.len();
            if !subtracted.contains(&id) {
                subtracted.push(id);
            }
        } else {
            out.push(c);
            at += c.len_utf8();
        }
    }
    out
}

/// The name in `['name']` and the length of all of it.
fn bracketed(code: &str) -> Option<(&str, usize)> {
    let inside = code.strip_prefix('[')?.trim_start();
    let quote = inside.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let (name, after) = inside[1..].split_once(quote)?;
    let after = after.trim_start().strip_prefix(']')?;
    let fits =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(|c| is_word(c) || c == '-');
    fits.then_some((name, code.len() - after.len()))
}

/// The longest node id with `-` in it that stands behind `nodes.`.
fn hyphenated(code: &str, is_node: &dyn Fn(&str) -> bool) -> Option<String> {
    let behind = code.strip_prefix("nodes.")?;
    let end = behind.find(|c: char| !is_word(c) && c != '-').unwrap_or(behind.len());
    let mut id = &behind[..end];
    while id.contains('-') {
        if is_node(id) {
            return Some(id.to_owned());
        }
        id = id.rsplit_once('-').map_or("", |(shorter, _)| shorter);
    }
    None
}

/// The names behind `|` outside of quotes.
fn filters_of(code: &str) -> Vec<String> {
    let mut filters = Vec::new();
    let mut quote = None;
    for (at, c) in code.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, '|') => {
                let name: String = code[at + 1..].trim_start().chars().take_while(|c| is_word(*c)).collect();
                if !name.is_empty() {
                    filters.push(name);
                }
            }
            (None, _) => {}
        }
    }
    filters
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(template: &str) -> Vec<String> {
        let found = references(template, |id| matches!(id, "a-b" | "a-b-c")).unwrap();
        found.names.iter().map(Reference::dotted).collect()
    }

    #[test]
    fn names_are_found_where_they_are_looked_up_and_nowhere_else() {
        for (template, expected) in [
            ("no code { at } all", &[][..]),
            ("{{ question }} and {{ question }}", &["question"]),
            ("{{ nodes.map.output.parts }}", &["nodes.map.output.parts"]),
            ("{{ nodes['map'].output[\"parts\"][0].x }}", &["nodes.map.output.parts"]),
            ("{{ nodes['a-b'].summary }}", &["nodes.a-b.summary"]),
            ("{% for f in nodes.map.findings %}{{ f.claim }}{{ loop.index }}{% endfor %}", &["nodes.map.findings"]),
            ("{% set x = item %}{{ x.y }}", &["item"]),
            ("{% raw %}{{ nothing }}{% endraw %}{# {{ nor }} #}{{ this }}", &["this"]),
            ("{{ \"nodes['a'] }}\" ~ q }}", &["q"]),
            ("nodes['x'] outside, {{ a }} inside", &["a"]),
        ] {
            assert_eq!(names(template), expected, "{template}");
        }
    }

    #[test]
    fn an_id_with_a_hyphen_behind_a_dot_is_noticed() {
        let found = references("{{ nodes.a-b-c.output }} {{ n-1 }}", |id| id == "a-b").unwrap();
        assert_eq!(found.subtracted, ["a-b"]);
        assert!(found.names.iter().any(|name| name.dotted() == "n"));
        let text_only = references("see nodes.a-b {{ x }}", |id| id == "a-b").unwrap();
        assert_eq!(text_only.subtracted, Vec::<String>::new());
    }

    #[test]
    fn filters_that_do_not_exist_are_noticed() {
        let found = references("{{ x | upper | uper }} {{ '|' ~ y }} a | b", |_| false).unwrap();
        assert_eq!(found.unknown_filters, ["uper"]);
    }
}
