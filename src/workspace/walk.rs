//! The one way to go through a tree: by the rules of a listing, on several threads, never through a link.
//!
//! `.git` is never entered. Hidden entries and what ignore files name are left out unless asked for. Ignore files count
//! up to the root of the repository that holds the workspace; without a repository those of the workspace count.
//! Nothing of the user's environment (a global ignore file, the current directory) has a say.

use super::{Place, names};
use ignore::{DirEntry, ParallelVisitor, ParallelVisitorBuilder, WalkBuilder, WalkState};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// More threads than this only fight over directories.
const MAX_THREADS: usize = 12;

/// A walk to be made.
#[derive(Clone, Copy)]
pub(crate) struct Walk<'a> {
    /// The workspace's root, or the artifacts folder: where ignore files begin to count outside a repository.
    pub(crate) root: &'a Path,
    /// Where to walk: a folder or a file.
    pub(crate) base: &'a Place,
    /// Whether hidden entries are visited.
    pub(crate) hidden: bool,
    /// Whether what ignore files name is visited.
    pub(crate) ignored: bool,
}

/// What came of a walk.
pub(crate) struct Walked<V> {
    /// What each thread collected. Their order means nothing.
    pub(crate) parts: Vec<V>,
    /// Regular files visited.
    pub(crate) files: u64,
    /// Entries that could not be read.
    pub(crate) unreadable: Few,
    /// Links, which are not followed.
    pub(crate) links: Few,
    /// The path that was asked for is itself hidden or ignored, so the rules were set aside.
    pub(crate) rules_lifted: bool,
}

impl Walk<'_> {
    /// Calls `visit` for every regular file, with what `make` made for the thread it runs on. `visit` says whether to
    /// go on; `stop` is asked before every entry.
    ///
    /// When a folder below the root was asked for and the rules leave nothing of it, they are set aside: what is named
    /// wins over what is ignored.
    pub(crate) fn files<V: Send>(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        make: impl Fn() -> V + Sync,
        visit: impl Fn(&mut V, &DirEntry) -> bool + Sync,
    ) -> Walked<V> {
        let walked = self.once(stop, &make, &visit);
        let named = self.base.path != self.root;
        if !named || walked.files > 0 || (self.hidden && self.ignored) || stop() {
            return walked;
        }
        let all = Walk { hidden: true, ignored: true, ..*self }.once(stop, &make, &visit);
        Walked { rules_lifted: all.files > 0, ..all }
    }

    fn once<V: Send>(
        &self,
        stop: &(dyn Fn() -> bool + Sync),
        make: &(impl Fn() -> V + Sync),
        visit: &(impl Fn(&mut V, &DirEntry) -> bool + Sync),
    ) -> Walked<V> {
        let threads = std::thread::available_parallelism().map_or(2, usize::from).min(MAX_THREADS);
        let files = AtomicU64::new(0);
        let done = Mutex::new(Vec::new());
        let mut crew = Crew { base: self.base, stop, make, visit, files: &files, done: &done };
        self.builder().threads(threads).build_parallel().visit(&mut crew);
        let mut walked = Walked {
            parts: Vec::new(),
            files: files.into_inner(),
            unreadable: Few::default(),
            links: Few::default(),
            rules_lifted: false,
        };
        for (part, unreadable, links) in done.into_inner().unwrap_or_else(PoisonError::into_inner) {
            walked.parts.push(part);
            walked.unreadable.absorb(unreadable);
            walked.links.absorb(links);
        }
        walked
    }

    /// Names directly in the base that the rules leave out, sorted; folders end in `/`.
    pub(crate) fn left_out(&self) -> Vec<String> {
        let names = |walk: Walk<'_>| -> BTreeSet<String> {
            let entries = walk.builder().max_depth(Some(1)).build().flatten().filter(|entry| entry.depth() == 1);
            entries
                .map(|entry| {
                    let folder = entry.file_type().is_some_and(|kind| kind.is_dir());
                    let shown = self.base.shown_below(entry.path());
                    if folder { shown + "/" } else { shown }
                })
                .collect()
        };
        let kept = names(*self);
        names(Walk { hidden: true, ignored: true, ..*self }).into_iter().filter(|name| !kept.contains(name)).collect()
    }

    fn builder(&self) -> WalkBuilder {
        let in_repository = self.root.ancestors().any(|folder| folder.join(".git").exists());
        let obey = !self.ignored;
        let hidden = self.hidden;
        let mut builder = WalkBuilder::new(&self.base.path);
        builder
            .current_dir(self.root)
            .follow_links(false)
            .hidden(false)
            .git_global(false)
            .git_exclude(obey)
            .git_ignore(obey)
            .ignore(obey)
            // In a repository its root ends the search for ignore files above the base; otherwise nothing would.
            .require_git(in_repository)
            .parents(obey && (in_repository || self.base.path != self.root))
            .filter_entry(move |entry| {
                let name = entry.file_name();
                entry.depth() == 0 || (name != ".git" && (hidden || !names::is_hidden(name)))
            });
        builder
    }
}

