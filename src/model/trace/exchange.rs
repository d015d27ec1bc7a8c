//! One request and what comes back, until its line is written.

use super::{HIDDEN_ANSWERS, HttpTrace, ResponseLine, now, show_headers};
use crate::redact::Redactor;
use crate::text::plural;
use std::collections::VecDeque;
use std::sync::Arc;
use tokio::time::Instant;

/// Bytes of a body that are kept from its start. A long reply of a model is a few million bytes of events.
const HEAD: usize = 4 << 20;
/// Bytes that are kept from its end, where the outcome stands.
const TAIL: usize = 256 << 10;

/// A request that has gone out. Its response is written by [`Exchange::end`]; one that is dropped before was given up,
/// and its line says so.
#[derive(Debug)]
pub struct Exchange {
    trace: Arc<HttpTrace>,
    hidden: Redactor,
    begun: Instant,
    body: Body,
    /// What is known of the response; gone once it is written.
    line: Option<ResponseLine>,
}

impl Exchange {
    pub(super) fn new(trace: Arc<HttpTrace>, id: String, hidden: Redactor) -> Self {
        let line = ResponseLine {
            id,
            at: now(),
            status: None,
            request_id: None,
            headers: Default::default(),
            body: String::new(),
            bytes: 0,
            left_out: 0,
            ms: 0,
            first_byte_ms: None,
            problem: None,
        };
        Exchange { trace, hidden, begun: Instant::now(), body: Body::new(HEAD, TAIL), line: Some(line) }
    }

    /// The server has answered; the body follows.
    pub fn answered<'h>(
        &mut self,
        status: u16,
        headers: impl IntoIterator<Item = (&'h str, &'h str)>,
        request_id: Option<&str>,
    ) {
        if let Some(line) = &mut self.line {
            let shown = |name: &str| !HIDDEN_ANSWERS.contains(&name.to_ascii_lowercase().as_str());
            line.status = Some(status);
            line.request_id = request_id.map(|id| self.hidden.text(id).into_owned());
            line.headers = show_headers(headers.into_iter(), &self.hidden, shown);
        }
    }

    /// More of the body. Memory is bounded: of a long one the beginning and the end are kept.
    pub fn chunk(&mut self, bytes: &[u8]) {
        if let Some(line) = &mut self.line {
            line.first_byte_ms.get_or_insert_with(|| millis(self.begun));
            self.body.push(bytes);
        }
    }

    /// It is over; `problem` says why the answer is not whole, if it is not.
    pub fn end(mut self, problem: Option<&str>) {
        self.write(problem);
    }

    fn write(&mut self, problem: Option<&str>) {
        let Some(mut line) = self.line.take() else { return };
        line.at = now();
        line.ms = millis(self.begun);
        line.bytes = self.body.all;
        line.problem = problem.map(|problem| self.hidden.text(problem).into_owned());
        // A key that two chunks share is whole here.
        (line.body, line.left_out) = std::mem::take(&mut self.body).text(&self.hidden);
        self.trace.write(&line);
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.write(Some("cancelled"));
    }
}

fn millis(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// The start and the end of a body, and how long it is.
#[derive(Debug, Default)]
struct Body {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    all: u64,
    head_room: usize,
    tail_room: usize,
}

impl Body {
    fn new(head_room: usize, tail_room: usize) -> Self {
        Body { head_room, tail_room, ..Body::default() }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.all += bytes.len() as u64;
        let (head, mut rest) = bytes.split_at(bytes.len().min(self.head_room - self.head.len()));
        self.head.extend_from_slice(head);
        rest = &rest[rest.len().saturating_sub(self.tail_room)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(self.tail_room);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// What is kept, as text without secrets, and how many bytes are left out of it.
    fn text(mut self, hidden: &Redactor) -> (String, u64) {
        let kept = (self.head.len() + self.tail.len()) as u64;
        let left_out = self.all - kept;
        if left_out == 0 {
            self.head.extend(self.tail);
            return (hidden.piece(&String::from_utf8_lossy(&self.head)).into_owned(), 0);
        }
        // A character that the cut went through reads as the mark of a broken one.
        let head = String::from_utf8_lossy(&self.head);
        let tail = self.tail.make_contiguous();
        let tail = String::from_utf8_lossy(tail);
        let gap = plural(usize::try_from(left_out).unwrap_or(usize::MAX), "byte");
        (format!("{}\n[… {gap} left out …]\n{}", hidden.piece(&head), hidden.piece(&tail)), left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_body_keeps_its_start_and_its_end_and_no_piece_of_a_key() {
        let hidden = Redactor::new(["sk-0123456789"]);
        let text: Vec<u8> = [&b"start sk-0123456789 "[..], &[b'.'; 100], b" sk-0123456789 end"].concat();
        for step in [1, 3, 7, text.len()] {
            let mut whole = Body::new(1_000, 10);
            text.chunks(step).for_each(|chunk| whole.push(chunk));
            let (shown, left_out) = whole.text(&hidden);
            assert_eq!((shown, left_out), (format!("start *** {} *** end", ".".repeat(100)), 0));

            let mut cut = Body::new(15, 12);
            text.chunks(step).for_each(|chunk| cut.push(chunk));
            let (shown, left_out) = cut.text(&hidden);
            assert_eq!(shown, "start ***\n[… 111 bytes left out …]\n*** end");
            assert_eq!(left_out, 111);
        }
    }

    #[test]
    fn any_bytes_give_text() {
        let mut body = Body::new(4, 4);
        body.push(&[0xff, 0xc3, 0x28, 0xe4, 0xb8, 0xad, 0xe4, 0xb8, 0xad, 0xe4, 0xb8, 0xad]);
        let (shown, left_out) = body.text(&Redactor::default());
        assert!(shown.contains("[… 4 bytes left out …]"), "{shown}");
        assert_eq!(left_out, 4);
    }
}
