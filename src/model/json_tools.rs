//! Placeholder until the real one is merged.
use super::{Deltas, Request};
pub(crate) fn rewrite(request: Request) -> Request {
    request
}
pub(crate) fn decode(deltas: Deltas, _turn: u32) -> Deltas {
    deltas
}
