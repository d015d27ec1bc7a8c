//! The workspace's own settings: asked about once, ignored until the user has said yes.

use super::out::Out;
use super::settings::{Fate, Manner, fine};
use super::state;
use sortie::config::{ConfigFile, Entries, Settings, Standing, TrustStore};
use sortie::error::Error;
use sortie::text;
use std::io::{self, BufRead, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Settings that the question shows at most.
const MAX_SHOWN: usize = 20;

/// What the workspace's own files set, when that may take effect.
pub(crate) fn workspace_layer(
    workspace: &Path,
    trust: bool,
    manner: Manner,
    fates: &mut Vec<(PathBuf, Fate)>,
    out: &mut Out,
) -> Result<Option<Settings>, Error> {
    let mut files = Vec::new();
    let mut unreadable = Vec::new();
    for name in ["config.local.toml", "config.toml"] {
        match ConfigFile::read(&workspace.join(".sortie").join(name)) {
            Ok(file) => files.extend(file),
            Err(problem) => unreadable.push(problem),
        }
    }
    if files.is_empty() && unreadable.is_empty() {
        return Ok(None);
    }
    // The local file lies over the other one.
    let entries: Entries = files.iter().rev().flat_map(|file| file.entries.clone()).collect();
    let sound = unreadable.is_empty() && files.iter().all(|file| file.problems.is_empty());
    if sound && entries.is_empty() {
        return Ok(None);
    }
    let store = TrustStore::new(state::state_dir().as_deref(), workspace);
    let standing = store.standing(&entries);
    let question = Question { files: &files, entries: &entries, standing: &standing, store: &store };
    let trusted = match (trust, &standing) {
        (true, _) | (false, Standing::Trusted) => true,
        (false, Standing::Declined) => false,
        (false, Standing::Unknown | Standing::Changed(_) | Standing::Broken(..)) => {
            sound && manner == Manner::Ask && terminal() && question.ask()
        }
    };
    if !trusted {
        out.note(&question.ignored(sound, &unreadable));
        fates.extend(files.into_iter().map(|file| (file.path, Fate::NotTrusted)));
        return Ok(None);
    }
    if let Some(problem) = unreadable.into_iter().next() {
        return Err(Error::usage(problem));
    }
    // All problems of both files, then the error.
    let results: Vec<Result<Settings, Error>> =
        files.iter().map(|file| fine(file, out).map(|file| file.settings.clone())).collect();
    let layers = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    if manner == Manner::Ask && standing != Standing::Trusted {
        remember(&store, &entries, true, out);
    }
    fates.extend(files.into_iter().map(|file| (file.path, Fate::Used)));
    Ok(layers.into_iter().reduce(Settings::over))
}

fn remember(store: &TrustStore, entries: &Entries, trusted: bool, out: &mut Out) {
    if let Err(problem) = store.record(entries, trusted) {
        out.note(&format!("warning: the answer is good for this run only: {problem}"));
    }
}

fn terminal() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// What there is to ask, or to say instead.
struct Question<'a> {
    files: &'a [ConfigFile],
    entries: &'a Entries,
    standing: &'a Standing,
    store: &'a TrustStore,
}

