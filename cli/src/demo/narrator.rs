//! Who tells the story: numbered scenes, short paragraphs, things shown.

use crate::error::CliError;
use crate::screen;
use crate::table::{indented, wrapped};

/// What is told must fit a terminal of 100 columns.
const WIDTH: usize = 94;

/// Everything under a scene's title is moved in by this much.
const INDENT: usize = 4;

/// Tells the story; silent if a program is listening.
pub(super) struct Narrator {
    silent: bool,
    scenes: u32,
    /// Whether a scene's title was the last thing told: what follows it stands right below.
    below_title: bool,
}

impl Narrator {
    pub(super) fn new(silent: bool) -> Self {
        Self { silent, scenes: 0, below_title: true }
    }

    /// A line above everything that follows.
    pub(super) fn title(&mut self, title: &str) -> Result<(), CliError> {
        self.print(&format!("{title}\n{}\n", "=".repeat(title.chars().count())))
    }

    /// Begins a scene.
    pub(super) fn scene(&mut self, title: &str) -> Result<(), CliError> {
        self.scenes += 1;
        self.print(&format!("{:>2}. {title}\n", self.scenes))?;
        self.below_title = true;
        Ok(())
    }

    /// A paragraph.
    pub(super) fn say(&mut self, text: &str) -> Result<(), CliError> {
        self.print(&indented(&wrapped(text, WIDTH), INDENT))
    }

    /// Something to look at, as it is.
    pub(super) fn show(&mut self, block: &str) -> Result<(), CliError> {
        self.below_title = false;
        self.print(&indented(block, INDENT))
    }

    /// Prints with one empty line before it.
    fn print(&mut self, text: &str) -> Result<(), CliError> {
        let gap = if self.below_title { "" } else { "\n" };
        self.below_title = false;
        if self.silent { Ok(()) } else { screen::text(&format!("{gap}{text}")) }
    }
}
