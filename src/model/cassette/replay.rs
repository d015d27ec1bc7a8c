//! Replaying: a model that answers from a tape.

use super::asked::{Asked, Parts};
use super::{End, Facts, Tape, Who};
use crate::model::{Deltas, Model, ModelError, ModelErrorKind, Request};
use async_trait::async_trait;
use dashmap::DashSet;
use futures_util::{StreamExt, stream};
use std::sync::Arc;
use std::time::Duration;

/// A model as it was recorded.
pub struct Cassette {
    tape: Arc<Tape>,
    facts: Facts,
    misses: DashSet<String>,
}

impl Cassette {
    pub(super) fn new(tape: Arc<Tape>, facts: Facts) -> Self {
        Cassette { tape, facts, misses: DashSet::new() }
    }
}

#[async_trait]
impl Model for Cassette {
    fn name(&self) -> &str {
        &self.facts.name
    }

    fn context_window(&self) -> u64 {
        self.facts.context_window
    }

    fn max_output(&self) -> Option<u32> {
        self.facts.max_output
    }

    fn idle_timeout(&self) -> Option<Duration> {
        self.facts.idle_timeout_ms.map(Duration::from_millis)
    }

    fn disclosure(&self) -> Option<&str> {
        self.facts.disclosure.as_deref()
    }

    async fn stream(&self, request: Request) -> Result<Deltas, ModelError> {
        let mut parts = Parts::new();
        let asked = Asked::of(&self.facts.name, &request, self.tape.hidden(), |hash, value| {
            parts.insert(hash, value);
        });
        let call = self.tape.take(&Who::of(&request), &asked, &parts).map_err(|miss| {
            self.misses.insert(miss.clone());
            ModelError::new(ModelErrorKind::Script, miss)
        })?;
        let reply = stream::iter(call.reply.clone()).map(Ok);
        Ok(match &call.end {
            End::Failed(error) if call.reply.is_empty() => return Err(error.clone()),
            End::Failed(error) => reply.chain(stream::iter([Err(error.clone())])).boxed(),
            End::Stopped | End::Cut => reply.boxed(),
            End::Dropped => reply.chain(stream::pending()).boxed(),
        })
    }

    fn complaints(&self) -> Vec<String> {
        let mut misses: Vec<String> = self.misses.iter().map(|miss| miss.clone()).collect();
        misses.sort();
        misses
    }
}
