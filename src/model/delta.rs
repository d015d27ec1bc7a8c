//! A reply as it streams, and what it costs.

use super::{Opaque, ToolCall};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A piece of a reply as it streams.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Delta {
    /// The call waits at the gate, not for the provider. Ends with [`Delta::Sent`] or another of these.
    Waiting(Wait),
    /// The request goes out (again): from now on the provider is waited for.
    Sent,
    /// Another model answers from here on. What was said so far is void.
    Switched(Switch),
    /// More words.
    Text(String),
    /// A piece of a block that is not complete: reasoning or arguments. Shows that the model is at work; not kept.
    Partial(String),
    /// A complete block of reasoning, to be sent back.
    Thinking(Opaque),
    /// A complete tool call.
    Call(ToolCall),
    /// Tokens of the call so far, or since a switch; the last one counts, and those before a switch are added.
    Usage(Usage),
    /// What the call has cost, counted as [`Delta::Usage`] is. Never sent where no price is known.
    Cost(Cost),
    /// The reply is complete. Nothing follows.
    Stop(StopKind),
}

/// A wait before a request goes out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wait {
    /// What for.
    pub cause: WaitCause,
    /// How long, in milliseconds, where that is known.
    pub time_ms: Option<u64>,
    /// The provider's name; where there is more to say, `NAME: why`.
    pub detail: String,
}

/// What a request waits for before it goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitCause {
    /// A free stream.
    Streams,
    /// The configured requests or tokens per minute.
    Rate,
    /// The provider asked all of us to wait.
    Cooldown,
    /// The next try after a failure of this call.
    Retry,
    /// A sibling that writes the shared prefix to the provider's cache.
    Prefix,
}

/// A change of the model within a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Switch {
    /// `provider/model` that answers now.
    pub to: String,
    /// Why the other one does not.
    pub why: String,
}

/// Money, in billionths of a US dollar.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(pub u64);

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Cost) {
        self.0 += other.0;
    }
}

impl fmt::Display for Cost {
    /// `$1.24`, `$0.0031`: cents from a dollar on, else two figures that count.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dollars = self.usd();
        match self.0 {
            0 => f.write_str("$0"),
            1_000_000_000.. => write!(f, "${dollars:.2}"),
            10_000_000.. => write!(f, "${dollars:.3}"),
            _ => write!(f, "${dollars:.4}"),
        }
    }
}

impl Cost {
    /// As a number of dollars, for programs.
    pub fn usd(self) -> f64 {
        self.0 as f64 / 1e9
    }
}

/// What several model calls have cost together, as far as their prices are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bill {
    /// Of the calls whose price is known; `None` when there was none.
    #[serde(rename = "nano_usd", default, skip_serializing_if = "Option::is_none")]
    pub known: Option<Cost>,
    /// Whether there were others, so that what is known is only a lower bound.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub at_least: bool,
}

impl Bill {
    /// Of one call; `None` where its price is not known.
    pub fn of(cost: Option<Cost>) -> Self {
        Bill { known: cost, at_least: cost.is_none() }
    }

    /// Whether there is nothing to tell: no call had a price.
    pub fn is_unknown(&self) -> bool {
        self.known.is_none()
    }
}

impl std::ops::AddAssign for Bill {
    fn add_assign(&mut self, other: Bill) {
        if let Some(cost) = other.known {
            *self.known.get_or_insert_default() += cost;
        }
        self.at_least |= other.at_least;
    }
}

impl fmt::Display for Bill {
    /// `$0.0123`, `at least $0.0123`; nothing where nothing is known.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.known {
            None => Ok(()),
            Some(cost) if self.at_least => write!(f, "at least {cost}"),
            Some(cost) => cost.fmt(f),
        }
    }
}

/// Why a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopKind {
    /// The model was done.
    End,
    /// It waits for tool results.
    Tool,
    /// Its output limit cut it.
    Length,
    /// It declined.
    Refusal,
    /// The server paused a long turn; send the same again to go on.
    Paused,
    /// The context window is full.
    ContextFull,
    /// A content filter cut it.
    Filtered,
    /// The stream ended without its terminal event.
    StreamCut,
}

/// Tokens of model calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Input tokens that were not read from a cache.
    pub input: u64,
    /// Input tokens read from a prompt cache.
    pub cache_read: u64,
    /// Input tokens written to a prompt cache.
    pub cache_write: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Of the output, reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Input and output together.
    pub fn total(&self) -> u64 {
        self.input + self.cache_read + self.cache_write + self.output
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, other: Usage) {
        self.input += other.input;
        self.cache_read += other.cache_read;
        self.cache_write += other.cache_write;
        self.output += other.output;
        self.reasoning += other.reasoning;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bill_says_when_it_is_only_a_lower_bound() {
        let mut bill = Bill::default();
        assert_eq!((bill.to_string().as_str(), bill.is_unknown()), ("", true));
        bill += Bill::of(Some(Cost(12_300_000)));
        assert_eq!(bill.to_string(), "$0.012");
        bill += Bill::of(None);
        bill += Bill::of(Some(Cost(1_230_000_000)));
        assert_eq!(bill.to_string(), "at least $1.24");
        let mut unpriced = Bill::of(None);
        unpriced += Bill::of(None);
        assert!(unpriced.is_unknown() && unpriced.to_string().is_empty());
        let json = serde_json::to_string(&bill).unwrap();
        assert_eq!(json, r#"{"nano_usd":1242300000,"at_least":true}"#);
        assert_eq!(serde_json::from_str::<Bill>(&json).unwrap(), bill);
    }
}
