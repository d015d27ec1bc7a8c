//! From the paths that models write to files that they may read.
//!
//! A path is made absolute and cleaned of `.` and `..` by its text, then canonicalised **once**, and the result is
//! compared with the root component by component. Nothing outside is ever opened, and the answer for a path outside
//! is the same whether something is there or not. Opening happens in [`Place::open`] alone, so that a handle of the
//! root directory can take the place of absolute paths there without a change anywhere else.

use super::names;
use super::walk::Walk;
use crate::store;
use crate::text;
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Bytes of a path; what the systems we know accept at most.
const MAX_PATH: usize = 4096;
/// Names of a folder that are compared to find the one that was meant.
const MAX_COMPARED: usize = 10_000;
/// From 0 (nothing in common) to 1 (equal): how near a name must be to be suggested.
const NEAR: f64 = 0.6;
const ARTIFACT: &str = "artifact:";

/// Where the paths of one conversation lead.
#[derive(Clone, Debug)]
pub struct Places {
    root: PathBuf,
    /// The folder of the run's artifacts, and whose may be read.
    artifacts: Option<(PathBuf, Readable)>,
}

/// Whose artifacts a conversation may read.
#[derive(Clone, Debug)]
pub enum Readable {
    /// Those of all nodes: the coordinator's, which never reads while nodes run.
    All,
    /// Those of the nodes with these full names; the name of a `foreach` node stands for its instances too.
    These(Vec<String>),
}

/// A path that was resolved inside one of the places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Absolute, links resolved.
    pub path: PathBuf,
    /// As it is shown: relative to the root with `/`, `.` for the root itself, or `artifact:NODE/…`.
    pub shown: String,
}

/// What stands at a place.
#[derive(Debug)]
pub enum Opened {
    /// A regular file, opened for reading, with its size in bytes.
    File(File, u64),
    /// A folder.
    Folder,
    /// Something that is neither: its kind.
    Special(&'static str),
}

/// Why a path cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// It leads out of the workspace.
    #[error("`{0}` is outside the workspace; use a path relative to its root")]
    Outside(String),
    /// There is no such file.
    #[error("there is no `{0}`{1}")]
    Missing(String, Hint),
    /// It has a NUL byte or is too long.
    #[error("`{0}` is not a usable path: it holds a NUL byte or is too long")]
    Unusable(String),
    /// The node's artifacts are not this conversation's to read.
    #[error("`artifact:{0}` is not readable here{1}")]
    Artifact(String, Hint),
    /// The system refused.
    #[error("`{0}` cannot be read: {1}")]
    Io(String, String),
}

/// The next step, if there is one to name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hint(pub String);

impl fmt::Display for Hint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "; {}", self.0) }
    }
}

impl Places {
    /// A root without artifacts. `root` must be absolute with links resolved.
    pub fn new(root: PathBuf) -> Self {
        Places { root, artifacts: None }
    }

    /// Adds the folder of a run's artifacts, of which only those of `readable` nodes may be read.
    #[must_use]
    pub fn with_artifacts(mut self, folder: PathBuf, readable: Readable) -> Self {
        self.artifacts = Some((folder, readable));
        self
    }

    /// The workspace's root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where a path leads: relative to the root, absolute inside it, or `artifact:NODE/…`.
    ///
    /// `~` and variables mean nothing; links are followed as long as they stay inside. A name as sortie shows it (with
    /// escapes such as `\n`) is understood when no file has that very text as its name.
    ///
    /// # Errors
    /// When it leads outside, to nothing, or to artifacts of a node that is not readable here.
    pub fn resolve(&self, path: &str) -> Result<Place, PathError> {
        let given = text::clip(&names::line_text(path.as_bytes()), 200).into_owned();
        if path.contains('\0') || path.len() > MAX_PATH {
            return Err(PathError::Unusable(given));
        }
        let (base, rest) = match path.strip_prefix(ARTIFACT) {
            Some(artifact) => self.artifact(artifact)?,
            None => (Base { root: self.root.clone(), shown: String::new() }, path),
        };
        match base.find(&given, Path::new(rest)) {
            Err(PathError::Missing(given, hint)) => {
                let escaped = names::read_back(rest).and_then(|name| base.find(&given, &name).ok());
                escaped.ok_or(PathError::Missing(given, hint))
            }
            found => found,
        }
    }

