//! The command line and its `--help` page.

use std::ffi::OsString;

use clap::Parser;

use crate::common::Common;
use crate::verb::Command;

const EXAMPLES: &str = "\
Examples:
  countersign demo                         watch a run survive a killed worker, in ten seconds
  countersign dev                          start a local environment with fake external systems
  countersign workflow check triage.yaml   validate a workflow file
  countersign worker                       execute runs until Ctrl-C
  countersign serve --config countersign.yaml    serve the API and the console
  countersign run start triage.yaml --input '{\"ticket\": \"INC-7\"}' --follow
  countersign run list --status paused     list runs that need an operator
  countersign run show RUN                 show status, wait reason and next commands
  countersign run timeline RUN             draw the run over time
  countersign policy explain triage.yaml   show the verdict and the rule for each step
  countersign approval list                list pending approvals
  countersign cost                         show model costs by workflow
  countersign worker list                  list workers
  countersign bundle verify RUN.bundle     verify evidence; needs no store
  countersign profile add work --url https://countersign.example --key-file ~/.countersign.key
  countersign run list --profile work      list runs on a server
  countersign run undo RUN --plan          show how a finished run would be undone

Exit codes:
  0  success; a watched run succeeded
  1  refused; or the run failed, was canceled or has a broken chain of events; policy tests failed;
     evidence did not verify
  2  invalid command line, file or input; or the run does not exist
  3  the store or the server is unavailable
  4  the watched run is paused and needs an operator

Environment:
  COUNTERSIGN_STORE     store file, used without --store
  COUNTERSIGN_PROFILE   profile, used without --profile, --server and --store
  COUNTERSIGN_API_KEY   API key for a server, unless the profile names another location
  COUNTERSIGN_EVIDENCE_KEY  public keys that bundle verify and bundle show trust, used without --key
  RUST_LOG              log level: error, warn, info (default), debug, trace";

/// Run governed workflows: policy and approval before each change, no blind retries, signed evidence
#[derive(Debug, Parser)]
#[command(name = "countersign", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Reads `countersign help COMMAND` as `countersign COMMAND --help`.
pub(crate) fn with_help_option(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = args.collect();
    if args.get(1).is_some_and(|first| first == "help") {
        args.remove(1);
        args.push("--help".into());
    }
    args
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn command_line_definition_is_valid() {
        Cli::command().debug_assert();
    }

    #[test]
    fn common_options_work_before_and_after_the_verb() {
        for line in [["countersign", "--json", "run", "list"], ["countersign", "run", "list", "--json"]] {
            assert!(Cli::try_parse_from(line).unwrap().common.json);
        }
    }

    #[test]
    fn help_shows_the_page_of_a_command() {
        for (line, page) in [
            (vec!["countersign", "help"], "Exit codes:"),
            (vec!["countersign", "help", "run", "undo"], "run undo"),
        ] {
            let shown = Cli::try_parse_from(with_help_option(line.iter().map(OsString::from))).unwrap_err();
            assert_eq!(shown.kind(), clap::error::ErrorKind::DisplayHelp, "{shown}");
            assert!(shown.to_string().contains(page), "{shown}");
        }
        let other = ["countersign", "run", "list", "help"].map(OsString::from);
        assert_eq!(with_help_option(other.clone().into_iter()), other);
    }

    #[test]
    fn invalid_tenant_id_is_refused() {
        let error = Cli::try_parse_from(["countersign", "run", "list", "--tenant", "a/b"]).unwrap_err();
        assert!(error.to_string().contains("tenant id contains '/'"), "{error}");
    }
}
