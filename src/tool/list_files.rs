//! `list_files`: which files there are.
//!
//! Few files are listed one a line; many become one line per folder, so that a first look at a large tree costs about a
//! hundred lines.

use super::glob::Pattern;
use super::{Effect, MAX_RESULT, Tool, ToolContext, ToolError, blocking};
use crate::text::{self, plural};
use crate::workspace::walk::{Few, Walk, Walked};
use crate::workspace::{Opened, PathError, Place, Places};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio_util::sync::CancellationToken;

/// Paths that are listed one by one.
const MAX_PATHS: usize = 400;
/// Folders in a summary.
const MAX_FOLDERS: usize = 100;
/// Bytes kept free for the closing line.
const FOOTER: usize = 1_000;
/// Files looked at to say why nothing was found.
const MAX_LOOKED: u64 = 200_000;

/// Lists files of the workspace.
pub struct ListFiles;

/// What to list.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Args {
    /// Glob such as `**/*.rs`, `src/**/*.{ts,tsx}` or `Cargo.toml`, relative to `path`. Without a `/` it matches file
    /// names at any depth. Default: all files.
    #[serde(default)]
    pattern: Option<String>,
    /// Folder to list, relative to the workspace root. Default: the root.
    #[serde(default)]
    path: Option<String>,
}

impl Tool for ListFiles {
    const NAME: &'static str = "list_files";
    const DESCRIPTION: &'static str = "Lists files by name, sorted by path: use it to see what there is, and \
        `search_code` to look inside files. Up to 400 paths come one per line; more come as one line per folder with \
        its number of files and size: then narrow `pattern` or `path`. Files that .gitignore names and hidden files \
        are left out unless `path` or `pattern` names them. The last line, in square brackets, counts the files.";
    const EFFECT: Effect = Effect::Read;
    type Args = Args;

    async fn call(&self, args: Args, context: &ToolContext) -> Result<String, ToolError> {
        let places = context.places.clone();
        let cancel = context.cancel.clone();
        blocking(&context.cancel, move || list(&args, &places, &cancel)).await
    }
}

fn list(args: &Args, places: &Places, cancel: &CancellationToken) -> Result<String, ToolError> {
    let path = args.path.as_deref().filter(|path| !path.is_empty()).unwrap_or(".");
    let asked = args.pattern.as_deref().unwrap_or_default();
    let (base, glob) = split(places, path, asked)?;
    match base.open() {
        Ok(Opened::Folder) => {}
        Ok(Opened::File(_, size)) if glob.is_empty() => {
            return Ok(format!("{}\n[1 file, {}]", base.shown, text::size(size)));
        }
        Ok(Opened::File(..) | Opened::Special(_)) => {
            return Err(ToolError::Told(format!("`{}` is not a folder", base.shown)));
        }
        Err(error) => return Err(ToolError::Told(format!("`{}` cannot be read: {error}", base.shown))),
    }
    let pattern = match glob {
        "" => None,
        // `src/*.rs` stays a pattern for `src` alone after `src` was taken as the place.
        glob if asked.contains('/') => Some(Pattern::anchored(glob).map_err(ToolError::Told)?),
        glob => Some(Pattern::parse(glob).map_err(ToolError::Told)?),
    };
    let hidden = pattern.as_ref().is_some_and(Pattern::names_hidden);
    let walk = places.walk(&base, hidden);
    let stop = || cancel.is_cancelled();
    let walked = walk.files(&stop, Vec::new, |found: &mut Vec<(String, u64)>, entry| {
        let path = entry.path();
        if wanted(pattern.as_ref(), &base, path) {
            found.push((base.shown_below(path), entry.metadata().map_or(0, |metadata| metadata.len())));
        }
        true
    });
    let Walked { parts, files: looked, unreadable, links, rules_lifted } = walked;
    let mut found: Vec<(String, u64)> = parts.into_iter().flatten().collect();
    found.sort_unstable();
    let mut notes = Vec::new();
    if found.is_empty() {
        notes.extend(why_nothing(walk, &base, pattern.as_ref(), glob, looked, &stop));
    }
    if rules_lifted && !found.is_empty() {
        notes.push(format!("`{}` is hidden or ignored, so its ignored files are listed too", base.shown));
    }
    if unreadable.count > 0 {
        notes.push(format!("{} not readable: {}", unreadable.count, unreadable.names()));
    }
    if links.count > 0 && pattern.is_none() {
        notes.push(format!("{} not followed: {}", plural(links.count as usize, "link"), links.names()));
    }
    Ok(render(&base, &found, &notes))
}

