//! `countersign completions`: what a shell needs to complete our commands.

use clap::CommandFactory as _;
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::args::Cli;
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::screen;

const EXAMPLES: &str = "\
Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh  > ~/.zfunc/_countersign        with ~/.zfunc in $fpath
  countersign completions fish > ~/.config/fish/completions/countersign.fish
  countersign completions powershell >> $PROFILE";

/// Print what a shell needs to complete commands and options
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut Cli::command(), "countersign", &mut script);
    if context.json {
        let script = String::from_utf8_lossy(&script);
        screen::json(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        // Ours from the first byte to the last, and read by a shell: nothing in it is made harmless.
        screen::bytes(&script)?;
    }
    Ok(Ending::Done)
}
