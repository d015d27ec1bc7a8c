//! The models of a run, by name.

use super::Model;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

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

/// The models of a run: its own, and others that nodes or roles name.
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

    /// Sets the model for chores.
    pub fn set_small(&mut self, model: Arc<dyn Model>) {
        self.small = Some(model);
    }

    /// The run's model.
    pub fn default_model(&self) -> &Arc<dyn Model> {
        &self.default
    }

    /// The model for chores such as summaries and titles: the run's own where no other is set.
    pub fn small_model(&self) -> &Arc<dyn Model> {
        self.small.as_ref().unwrap_or(&self.default)
    }

    /// The model that a node or role means by this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Model>> {
        let name = self.aliases.get(name).map_or(name, String::as_str);
        if self.only_default || name == self.default.name() { Some(&self.default) } else { self.others.get(name) }
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
