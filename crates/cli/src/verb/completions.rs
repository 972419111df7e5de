//! `countersign completions`.

use clap::Command;
use clap_complete::{Shell, generate};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::screen;

const EXAMPLES: &str = "\
Examples:
  countersign completions bash > ~/.local/share/bash-completion/completions/countersign
  countersign completions zsh  > ~/.zfunc/_countersign        with ~/.zfunc in $fpath
  countersign completions fish > ~/.config/fish/completions/countersign.fish
  countersign completions powershell >> $PROFILE";

/// Print a shell completion script
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(super) fn run(args: &Args, mut cli: Command, context: &Context) -> Result<ExitStatus, CliError> {
    let mut script = Vec::new();
    generate(args.shell, &mut cli, "countersign", &mut script);
    if context.json {
        let script = String::from_utf8_lossy(&script);
        screen::json(&json!({ "shell": args.shell.to_string(), "script": script }))?;
    } else {
        // A shell reads the script, which contains no untrusted text.
        screen::bytes(&script)?;
    }
    Ok(ExitStatus::Success)
}
