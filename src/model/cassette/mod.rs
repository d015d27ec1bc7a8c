//! Model calls on tape: recorded from any model, replayed without provider, key or network.
//!
//! A call is found by what was asked: model, system text, tools, messages, output limit and format, in the normal form and
//! with object keys sorted. Who asked does not matter, so a conversation may move (`part[1]` becomes `part[2]`) as long as
//! it says the same. Each recorded call answers once; among calls that asked the same, the one of the same conversation,
//! attempt and turn goes first, then the others in the order in which they were recorded.
//!
//! What a call asks that no recorded one asked is an error that names the nearest and the first difference, and the run
//! fails with it: a tape never makes up an answer.
//!
//! ```text
//! {"type":"cassette","version":1,"sortie":"0.1.0"}
//! {"type":"models","default":"anthropic/…","small":null,"aliases":{},"only_default":false}
//! {"type":"model","name":"anthropic/…","context_window":200000,"max_output":64000,"disclosure":null}
//! {"type":"part","hash":"…","value":…}                   a system text, tool list, message or format, once
//! {"type":"call","conversation":"part[1]","attempt":1,"turn":3,"model":"anthropic/…","system":"…","tools":"…",
//!  "messages":["…","…"],"max_output":16000,"format":null,"reply":[{"text":"…"},{"stop":"end"}],"end":"stopped"}
//! ```
//!
//! A line is written when its call has ended, so a file that a crash has cut holds what was complete. Text that comes in
//! pieces is stored in one; times are not stored.

mod asked;
mod record;
mod replay;
mod tape;

pub use record::{Recorder, Recording};
pub use replay::Cassette;
pub use tape::{Tape, TapeError};

use super::{Delta, Model, ModelError, Naming};
use asked::Asked;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The version that is written, and the only one that is read.
pub const CASSETTE_VERSION: u32 = 1;

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Line {
    /// The first.
    Cassette {
        version: u32,
        sortie: String,
    },
    /// What the models of the run were to it.
    Models(Naming),
    Model(Facts),
    Part {
        hash: asked::Hash,
        value: Value,
    },
    Call(Box<Call>),
}

/// What the harness asks a model about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Facts {
    name: String,
    context_window: u64,
    max_output: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    idle_timeout_ms: Option<u64>,
    disclosure: Option<String>,
}

impl Facts {
    fn of(model: &dyn Model) -> Self {
        Facts {
            name: model.name().to_string(),
            context_window: model.context_window(),
            max_output: model.max_output(),
            idle_timeout_ms: model.idle_timeout().and_then(|idle| u64::try_from(idle.as_millis()).ok()),
            disclosure: model.disclosure().map(str::to_string),
        }
    }
}

/// One call with its answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Call {
    #[serde(flatten)]
    who: Who,
    #[serde(flatten)]
    asked: Asked,
    reply: Vec<Delta>,
    end: End,
}

/// Whose call it was: for people, and to tell calls apart that asked the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Who {
    conversation: String,
    attempt: u32,
    turn: u32,
}

impl Who {
    fn of(request: &super::Request) -> Self {
        Who { conversation: request.conversation.clone(), attempt: request.attempt, turn: request.turn }
    }
}

impl std::fmt::Display for Who {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "turn {} of `{}`", self.turn, crate::text::one_line(&self.conversation, 120))
    }
}

/// How a recorded call ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum End {
    /// With [`Delta::Stop`].
    Stopped,
    /// The stream ended without it.
    Cut,
    /// With an error.
    Failed(ModelError),
    /// Whoever called gave it up: a stop, a time limit, a silence that was too long. On replay it falls silent at the same
    /// place, and whoever gave it up then does so again.
    Dropped,
}

#[cfg(test)]
mod tests;
