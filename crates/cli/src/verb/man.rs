//! `countersign man`: manual pages, generated from the definition of the command line.

use std::path::{Path, PathBuf};
use std::{fs, io};

use clap::Command;
use clap_mangen::Man;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::screen;
use views::counted;

const EXAMPLES: &str = "\
Examples:
  countersign man | man -l -                       read the main page
  countersign man --out ~/.local/share/man/man1    then: man countersign-run-start

Existing pages are overwritten.";

/// Print the main manual page, or write a page for each command
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write a page for each command to this directory, which is created if it does not exist
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

struct Page {
    name: String,
    text: Vec<u8>,
}

pub(super) fn run(args: &Args, mut cli: Command, context: &Context) -> Result<ExitStatus, CliError> {
    cli.build();
    let Some(out) = &args.out else { return print(&cli, context) };
    let pages = pages(&cli).map_err(CliError::Print)?;
    write(out, &pages)?;
    let names: Vec<_> = pages.iter().map(|page| page.name.as_str()).collect();
    let text = format!("{} in {}", counted(pages.len(), "page"), out.display());
    context.print(&text, &json!({ "directory": out, "pages": names }))?;
    Ok(ExitStatus::Success)
}

fn print(command: &Command, context: &Context) -> Result<ExitStatus, CliError> {
    let page = page(command).map_err(CliError::Print)?;
    if context.json {
        screen::json(&json!({ "page": page.name, "text": String::from_utf8_lossy(&page.text) }))?;
    } else {
        screen::bytes(&page.text)?;
    }
    Ok(ExitStatus::Success)
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

/// The pages of `command` and of its subcommands.
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