impl Question<'_> {
    /// Asks on the terminal and remembers the answer.
    fn ask(&self) -> bool {
        let _ = write!(io::stderr().lock(), "{}", self.wording()).and_then(|()| io::stderr().flush());
        let mut line = String::new();
        let answered = io::stdin().lock().read_line(&mut line).is_ok_and(|bytes| bytes > 0);
        let yes = answered && matches!(line.trim().to_ascii_lowercase().as_str(), "y" | "yes");
        // A yes is remembered when it has been seen to work. A no that is lost is asked for again.
        if answered && !yes {
            let _ = self.store.record(self.entries, false);
        }
        yes
    }

    fn wording(&self) -> String {
        let mut lines = vec![match self.standing {
            Standing::Changed(_) => "The settings of this workspace have changed since you trusted it:".to_string(),
            Standing::Trusted | Standing::Declined | Standing::Unknown | Standing::Broken(..) => {
                "This workspace brings settings of its own:".to_string()
            }
        }];
        let settings: Vec<String> = match self.standing {
            Standing::Changed(changes) => changes.clone(),
            Standing::Trusted | Standing::Declined | Standing::Unknown | Standing::Broken(..) => {
                self.entries.iter().map(|(key, value)| format!("{key} = {value}")).collect()
            }
        };
        lines.extend(settings.iter().take(MAX_SHOWN).map(|line| format!("  {}", plain(line))));
        if settings.len() > MAX_SHOWN {
            lines.push(format!("  … and {} more in {}", settings.len() - MAX_SHOWN, self.names()));
        }
        lines.push("They decide where your requests and keys are sent. Trust them? [y/N] ".to_string());
        format!("\n{}", lines.join("\n"))
    }

    fn ignored(&self, sound: bool, unreadable: &[String]) -> String {
        let names = self.names();
        let verb = if self.files.len() + unreadable.len() == 1 { "is" } else { "are" };
        let why = match self.standing {
            _ if !sound => "the workspace is not trusted, and something is wrong with what it brings".to_string(),
            Standing::Changed(changes) => {
                let first = changes.first().map(|change| plain(change));
                let more = match changes.len() {
                    0 | 1 => String::new(),
                    more => format!(" and {} more", more - 1),
                };
                format!("the settings have changed since you trusted them (`{}`{more})", first.unwrap_or_default())
            }
            Standing::Declined => "you do not trust the workspace".to_string(),
            Standing::Broken(file, problem) => format!(
                "whether the workspace is trusted cannot be read from `{}` ({})",
                file.display(),
                text::clip(problem, 120)
            ),
            Standing::Trusted | Standing::Unknown => "the workspace is not trusted yet".to_string(),
        };
        format!("note: {names} {verb} ignored: {why}; --trust accepts what is set there")
    }

    fn names(&self) -> String {
        let names: Vec<String> = self
            .files
            .iter()
            .rev()
            .filter_map(|file| file.path.file_name())
            .map(|name| format!("`.sortie/{}`", name.to_string_lossy()))
            .collect();
        if names.is_empty() { "`.sortie`".to_string() } else { names.join(" and ") }
    }
}

/// What a workspace has written, fit for a question about it: nothing in it drives the terminal, hides, or looks like
/// another letter.
fn plain(line: &str) -> String {
    let escape = |c: char| if c.is_ascii() && !c.is_control() { c.to_string() } else { c.escape_unicode().to_string() };
    text::clip(&line.chars().map(escape).collect::<String>(), 200).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question<'a>(entries: &'a Entries, standing: &'a Standing, store: &'a TrustStore) -> Question<'a> {
        Question { files: &[], entries, standing, store }
    }

    #[test]
    fn the_question_shows_what_would_be_set_and_hides_nothing_of_it() {
        let store = TrustStore::new(None, Path::new("/"));
        let url = "\"http://\u{202e}evil\u{1b}[2J.t\u{435}st\"".to_string();
        let mut entries = Entries::from([("providers.anthropic.base_url".to_string(), url)]);
        assert_eq!(
            question(&entries, &Standing::Unknown, &store).wording(),
            "\nThis workspace brings settings of its own:\n  \
             providers.anthropic.base_url = \"http://\\u{202e}evil\\u{1b}[2J.t\\u{435}st\"\n\
             They decide where your requests and keys are sent. Trust them? [y/N] "
        );
        let changed = Standing::Changed(vec!["+ network = \"online\"".to_string()]);
        let wording = question(&entries, &changed, &store).wording();
        assert!(wording.contains("have changed since you trusted it:\n  + network = \"online\"\n"), "{wording}");
        entries.extend((0..MAX_SHOWN).map(|n| (format!("models.{n}"), "1".to_string())));
        let wording = question(&entries, &Standing::Unknown, &store).wording();
        assert!(wording.contains("\n  … and 1 more in `.sortie`\n"), "{wording}");
    }
}
