//! Roles: what a subagent is, apart from its task. Markdown with front matter, built-in ones included.
//!
//! ```text
//! ---
//! name: explorer
//! description: Reads and searches.
//! tools: read_file, list_files, search_code
//! ---
//! The text that goes into the system prompt.
//! ```

/// A subagent's profile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// How plans name it.
    pub name: String,
    /// One sentence for people and for a coordinator that chooses.
    pub description: String,
    /// Tools it may have at most.
    pub tools: Vec<String>,
    /// The model it prefers, if any.
    pub model: Option<String>,
    /// Model calls of one attempt, if it differs from the run's.
    pub turns: Option<u32>,
    /// Whether it is for small models: what they are told and offered is kept short.
    pub compact: bool,
    /// Its part of the system text.
    pub text: String,
}

const BUILT_IN: [&str; 2] = [include_str!("roles/explorer.md"), include_str!("roles/minimal.md")];

impl Role {
    /// Reads a role from Markdown with front matter.
    ///
    /// # Errors
    /// With the line, when the front matter is missing, not closed, or lacks a name.
    pub fn parse(markdown: &str) -> Result<Role, String> {
        let mut lines = markdown.trim_start_matches('\u{feff}').lines().enumerate();
        if lines.next().is_none_or(|(_, line)| line.trim_end() != "---") {
            return Err("line 1: a role begins with `---` and its front matter".to_string());
        }
        let mut role = Role {
            name: String::new(),
            description: String::new(),
            tools: Vec::new(),
            model: None,
            turns: None,
            compact: false,
            text: String::new(),
        };
        let mut closed = false;
        for (at, line) in lines.by_ref() {
            if line.trim_end() == "---" {
                closed = true;
                break;
            }
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let (key, value) = line.split_once(':').ok_or_else(|| format!("line {}: expected `key: value`", at + 1))?;
            let value = value.trim().trim_matches(['"', '\'']);
            match key.trim() {
                "name" => role.name = value.to_string(),
                "description" => role.description = value.to_string(),
                "tools" => role.tools = value.split(',').map(|tool| tool.trim().to_string()).collect(),
                "model" => role.model = Some(value.to_string()),
                "turns" => {
                    let turns = value.parse().ok().filter(|turns| *turns > 0);
                    role.turns = Some(turns.ok_or_else(|| format!("line {}: `turns` is a number from 1", at + 1))?);
                }
                "compact" => match value {
                    "true" => role.compact = true,
                    "false" => role.compact = false,
                    _ => return Err(format!("line {}: `compact` is `true` or `false`", at + 1)),
                },
                other => return Err(format!("line {}: a role has no key `{other}`", at + 1)),
            }
        }
        if !closed {
            return Err("the front matter is not closed with `---`".to_string());
        }
        if role.name.is_empty() {
            return Err("the front matter has no `name`".to_string());
        }
        role.text = lines.map(|(_, line)| line).collect::<Vec<_>>().join("\n").trim().to_string();
        Ok(role)
    }

    /// The roles that come with sortie.
    pub fn built_in() -> Vec<Role> {
        // A test reads all of them; a broken one cannot be released.
        BUILT_IN.iter().filter_map(|markdown| Role::parse(markdown).ok()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_role_can_be_read_and_names_tools_that_exist() {
        let roles = Role::built_in();
        assert_eq!(roles.len(), BUILT_IN.len());
        assert_eq!(roles[0].name, crate::plan::DEFAULT_ROLE);
        assert!(roles.iter().all(|role| !role.tools.is_empty() && !role.text.is_empty()));
    }

    #[test]
    fn mistakes_name_their_line() {
        for (markdown, wanted) in [
            ("no front matter", "line 1"),
            ("---\nname: a\n", "not closed"),
            ("---\ndescription: b\n---\n", "no `name`"),
            ("---\nname: a\nturns: 0\n---\n", "line 3"),
            ("---\nname: a\ncompact: yes\n---\n", "line 3"),
            ("---\nname: a\ncolour: red\n---\n", "`colour`"),
        ] {
            let error = Role::parse(markdown).unwrap_err();
            assert!(error.contains(wanted), "{markdown:?}: {error}");
        }
    }
}
