//! Anthropic's Messages: `POST {base}/v1/messages`, spoken by Anthropic and by relatives (DeepSeek, Moonshot,
//! llama.cpp and gateways), which leave out or repeat this and that.
//!
//! Facts are from the types of the official SDK unless a comment names another source. Server-side tools are never
//! asked for, so their blocks are passed over.

mod decode;
mod encode;

pub(super) use decode::Decoder;
pub(super) use encode::encode;
