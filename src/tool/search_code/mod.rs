//! `search_code`: where a regular expression matches, by ripgrep's own libraries.
//!
//! Threads of one parallel walk search file after file, each with its own searcher and buffer ([`worker`]). Every match
//! is counted; only the first by path are kept, so memory is bounded and the result is the same whichever thread was
//! faster ([`hits`]). What is left out is said in a last line in square brackets (`render`).

mod hits;
mod render;
mod worker;

use super::glob::Pattern;
use super::{Effect, Tool, ToolContext, ToolError, blocking};
use crate::text;
use crate::tool::Searched;
use crate::workspace::{Place, Places};
use grep_matcher::{LineTerminator, Matcher};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use hits::Found;
use render::{Outcome, render};
use schemars::JsonSchema;
use serde::Deserialize;
use std::path::Path;
use tokio_util::sync::CancellationToken;
use worker::Worker;

/// Matching lines shown in mode `content` unless `max_results` says otherwise.
const DEFAULT_LINES: usize = 200;
/// Files shown in the other modes.
const DEFAULT_FILES: usize = 500;

/// Searches the workspace.
pub struct SearchCode;

/// What to search for, and where.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Regular expression (Rust syntax), matched line by line. Set `literal` to find text with `(`, `[`, `.` and the
    /// like as it stands.
    pattern: String,
    /// File or folder to search, relative to the workspace root. Default: the root.
    #[serde(default)]
    path: Option<String>,
    /// Glob that files must match, such as `*.rs` or `src/**/*.ts`; `!*.md` leaves out. Without a `/` it matches file
    /// names at any depth.
    #[serde(default)]
    file_glob: Option<String>,
    /// Whether case is ignored. Default false.
    #[serde(default)]
    ignore_case: Option<bool>,
    /// Whether `pattern` is plain text. Default false.
    #[serde(default)]
    literal: Option<bool>,
    /// Lines shown before and after each match in mode `content`, at most 20. Default 0.
    #[serde(default)]
    #[schemars(range(max = 20))]
    context: Option<u8>,
    /// `content`: matching lines by file (default). `files`: paths of files that match. `count`: matching lines per
    /// file, most first.
    #[serde(default)]
    mode: Option<Mode>,
    /// Matching lines (mode `content`, default 200) or files (default 500) shown, at most 2000.
    #[serde(default)]
    #[schemars(range(min = 1, max = 2000))]
    max_results: Option<u16>,
}

/// What is shown of the matches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Mode {
    #[default]
    Content,
    Files,
    Count,
}

/// The arguments, checked and built.
struct Query {
    pattern: String,
    matcher: RegexMatcher,
    /// What the matcher takes for the end of a line; the searcher must agree.
    line_end: LineTerminator,
    glob: Option<Pattern>,
    literal: bool,
    context: usize,
    mode: Mode,
    max: usize,
}

impl Tool for SearchCode {
    const NAME: &'static str = "search_code";
    const DESCRIPTION: &'static str = "Searches file contents with a regular expression, fast on large trees; use it \
        to find where something is defined, used or mentioned, then `read_file` around the lines. Mode `content` gives \
        each path on a line, then `12:text` for matches and `11-text` for context; `files` gives paths only; `count` \
        gives `path: matches`. Results are sorted by path. Binary files, files that .gitignore names and hidden files \
        are left out unless `path` names them. The last line, in square brackets, counts the matches and says what is \
        not shown.";
    const EFFECT: Effect = Effect::Read;
    const ESSENTIAL: &'static [&'static str] = &["pattern", "path"];
    type Args = Args;

    async fn call(&self, args: Args, context: &ToolContext) -> Result<String, ToolError> {
        let places = context.places.clone();
        let cancel = context.cancel.clone();
        let path = args.path.clone().filter(|path| !path.is_empty()).unwrap_or_else(|| ".".to_string());
        let query = Query::new(args)?;
        let (text, searched) = blocking(&context.cancel, move || search(&query, &path, &places, &cancel)).await?;
        context.ledger.note_search(searched);
        Ok(text)
    }
}