/// Hands each thread of a walk its visitor.
struct Crew<'s, M, F, V> {
    base: &'s Place,
    stop: &'s (dyn Fn() -> bool + Sync),
    make: &'s M,
    visit: &'s F,
    files: &'s AtomicU64,
    done: &'s Mutex<Vec<(V, Few, Few)>>,
}

impl<'s, V, M, F> ParallelVisitorBuilder<'s> for Crew<'s, M, F, V>
where
    V: Send,
    M: Fn() -> V + Sync,
    F: Fn(&mut V, &DirEntry) -> bool + Sync,
{
    fn build(&mut self) -> Box<dyn ParallelVisitor + 's> {
        Box::new(Visitor {
            base: self.base,
            stop: self.stop,
            visit: self.visit,
            files: self.files,
            done: self.done,
            part: Some((self.make)()),
            seen: 0,
            unreadable: Few::default(),
            links: Few::default(),
        })
    }
}

/// One thread's part of a walk; hands it in when the walk is over.
struct Visitor<'s, F, V> {
    base: &'s Place,
    stop: &'s (dyn Fn() -> bool + Sync),
    visit: &'s F,
    files: &'s AtomicU64,
    done: &'s Mutex<Vec<(V, Few, Few)>>,
    part: Option<V>,
    seen: u64,
    unreadable: Few,
    links: Few,
}

impl<V: Send, F: Fn(&mut V, &DirEntry) -> bool + Sync> ParallelVisitor for Visitor<'_, F, V> {
    fn visit(&mut self, entry: Result<DirEntry, ignore::Error>) -> WalkState {
        if (self.stop)() {
            return WalkState::Quit;
        }
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => {
                let shown = path_of(&error).map(|path| self.base.shown_below(path));
                self.unreadable.add(shown.unwrap_or_else(|| "?".to_string()));
                return WalkState::Continue;
            }
        };
        let Some(kind) = entry.file_type() else { return WalkState::Continue };
        if kind.is_symlink() {
            self.links.add(self.base.shown_below(entry.path()));
        } else if kind.is_file() {
            self.seen += 1;
            if let Some(part) = &mut self.part
                && !(self.visit)(part, &entry)
            {
                return WalkState::Quit;
            }
        }
        WalkState::Continue
    }
}

impl<F, V> Drop for Visitor<'_, F, V> {
    fn drop(&mut self) {
        self.files.fetch_add(self.seen, Ordering::Relaxed);
        if let Some(part) = self.part.take() {
            let part = (part, std::mem::take(&mut self.unreadable), std::mem::take(&mut self.links));
            self.done.lock().unwrap_or_else(PoisonError::into_inner).push(part);
        }
    }
}

fn path_of(error: &ignore::Error) -> Option<&Path> {
    match error {
        ignore::Error::WithPath { path, .. } => Some(path),
        ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => path_of(err),
        ignore::Error::Loop { child, .. } => Some(child),
        ignore::Error::Partial(_)
        | ignore::Error::Io(_)
        | ignore::Error::Glob { .. }
        | ignore::Error::UnrecognizedFileType(_)
        | ignore::Error::InvalidDefinition => None,
    }
}

/// A count with the first few names by order, so that the same tree gives the same words whatever thread came first.
#[derive(Debug, Default)]
pub(crate) struct Few {
    /// How many there are.
    pub(crate) count: u64,
    names: BTreeSet<String>,
}

impl Few {
    const KEPT: usize = 3;

    /// One more.
    pub(crate) fn add(&mut self, name: String) {
        self.count += 1;
        self.keep(name);
    }

    /// All of another.
    pub(crate) fn absorb(&mut self, other: Few) {
        self.count += other.count;
        other.names.into_iter().for_each(|name| self.keep(name));
    }

    fn keep(&mut self, name: String) {
        self.names.insert(name);
        if self.names.len() > Self::KEPT {
            self.names.pop_last();
        }
    }

    /// The names in backticks: `a`, `b`, `c`, ….
    pub(crate) fn names(&self) -> String {
        let quoted: Vec<String> = self.names.iter().map(|name| format!("`{}`", crate::text::clip(name, 120))).collect();
        let more = if self.count > self.names.len() as u64 { ", …" } else { "" };
        quoted.join(", ") + more
    }
}
