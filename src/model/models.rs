//! The models of a run, by name.

use super::Model;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What nodes and roles call the model for chores.
pub const SMALL: &str = "small";

/// The models of a run: its own, one for chores, and others that nodes or roles name.
#[derive(Clone)]
pub struct Models {
    default: Arc<dyn Model>,
    small: Option<Arc<dyn Model>>,
    others: BTreeMap<String, Arc<dyn Model>>,
    overriding: bool,
}

impl Models {
    /// The run's model alone.
    pub fn new(default: Arc<dyn Model>) -> Self {
        Models { default, small: None, others: BTreeMap::new(), overriding: false }
    }

    /// With a model for chores: titles, and nodes and roles whose `model` is `small`.
    #[must_use]
    pub fn with_small(mut self, small: Arc<dyn Model>) -> Self {
        self.small = Some(small);
        self
    }

    /// The user named the run's model for this run: it goes before what nodes and roles name.
    #[must_use]
    pub fn overriding(mut self) -> Self {
        self.overriding = true;
        self
    }

    /// Adds one under the name it gives itself.
    pub fn add(&mut self, model: Arc<dyn Model>) {
        self.others.insert(model.name().to_string(), model);
    }

    /// The run's model.
    pub fn default_model(&self) -> &Arc<dyn Model> {
        &self.default
    }

    /// The model for chores, where one is configured.
    pub fn small(&self) -> Option<&Arc<dyn Model>> {
        self.small.as_ref()
    }

    /// The model of this name.
    pub fn get(&self, name: &str) -> Option<&Arc<dyn Model>> {
        if name == self.default.name() {
            return Some(&self.default);
        }
        self.small.as_ref().filter(|small| small.name() == name).or_else(|| self.others.get(name))
    }

    /// Name of the model of a node that names `node`, in a role that names `role`: the run's where the user overrides
    /// both, else the node's, the role's, the run's. [`SMALL`] means the one for chores, or the run's where there is
    /// none. So does a word without a provider that no model here has: other tools call their models `sonnet` or
    /// `inherit`. A `provider/model` that is not here is returned as it is.
    pub fn resolve<'a>(&'a self, node: Option<&'a str>, role: Option<&'a str>) -> &'a str {
        let Some(wanted) = node.or(role).filter(|_| !self.overriding) else { return self.default.name() };
        match &self.small {
            Some(small) if wanted == SMALL => small.name(),
            Some(_) | None if self.get(wanted).is_some() || wanted.contains('/') => wanted,
            Some(_) | None => self.default.name(),
        }
    }

    /// All of them, the run's first.
    pub fn all(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        let small = self.small.iter().filter(|small| small.name() != self.default.name());
        let others = self.others.values().filter(|other| self.small.as_ref().is_none_or(|s| s.name() != other.name()));
        std::iter::once(&self.default).chain(small).chain(others)
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
        let cases = [
            (None, None, "a/run"),
            (None, Some("a/role"), "a/role"),
            (Some("a/node"), Some("a/role"), "a/node"),
            (Some("small"), Some("a/role"), "a/run"),
            (None, Some("sonnet"), "a/run"),
            (Some("inherit"), None, "a/run"),
            (Some("b/unknown"), None, "b/unknown"),
        ];
        for (node, role, expected) in cases {
            assert_eq!(models.resolve(node, role), expected, "{node:?} {role:?}");
            assert_eq!(models.clone().overriding().resolve(node, role), "a/run", "{node:?} {role:?}");
        }
        let models = models.with_small(model("a/small"));
        assert_eq!(models.resolve(Some("small"), None), "a/small");
        assert_eq!(models.resolve(None, Some("small")), "a/small");
        assert!(models.get("a/small").is_some());
        let all: Vec<&str> = models.all().map(|model| model.name()).collect();
        assert_eq!(all, ["a/run", "a/small", "a/node", "a/role"]);
    }
}
