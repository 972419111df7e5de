//! Who tells the story: numbered scenes, short paragraphs, things shown.

use std::io;

use tokio::task::spawn_blocking;

use crate::error::CliError;
use crate::screen;
use views::table::{indented, wrapped};

/// What is told must fit a terminal of 100 columns.
const WIDTH: usize = 94;

/// Everything under a scene's title is moved in by this much.
const INDENT: usize = 4;

/// How the story is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Telling {
    /// Not at all: a program is listening.
    Silent,
    /// In one go.
    Straight,
    /// Somebody at the keyboard says when to go on.
    Paused,
}

/// Tells the story.
pub(super) struct Narrator {
    telling: Telling,
    scenes: u32,
    /// Whether a scene's title was the last thing told: what follows it stands right below.
    below_title: bool,
}

impl Narrator {
    pub(super) fn new(telling: Telling) -> Self {
        Self { telling, scenes: 0, below_title: true }
    }

    /// A line above everything that follows.
    pub(super) fn title(&mut self, title: &str) -> Result<(), CliError> {
        self.print(&format!("{title}\n{}\n", "=".repeat(title.chars().count())))
    }

    /// Begins a scene.
    pub(super) async fn scene(&mut self, title: &str) -> Result<(), CliError> {
        self.pause().await?;
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

    /// What somebody else says: in lines that fit, with a line down the left side.
    pub(super) fn quote(&mut self, text: &str) -> Result<(), CliError> {
        let lines = wrapped(text, WIDTH - 2);
        self.show(&lines.lines().flat_map(|line| ["│ ", line, "\n"]).collect::<String>())
    }

    /// Waits for Enter between scenes, if somebody wants that.
    async fn pause(&mut self) -> Result<(), CliError> {
        if self.telling != Telling::Paused || self.scenes == 0 {
            return Ok(());
        }
        self.print("    (Enter)")?;
        // The empty line that Enter makes stands for the gap before the scene.
        self.below_title = true;
        // On a thread of its own, so that Ctrl-C is still heard.
        let read = spawn_blocking(|| io::stdin().read_line(&mut String::new())).await;
        let read = read.map_err(io::Error::other).flatten();
        read.map(|_| ()).map_err(|source| CliError::Read { path: "standard input".into(), source })
    }

    /// Prints with one empty line before it.
    fn print(&mut self, text: &str) -> Result<(), CliError> {
        let gap = if self.below_title { "" } else { "\n" };
        self.below_title = false;
        if self.telling == Telling::Silent { Ok(()) } else { screen::text(&format!("{gap}{text}")) }
    }
}