impl Query {
    fn new(args: Args) -> Result<Self, ToolError> {
        if args.pattern.is_empty() {
            return Err(ToolError::told("`pattern` is empty; `list_files` lists files without looking inside"));
        }
        let literal = args.literal.unwrap_or_default();
        let mode = args.mode.unwrap_or_default();
        let default = if mode == Mode::Content { DEFAULT_LINES } else { DEFAULT_FILES };
        let matcher = matcher(&args.pattern, literal, args.ignore_case.unwrap_or_default())?;
        let glob = args.file_glob.as_deref().filter(|glob| !glob.is_empty());
        Ok(Query {
            line_end: matcher.line_terminator().unwrap_or_default(),
            matcher,
            glob: glob.map(Pattern::parse).transpose().map_err(|why| ToolError::Told(format!("`file_glob`: {why}")))?,
            literal,
            context: args.context.unwrap_or_default().into(),
            mode,
            max: args.max_results.map_or(default, usize::from),
            pattern: args.pattern,
        })
    }
}

fn matcher(pattern: &str, literal: bool, ignore_case: bool) -> Result<RegexMatcher, ToolError> {
    let mut builder = RegexMatcherBuilder::new();
    builder.multi_line(true).case_insensitive(ignore_case).fixed_strings(literal).line_terminator(Some(b'\n'));
    // A file may end its lines in CRLF; `$` should match there too. Patterns without it need not pay for that.
    if !literal && pattern.contains('$') {
        builder.crlf(true);
    }
    builder.build(pattern).map_err(|error| {
        let why = error.to_string();
        let hint = if pattern.contains("\\n") || pattern.contains('\n') {
            "a pattern is matched within one line: search for the part on one line and set `context`"
        } else {
            "set `literal: true` to find this text as it stands"
        };
        ToolError::Told(format!("`pattern` is not a valid regular expression: {}; {hint}", text::clip(&why, 1_000)))
    })
}

fn search(
    query: &Query,
    path: &str,
    places: &Places,
    cancel: &CancellationToken,
) -> Result<(String, Searched), ToolError> {
    let base = places.resolve(path)?;
    let walk = places.walk(&base, query.glob.as_ref().is_some_and(Pattern::names_hidden));
    let single = base.path.is_file();
    if !single && !base.path.is_dir() {
        return Err(ToolError::Told(format!("`{}` is neither a file nor a folder", base.shown)));
    }
    let stop = || cancel.is_cancelled();
    let make = || Worker::new(query, single, &stop);
    let walked = walk.files(&stop, make, |worker, entry| {
        let path = entry.path();
        if single || query.glob.as_ref().is_none_or(|glob| in_glob(glob, &base, places, path)) {
            worker.search(path, &base);
        }
        true
    });
    if stop() {
        return Err(ToolError::told("interrupted"));
    }
    let mut found = Found::default();
    for worker in walked.parts {
        found.absorb(worker.found);
    }
    found.unreadable.absorb(walked.unreadable);
    found.finish(query);
    let searched = Searched { pattern: query.pattern.clone(), path: base.shown.clone(), files: found.files };
    // Naming what the rules hide is worth a look at the folder's own entries when nothing was found.
    let left_out = if found.files == 0 && !single { walk.left_out() } else { Vec::new() };
    let outcome = Outcome { found, base: &base, links: walked.links, left_out, rules_lifted: walked.rules_lifted };
    Ok((render(query, &outcome), searched))
}

/// Globs count from the folder that is searched; models also write them from the workspace root.
fn in_glob(glob: &Pattern, base: &Place, places: &Places, path: &Path) -> bool {
    let below = |folder: &Path| glob.matches(path.strip_prefix(folder).unwrap_or(path));
    // What a negated glob names from either is left out.
    if glob.is_negated() {
        below(&base.path) && below(places.root())
    } else {
        below(&base.path) || (base.path != places.root() && below(places.root()))
    }
}
