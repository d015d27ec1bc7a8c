//! The live screen on a terminal: [`Board`] says which lines, indicatif draws and clears them.

use super::board::Board;
use super::words::Style;
use super::{Reporter, table};
use crate::event::{Event, EventKind, Timestamp};
use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

/// Time between two drawings: fast enough to look live, slow enough to cost nothing.
const REDRAW: Duration = Duration::from_millis(100);

/// Draws live lines on standard error, lets what ended scroll above them, and ends with the table.
///
/// For terminals; where standard error is none, [`super::Plain`] is the one to use.
pub struct Progress {
    board: Board,
    term: Term,
    screen: MultiProgress,
    /// One per line that is drawn.
    lines: Vec<ProgressBar>,
    /// The latest event's time, and when it came: event time goes on between events.
    clock: (Timestamp, Instant),
    drawn: Option<Instant>,
    /// Whether the user is being asked something: nothing may be drawn over the question.
    asking: bool,
    /// Who waits for the screen before a question is put.
    questions: Option<Sender<()>>,
}

impl Progress {
    /// Draws to standard error.
    pub fn new(style: Style) -> Self {
        let term = Term::buffered_stderr();
        Progress {
            board: Board::new(style),
            screen: MultiProgress::with_draw_target(ProgressDrawTarget::term(term.clone(), 20)),
            term,
            lines: Vec::new(),
            clock: (Timestamp(0), Instant::now()),
            drawn: None,
            asking: false,
            questions: None,
        }
    }

    /// Says, once per question, when the live lines have made room for it; they come back with its answer.
    #[must_use]
    pub fn telling(mut self, questions: Sender<()>) -> Self {
        self.questions = Some(questions);
        self
    }

    fn make_room(&mut self) -> io::Result<()> {
        self.asking = true;
        self.remove_lines();
        self.screen.clear()?;
        if let Some(questions) = &self.questions {
            // Nobody waits when nobody is there to answer.
            let _ = questions.send(());
        }
        Ok(())
    }

    fn remove_lines(&mut self) {
        for line in self.lines.drain(..) {
            line.finish_and_clear();
            self.screen.remove(&line);
        }
    }

    fn draw(&mut self) {
        if self.asking || self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
            return;
        }
        self.drawn = Some(Instant::now());
        let (rows, columns) = self.term.size();
        let now = Timestamp(self.clock.0.0 + self.clock.1.elapsed().as_millis() as u64);
        // The last column stays free: some terminals wrap when it is written.
        let texts = self.board.lines(now, usize::from(columns).saturating_sub(1), usize::from(rows) / 2 + 1);
        while self.lines.len() > texts.len()
            && let Some(line) = self.lines.pop()
        {
            line.finish_and_clear();
            self.screen.remove(&line);
        }
        while self.lines.len() < texts.len() {
            let line = ProgressBar::new_spinner();
            // A template of one placeholder is always valid; the default style would do.
            let bare = ProgressStyle::with_template("{msg}").unwrap_or_else(|_| ProgressStyle::default_spinner());
            self.lines.push(self.screen.add(line.with_style(bare)));
        }
        for (line, text) in self.lines.iter().zip(texts) {
            line.set_message(text);
        }
    }
}

impl Reporter for Progress {
    fn event(&mut self, event: &Event) -> io::Result<()> {
        self.clock = (event.at, Instant::now());
        let line = self.board.event(event);
        if matches!(event.kind, EventKind::ApprovalAsked { .. }) {
            // The question itself is put by whoever takes the answer.
            return self.make_room();
        }
        self.asking &= !matches!(event.kind, EventKind::ApprovalAnswered { .. });
        if let Some(line) = line {
            if self.asking {
                // The cursor is behind the question.
                self.term.write_line("")?;
            }
            self.screen.println(line)?;
        }
        self.draw();
        Ok(())
    }

    fn tick_every(&self) -> Option<Duration> {
        Some(REDRAW)
    }

    fn tick(&mut self) -> io::Result<()> {
        self.draw();
        Ok(())
    }

    fn end(&mut self) -> io::Result<()> {
        self.remove_lines();
        self.screen.clear()?;
        let columns = usize::from(self.term.size().1);
        self.term.write_str(&table(&self.board.summary, Some(columns)))?;
        self.term.flush()
    }
}
