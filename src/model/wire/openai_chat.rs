//! Placeholder of the frame.

use super::{Failure, Target, sse};
use crate::model::{Delta, Request};
use serde_json::Value;
use std::sync::Arc;

pub(super) fn encode(_: &Request, _: &Target) -> Value {
    Value::Null
}

/// Reads one reply.
#[derive(Debug)]
pub struct Decoder {
    _name: Arc<str>,
}

impl Decoder {
    pub(super) fn new(name: Arc<str>) -> Self {
        Decoder { _name: name }
    }

    pub(super) fn event(&mut self, _: &sse::Event<'_>, _: &mut Vec<Delta>) -> Result<(), Failure> {
        Ok(())
    }

    pub(super) fn whole(&mut self, _: &[u8], _: &mut Vec<Delta>) -> Result<(), Failure> {
        Ok(())
    }

    pub(super) fn end(&mut self, _: &mut Vec<Delta>) -> Result<(), Failure> {
        Ok(())
    }
}
