//! `countersign man`: the manual, from the same description that the command line is read by.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::{Command, CommandFactory as _};
use clap_mangen::Man;
use serde_json::json;

use crate::args::Cli;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::screen;
use views::counted;

const EXAMPLES: &str = "\
Examples:
  countersign man | man -l -                       read the first page
  countersign man --out ~/.local/share/man/man1    then: man countersign-run-start

Pages that are there already are written again.";

/// Print the manual, or write a page for each command
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write a page for each command into this directory; it is made if it is not there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// One page of the manual.
struct Page {
    name: String,
    text: Vec<u8>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let mut command = Cli::command();
    command.build();
    let Some(out) = &args.out else { return print(&command, context) };
    let pages = pages(&command).map_err(CliError::Print)?;
    write(out, &pages)?;
    let names: Vec<_> = pages.iter().map(|page| page.name.as_str()).collect();
    let text = format!("{} in {}", counted(pages.len(), "page"), out.display());
    context.answer(&text, &json!({ "directory": out, "pages": names }))?;
    Ok(Ending::Done)
}

fn print(command: &Command, context: &Context) -> Result<Ending, CliError> {
    let page = page(command).map_err(CliError::Print)?;
    if context.json {
        screen::json(&json!({ "page": page.name, "text": String::from_utf8_lossy(&page.text) }))?;
    } else {
        screen::bytes(&page.text)?;
    }
    Ok(Ending::Done)
}

fn write(out: &Path, pages: &[Page]) -> Result<(), CliError> {
    let failed = |path: PathBuf| |source| CliError::Write { path, source };
    fs::create_dir_all(out).map_err(failed(out.into()))?;
    for page in pages {
        let path = out.join(&page.name);
        fs::write(&path, &page.text).map_err(failed(path.clone()))?;
    }
    Ok(())
}

/// The page of `command` and those of everything below it.
fn pages(command: &Command) -> io::Result<Vec<Page>> {
    let mut all = vec![page(command)?];
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        all.extend(pages(below)?);
    }
    Ok(all)
}

fn page(command: &Command) -> io::Result<Page> {
    let name = command.get_display_name().unwrap_or_else(|| command.get_name()).to_owned();
    let mut text = Vec::new();
    Man::new(command.clone()).render(&mut text)?;
    Ok(Page { name: format!("{name}.1"), text })
}
