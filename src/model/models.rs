//! The models of a run, by name.

use super::Model;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What nodes and roles call the model for chores.
const SMALL: &str = "small";

/// Which models of a run are what, as data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Naming {
    /// The run's own.
    pub(crate) default: String,
    /// The one for chores.
    pub(crate) small: Option<String>,
    /// Other names that nodes and roles use.
    pub(crate) aliases: BTreeMap<String, String>,
    /// Whether the run's own answers whoever is named.
    pub(crate) only_default: bool,
}

/// The models of a run: its own, one for chores, and others that nodes or roles name.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn Model>,
    /// By the name that they give themselves.
    others: BTreeMap<String, Arc<dyn Model>>,
    /// What else they are called: the name that a node uses, and their own.
    aliases: BTreeMap<String, String>,
    /// The run's model answers whoever is named.
    only_default: bool,
    small: Option<Arc<dyn Model>>,
}

impl Models {
    /// The run's model alone.
    pub fn new(default: Arc<dyn Model>) -> Self {
        Models { default, others: BTreeMap::new(), aliases: BTreeMap::new(), only_default: false, small: None }
    }

    /// Adds one under the name it gives itself.
    pub fn add(&mut self, model: Arc<dyn Model>) {
        self.others.insert(model.name().to_string(), model);
    }

    /// Lets nodes and roles call the model `name` something else too.
    pub fn add_alias(&mut self, alias: &str, name: &str) {
        self.aliases.insert(alias.to_string(), name.to_string());
    }

    /// Lets the run's model answer whichever model a node or role names: the user has said so.
    pub fn use_default_only(&mut self) {
        self.only_default = true;
    }

    /// Sets the model for chores: titles, and nodes and roles whose model is `small`.
    pub fn set_small(&mut self, model: Arc<dyn Model>) {
        self.small = Some(model);
    }

    /// The run's model.
    pub fn default_model(&self) -> &Arc<dyn Model> {
        &self.default
    }

    /// The model for chores, where one is set.
    pub fn small(&self) -> Option<&Arc<dyn Model>> {
        self.small.as_ref()
    }

    /// The model that a node or role means by this name; `small` is the one for chores, or the run's where none is set.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Model>> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        if self.only_default || name == self.default.name() {
            return Some(&self.default);
        }
        match &self.small {
            Some(small) if name == SMALL || name == small.name() => Some(small),
            None if name == SMALL => Some(&self.default),
            Some(_) | None => self.others.get(name),
        }
    }

    /// Name of the model that answers a node which names `node`, in a role which names `role`: the run's where the user
    /// has said so, else the node's, the role's, the run's. By its own name: an alias means another model in another run.
    ///
    /// A word without a provider that no model here has is the run's model: other tools say `sonnet` or `inherit`. A
    /// `provider/model` that is not here is returned as it is, for an error that names it.
    pub fn resolve<'a>(&'a self, node: Option<&'a str>, role: Option<&'a str>) -> &'a str {
        let Some(wanted) = node.or(role) else { return self.default.name() };
        match self.get(wanted) {
            Some(model) => model.name(),
            None if wanted.contains('/') => wanted,
            None => self.default.name(),
        }
    }

    /// Which of them is what, by name.
    pub(crate) fn naming(&self) -> Naming {
        Naming {
            default: self.default.name().to_string(),
            small: self.small.as_ref().map(|small| small.name().to_string()),
            aliases: self.aliases.clone(),
            only_default: self.only_default,
        }
    }

    /// The same models, each with something around it that keeps its name. The run's own is handed in first.
    #[must_use]
    pub fn wrap(mut self, mut around: impl FnMut(Arc<dyn Model>) -> Arc<dyn Model>) -> Self {
        self.default = around(self.default);
        self.others = self.others.into_iter().map(|(name, model)| (name, around(model))).collect();
        self.small = self.small.map(around);
        self
    }

    /// All of them once, the run's first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        let known = |name: &str| name == self.default.name() || self.others.contains_key(name);
        let small = self.small.iter().filter(move |model| !known(model.name()));
        std::iter::once(&self.default).chain(self.others.values()).chain(small)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::Scripted;

    fn model(name: &str) -> Arc<dyn Model> {
        Arc::new(Scripted::parse(name, "").unwrap())
    }

    #[test]
    fn the_users_choice_goes_before_the_nodes_and_that_before_the_roles() {
        let mut models = Models::new(model("a/run"));
        models.add(model("a/node"));
        models.add(model("a/role"));
        models.add_alias("fast", "a/node");
        let cases = [
            (None, None, "a/run"),
            (None, Some("a/role"), "a/role"),
            (Some("a/node"), Some("a/role"), "a/node"),
            (Some("fast"), None, "a/node"),
            (Some("small"), Some("a/role"), "a/run"),
            (None, Some("sonnet"), "a/run"),
            (Some("inherit"), None, "a/run"),
            (Some("b/unknown"), None, "b/unknown"),
        ];
        let mut only = models.clone();
        only.use_default_only();
        for (node, role, expected) in cases {
            assert_eq!(models.resolve(node, role), expected, "{node:?} {role:?}");
            assert_eq!(only.resolve(node, role), "a/run", "{node:?} {role:?}");
        }
        models.set_small(model("a/small"));
        assert_eq!(models.resolve(Some("small"), None), "a/small");
        assert_eq!(models.resolve(None, Some("small")), "a/small");
        assert!(models.get("a/small").is_some());
        let all: Vec<&str> = models.all().map(|model| model.name()).collect();
        assert_eq!(all, ["a/run", "a/node", "a/role", "a/small"]);
    }
}