    /// A walk over what stands at `base`. Artifacts are shown whole; ignore files are about the workspace.
    pub(crate) fn walk<'a>(&'a self, base: &'a Place, hidden: bool) -> Walk<'a> {
        let artifact = base.shown.starts_with(ARTIFACT);
        let root = if artifact { &base.path } else { &self.root };
        Walk { root, base, hidden: hidden || artifact, ignored: artifact }
    }

    /// The artifacts folder that `NODE/rest` names.
    fn artifact<'p>(&self, artifact: &'p str) -> Result<(Base, &'p str), PathError> {
        let refused = |hint: String| Err(PathError::Artifact(text::clip(artifact, 200).into_owned(), Hint(hint)));
        let Some((folder, readable)) = &self.artifacts else {
            return refused("no node comes before this one".to_string());
        };
        let name = match readable {
            // A node's name may hold `/`, so the longest name wins.
            Readable::These(names) => {
                match names.iter().filter_map(|name| named(artifact, name)).max_by_key(|name| name.len()) {
                    Some(name) => name,
                    None => return refused(readable_hint(names, artifact)),
                }
            }
            Readable::All => artifact.split('/').next().unwrap_or_default(),
        };
        let shown = format!("{ARTIFACT}{name}");
        let Ok(root) = folder.join(store::file_name(name)).canonicalize() else {
            return Err(PathError::Missing(shown, Hint(format!("`{name}` left no artifacts"))));
        };
        Ok((Base { root, shown }, artifact[name.len()..].trim_start_matches('/')))
    }
}

/// The beginning of `artifact` that is this node's name, or that of an instance of it.
fn named<'p>(artifact: &'p str, name: &str) -> Option<&'p str> {
    let rest = artifact.strip_prefix(name)?;
    let instance = rest.strip_prefix('[').and_then(|rest| rest.split_once(']'));
    let rest = match instance {
        Some((number, rest)) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => rest,
        Some(_) | None => rest,
    };
    (rest.is_empty() || rest.starts_with('/')).then(|| &artifact[..artifact.len() - rest.len()])
}

fn readable_hint(readable: &[String], artifact: &str) -> String {
    if readable.is_empty() {
        return "no node comes before this one".to_string();
    }
    // The name of a `foreach` node stands for none of its instances; they are named by position.
    let node = artifact.split('/').next().unwrap_or_default();
    let instance = |name: &&String| name.strip_prefix(node).is_some_and(|rest| rest.starts_with('['));
    let instances: Vec<&String> = readable.iter().filter(instance).collect();
    let (lead, names) = if instances.is_empty() {
        ("readable", readable.iter().collect())
    } else {
        ("it ran once per item", instances)
    };
    let listed: Vec<String> = names.iter().take(10).map(|name| format!("`{ARTIFACT}{name}/…`")).collect();
    let more =
        if names.len() > listed.len() { format!(" and {} more", names.len() - listed.len()) } else { String::new() };
    format!("{lead}: {}{more}", listed.join(", "))
}

impl Place {
    /// Opens what stands here. Never follows a link that was put here since, and never waits for a pipe's other end.
    ///
    /// # Errors
    /// What the system says.
    pub fn open(&self) -> io::Result<Opened> {
        let file = open_no_wait(&self.path)?;
        let metadata = file.metadata()?;
        let kind = metadata.file_type();
        Ok(if kind.is_file() {
            Opened::File(file, metadata.len())
        } else if kind.is_dir() {
            Opened::Folder
        } else if kind.is_fifo() {
            Opened::Special("pipe")
        } else if kind.is_socket() {
            Opened::Special("socket")
        } else {
            Opened::Special("device")
        })
    }

