//! Where sortie keeps what belongs to no workspace.

use std::ffi::OsString;
use std::path::PathBuf;

/// `$SORTIE_STATE_DIR`, else `$XDG_STATE_HOME/sortie`, else `~/.local/state/sortie`; `None` without any of these.
pub(crate) fn state_dir() -> Option<PathBuf> {
    from_env(|name| std::env::var_os(name))
}

fn from_env(env: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    // Empty is unset, and a relative path would mean another place in every directory.
    let absolute = |name| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("SORTIE_STATE_DIR")
        .or_else(|| absolute("XDG_STATE_HOME").map(|state| state.join("sortie")))
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state").join("sortie")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_usable_place_counts() {
        for (set, expected) in [
            (vec![("SORTIE_STATE_DIR", "/s"), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Some("/s")),
            (vec![("SORTIE_STATE_DIR", ""), ("XDG_STATE_HOME", "/x"), ("HOME", "/h")], Some("/x/sortie")),
            (vec![("XDG_STATE_HOME", "relative"), ("HOME", "/h")], Some("/h/.local/state/sortie")),
            (vec![], None),
        ] {
            let found = from_env(|name| set.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into()));
            assert_eq!(found, expected.map(PathBuf::from), "{set:?}");
        }
    }
}
