//! The `Approver` seam: whoever says yes or no.

use async_trait::async_trait;

/// Something to be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// Unique in the run.
    pub id: String,
    /// One line: what is asked.
    pub title: String,
    /// What the answer should rest on: the plan as a tree.
    pub detail: String,
}

/// The decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Yes,
    /// Do not; the comment reaches the model.
    No {
        /// Why, or what to do instead; may be empty.
        comment: String,
    },
}

/// Whoever decides.
#[async_trait]
pub trait Approver: Send + Sync {
    /// Decides. Dropping the future withdraws the question.
    async fn decide(&self, question: &Question) -> Answer;
}

/// Says no at once: for runs that nobody watches.
pub struct Nobody;

#[async_trait]
impl Approver for Nobody {
    async fn decide(&self, _question: &Question) -> Answer {
        Answer::No { comment: "nobody is there to approve it (no terminal)".to_string() }
    }
}
