//! The live screen on a terminal: [`Board`] says which lines, indicatif draws and clears them.

use super::board::Board;
use super::words::Style;
use super::{Reporter, table};
use crate::event::{Event, Timestamp};
use console::Term;
use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io;
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
        }
    }

    fn draw(&mut self) {
        if self.drawn.is_some_and(|drawn| drawn.elapsed() < REDRAW) {
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
        if let Some(line) = self.board.event(event) {
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
        for line in self.lines.drain(..) {
            line.finish_and_clear();
        }
        self.screen.clear()?;
        let columns = usize::from(self.term.size().1);
        self.term.write_str(&table(&self.board.summary, Some(columns)))?;
        self.term.flush()
    }
}
