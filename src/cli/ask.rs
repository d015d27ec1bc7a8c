//! Questions on a terminal.

use async_trait::async_trait;
use sortie::permission::{Answer, Approver, Question};
use sortie::text;
use std::io::{self, BufRead, Write};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a question waits for the screen to make room.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks on standard error, reads the answer from standard input.
pub(crate) struct Terminal {
    /// Hears when the live screen has made room for a question; at once where there is none.
    room: Arc<Mutex<Receiver<()>>>,
}

impl Terminal {
    pub(crate) fn new(room: Receiver<()>) -> Self {
        Terminal { room: Arc::new(Mutex::new(room)) }
    }
}

#[async_trait]
impl Approver for Terminal {
    async fn decide(&self, question: &Question) -> Answer {
        let text = wording(question);
        let (send, receive) = tokio::sync::oneshot::channel();
        let room = Arc::clone(&self.room);
        // A thread of its own: when the question is withdrawn, a read that nobody answers must not hold the runtime.
        std::thread::spawn(move || {
            let _ = room.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(PATIENCE);
            let _ = write!(io::stderr().lock(), "{text}").and_then(|()| io::stderr().flush());
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            let _ = send.send(read.map(|_| line));
        });
        match receive.await {
            Ok(Ok(line)) => answer(line.trim()),
            Ok(Err(_)) | Err(_) => Answer::No { comment: "the answer could not be read".to_string() },
        }
    }
}

/// What the user sees. A model has written parts of it: nothing in it may drive the terminal.
fn wording(question: &Question) -> String {
    let (title, detail) = (text::printable(&question.title), text::printable(&question.detail));
    format!("\n{}\n{title} [y/N, or say what to change] ", detail.trim_end())
}

fn answer(line: &str) -> Answer {
    match line.to_ascii_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        "" | "n" | "no" => Answer::No { comment: String::new() },
        _ => Answer::No { comment: line.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_cannot_drive_the_terminal() {
        let question =
            Question { id: "1".into(), title: "Run `\u{1b}[2Jp`?".into(), detail: "a\u{1b}]0;x\u{7}b\n".into() };
        assert_eq!(wording(&question), "\nab\nRun `p`? [y/N, or say what to change] ");
    }

    #[test]
    fn only_a_plain_yes_is_a_yes() {
        assert_eq!(answer("Y"), Answer::Yes);
        assert_eq!(answer("yes"), Answer::Yes);
        assert_eq!(answer(""), Answer::No { comment: String::new() });
        assert_eq!(answer("yes, but smaller"), Answer::No { comment: "yes, but smaller".to_string() });
    }
}
