//! The models of a run, by name.

use super::Model;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The models of a run: its own, and others that nodes or roles name.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn Model>,
    others: BTreeMap<String, Arc<dyn Model>>,
}

impl Models {
    /// The run's model alone.
    pub fn new(default: Arc<dyn Model>) -> Self {
        Models { default, others: BTreeMap::new() }
    }

    /// Adds one under the name it gives itself.
    pub fn add(&mut self, model: Arc<dyn Model>) {
        self.others.insert(model.name().to_string(), model);
    }

    /// The run's model.
    pub fn default_model(&self) -> &Arc<dyn Model> {
        &self.default
    }

    /// The model of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Model>> {
        if name == self.default.name() { Some(&self.default) } else { self.others.get(name) }
    }

    /// The same models, each with something around it that keeps its name. The run's own is handed in first.
    #[must_use]
    pub fn wrap(self, mut around: impl FnMut(Arc<dyn Model>) -> Arc<dyn Model>) -> Self {
        let default = around(self.default);
        let others = self.others.into_iter().map(|(name, model)| (name, around(model))).collect();
        Models { default, others }
    }

    /// All of them, the run's first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        std::iter::once(&self.default).chain(self.others.values())
    }
}
