//! Prints the demo: numbered sections with paragraphs, blocks and quotes.

use std::io;

use tokio::task::spawn_blocking;

use crate::error::CliError;
use crate::screen;
use views::table::{indented, wrapped};

/// Fits a terminal of 100 columns.
const WIDTH: usize = 94;

/// The indent below the title of a section.
const INDENT: usize = 4;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NarrationMode {
    /// Prints nothing, for `--json`.
    Silent,
    Continuous,
    /// Waits for Enter between sections.
    Paused,
}

pub(super) struct Narrator {
    mode: NarrationMode,
    sections: u32,
    /// Whether the title of a section was printed last; no empty line follows it.
    below_title: bool,
}

impl Narrator {
    pub(super) fn new(mode: NarrationMode) -> Self {
        Self { mode, sections: 0, below_title: true }
    }

    /// Prints an underlined title.
    pub(super) fn title(&mut self, title: &str) -> Result<(), CliError> {
        self.print(&format!("{title}\n{}\n", "=".repeat(title.chars().count())))
    }

    /// Starts a numbered section.
    pub(super) async fn section(&mut self, title: &str) -> Result<(), CliError> {
        self.pause().await?;
        self.sections += 1;
        self.print(&format!("{:>2}. {title}\n", self.sections))?;
        self.below_title = true;
        Ok(())
    }

    /// Prints a paragraph.
    pub(super) fn paragraph(&mut self, text: &str) -> Result<(), CliError> {
        self.print(&indented(&wrapped(text, WIDTH), INDENT))
    }

    /// Prints a block without wrapping it.
    pub(super) fn block(&mut self, text: &str) -> Result<(), CliError> {
        self.below_title = false;
        self.print(&indented(text, INDENT))
    }

    /// Prints output of another system, wrapped, with a vertical line on its left.
    pub(super) fn quote(&mut self, text: &str) -> Result<(), CliError> {
        let lines = wrapped(text, WIDTH - 2);
        self.block(&lines.lines().flat_map(|line| ["│ ", line, "\n"]).collect::<String>())
    }

    async fn pause(&mut self) -> Result<(), CliError> {
        if self.mode != NarrationMode::Paused || self.sections == 0 {
            return Ok(());
        }
        self.print("    (Enter)")?;
        // Enter prints the empty line before the section.
        self.below_title = true;
        // On its own thread, so that Ctrl-C still works.
        let read = spawn_blocking(|| io::stdin().read_line(&mut String::new())).await;
        let read = read.map_err(io::Error::other).flatten();
        read.map(|_| ()).map_err(|source| CliError::Read { path: "standard input".into(), source })
    }

    /// Prints the text after an empty line.
    fn print(&mut self, text: &str) -> Result<(), CliError> {
        let gap = if self.below_title { "" } else { "\n" };
        self.below_title = false;
        if self.mode == NarrationMode::Silent { Ok(()) } else { screen::text(&format!("{gap}{text}")) }
    }
}