/// The folder to walk and the rest of the pattern. As much of the pattern as exists literally is a path, whatever its
/// brackets would mean in a glob.
fn split<'p>(places: &Places, path: &str, pattern: &'p str) -> Result<(Place, &'p str), PathError> {
    let mut at = path.to_string();
    let mut rest = pattern;
    if pattern.starts_with('/') {
        // An absolute pattern inside the workspace counts from its root.
        let root = places.root().to_str().unwrap_or_default();
        let inside = pattern.strip_prefix(root).and_then(|rest| rest.strip_prefix('/'));
        rest = inside.ok_or_else(|| PathError::Outside(text::clip(pattern, 200).into_owned()))?;
        at = ".".to_string();
    }
    let mut base = places.resolve(&at)?;
    let below = |at: &str, name: &str| if at == "." { name.to_string() } else { format!("{at}/{name}") };
    while let Some((name, after)) = rest.split_once('/') {
        let next = below(&at, name);
        match places.resolve(&next) {
            Ok(place) => (base, at, rest) = (place, next, after),
            Err(outside @ PathError::Outside(_)) => return Err(outside),
            Err(_) => return Ok((base, rest)),
        }
    }
    // A bare name is looked for at any depth; only a folder of that name is meant as a place.
    match places.resolve(&below(&at, rest)) {
        Ok(place) if !rest.is_empty() && (pattern.contains('/') || place.path.is_dir()) => Ok((place, "")),
        Err(outside @ PathError::Outside(_)) => Err(outside),
        _ => Ok((base, rest)),
    }
}

fn wanted(pattern: Option<&Pattern>, base: &Place, path: &Path) -> bool {
    pattern.is_none_or(|pattern| pattern.matches(path.strip_prefix(&base.path).unwrap_or(path)))
}

/// Says whether a rule hides what was asked for, or that it is not there.
fn why_nothing(
    walk: Walk<'_>,
    base: &Place,
    pattern: Option<&Pattern>,
    glob: &str,
    looked: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<String> {
    let seen = AtomicU64::new(0);
    let all = Walk { hidden: true, ignored: true, ..walk };
    let enough = || stop() || seen.load(Ordering::Relaxed) > MAX_LOOKED;
    let left_out = all.files(&enough, Few::default, |few, entry| {
        seen.fetch_add(1, Ordering::Relaxed);
        if wanted(pattern, base, entry.path()) {
            few.add(base.shown_below(entry.path()));
        }
        true
    });
    let mut hidden = Few::default();
    left_out.parts.into_iter().for_each(|few| hidden.absorb(few));
    let mut notes = Vec::new();
    if pattern.is_some() {
        let looked = plural(looked as usize, "file");
        notes.push(format!("none of {looked} under `{}` matches `{}`", base.shown, text::clip(glob, 200)));
    }
    if hidden.count > 0 {
        let count = plural(hidden.count as usize, "hidden or ignored file");
        notes.push(format!("{count} would: {}; name the folder in `path` to list them", hidden.names()));
    }
    notes
}

fn render(base: &Place, found: &[(String, u64)], notes: &[String]) -> String {
    let bytes: u64 = found.iter().map(|(_, size)| size).sum();
    let total = format!("{}, {}", plural(found.len(), "file"), text::size(bytes));
    let listed =
        found.len() <= MAX_PATHS && found.iter().map(|(path, _)| path.len() + 1).sum::<usize>() + FOOTER <= MAX_RESULT;
    let mut out = String::new();
    let mut closing = vec![if found.is_empty() { "0 files".to_string() } else { total }];
    if listed {
        found.iter().for_each(|(path, _)| {
            out.push_str(path);
            out.push('\n');
        });
    } else {
        let (folders, depth) = folders(base, found);
        let mut shown = 0;
        for (folder, (files, bytes)) in folders.iter().take(MAX_FOLDERS) {
            let row = format!("{folder}/  {}, {}\n", plural(*files, "file"), text::size(*bytes));
            if out.len() + row.len() + FOOTER > MAX_RESULT {
                break;
            }
            out.push_str(&row);
            shown += 1;
        }
        if shown < folders.len() {
            closing.push(format!("{} not shown", plural(folders.len() - shown, "more folder")));
        }
        closing.push(format!(
            "too many to list, so counted by folder to a depth of {depth}, each file once; narrow `pattern` or `path`"
        ));
    }
    closing.extend_from_slice(notes);
    out + &format!("[{}]", closing.join("; "))
}

type Folders<'f> = BTreeMap<&'f str, (usize, u64)>;

/// Files and bytes by folder, at the greatest depth that needs at most [`MAX_FOLDERS`] lines.
fn folders<'f>(base: &'f Place, found: &'f [(String, u64)]) -> (Folders<'f>, usize) {
    let skip = if base.shown == "." { 0 } else { base.shown.len() + 1 };
    let at_depth = |depth: usize| {
        let mut folders = Folders::new();
        for (path, size) in found {
            let below = path.get(skip..).unwrap_or(path);
            let end = below.match_indices('/').take(depth).last().map(|(at, _)| skip + at);
            let folder = end.and_then(|end| path.get(..end)).unwrap_or(&base.shown);
            let entry = folders.entry(folder).or_default();
            entry.0 += 1;
            entry.1 += size;
        }
        folders
    };
    let mut best = (at_depth(1), 1);
    for depth in 2..=16 {
        let deeper = at_depth(depth);
        if deeper.len() > MAX_FOLDERS || deeper.len() == best.0.len() {
            break;
        }
        best = (deeper, depth);
    }
    best
}