    /// How a path at or below this place is shown.
    pub fn shown_below(&self, path: &Path) -> String {
        match path.strip_prefix(&self.path) {
            Ok(rest) => names::join_shown(&self.shown, &names::shown(rest)),
            Err(_) => names::shown(path).into_owned(),
        }
    }
}

/// Opens for reading without following a link in the last component and without waiting for a pipe's writer.
pub(crate) fn open_no_wait(path: &Path) -> io::Result<File> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// A folder that paths may not leave, and how its own path is shown.
struct Base {
    root: PathBuf,
    shown: String,
}

impl Base {
    fn find(&self, given: &str, path: &Path) -> Result<Place, PathError> {
        let wanted = normalise(&self.root.join(path));
        if path.is_relative() && !wanted.starts_with(&self.root) {
            return Err(PathError::Outside(given.to_string()));
        }
        match wanted.canonicalize() {
            Ok(real) if real.starts_with(&self.root) => {
                let shown = self.shown(&real);
                Ok(Place { path: real, shown })
            }
            Ok(_) => Err(PathError::Outside(given.to_string())),
            Err(error) => Err(self.explain(given, &wanted, &error)),
        }
    }

    fn shown(&self, real: &Path) -> String {
        let rest = real.strip_prefix(&self.root).unwrap_or(real);
        let shown = names::join_shown(&self.shown, &names::shown(rest));
        if shown.is_empty() { ".".to_string() } else { shown }
    }

    /// Why nothing stands at `wanted`: looks at the nearest folder above it that exists, and only if it is inside.
    fn explain(&self, given: &str, wanted: &Path, error: &io::Error) -> PathError {
        let given = given.to_string();
        if error.kind() == io::ErrorKind::InvalidFilename {
            return PathError::Unusable(given);
        }
        let nearest = wanted.ancestors().skip(1).find_map(|above| Some((above, above.canonicalize().ok()?)));
        let Some((above, folder)) = nearest else { return PathError::Outside(given) };
        if !folder.starts_with(&self.root) {
            return PathError::Outside(given);
        }
        let missing = wanted.strip_prefix(above).unwrap_or(wanted);
        let Some(Component::Normal(name)) = missing.components().next() else { return PathError::Outside(given) };
        match folder.join(name).symlink_metadata() {
            Ok(entry) if entry.is_symlink() => {
                PathError::Missing(given, Hint("it is a link that leads to nothing readable here".to_string()))
            }
            Ok(_) => PathError::Io(given, error.to_string()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let hint = self.nearest(&folder, name, missing);
                PathError::Missing(given, Hint(hint))
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                PathError::Missing(given, Hint(format!("`{}` is a file", self.shown(&folder))))
            }
            Err(error) => PathError::Io(given, error.to_string()),
        }
    }

    /// The name in `folder` that was probably meant, with the rest of the path when that exists too.
    fn nearest(&self, folder: &Path, name: &OsStr, missing: &Path) -> String {
        let wanted = name.to_string_lossy().to_lowercase();
        let mut best: Option<(f64, PathBuf)> = None;
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten().take(MAX_COMPARED) {
            let near =
                strsim::normalized_damerau_levenshtein(&wanted, &entry.file_name().to_string_lossy().to_lowercase());
            let path = entry.path();
            // Among equals the first by name, whatever order the system lists them in.
            let better = best.as_ref().is_none_or(|(most, first)| near > *most || (near == *most && path < *first));
            if near >= NEAR && better {
                best = Some((near, path));
            }
        }
        match best {
            Some((_, near)) => {
                let rest: PathBuf = missing.components().skip(1).collect();
                let whole = near.join(rest);
                let exists = whole.symlink_metadata().is_ok();
                format!("did you mean `{}`?", self.shown(if exists { &whole } else { &near }))
            }
            None => format!("`list_files` shows what is in `{}`", self.shown(folder)),
        }
    }
}

/// Without `.` and `..`, by the text alone: `a/../b` is `b` whatever `a` is. The root's parent is the root.
fn normalise(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                clean.pop();
            }
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => clean.push(component),
        }
    }
    clean
}
