//! The command line as a whole: what stands before the verb, and the page that `--help` shows.

use std::path::PathBuf;

use clap::{Args, Parser};
use domain::{PersonId, TenantId};
use url::Url;

use crate::profile::ProfileName;
use crate::verb::Command;

const EXAMPLES: &str = "\
Examples:
  countersign demo                         see a worker killed, and nothing lost or done twice
  countersign dev                          keep it all running here, and press the buttons yourself
  countersign workflow check triage.yaml   is the file right? if not: line, column, way out
  countersign worker                       work on runs until Ctrl-C
  countersign serve --config countersign.yaml    the API and the console, beside workers
  countersign run start triage.yaml --input '{\"ticket\": \"INC-7\"}' --follow
  countersign run list --status paused     which runs need a person?
  countersign run show RUN                 where it stands, why it waits, what to type
  countersign run timeline RUN             the same over time, drawn
  countersign policy explain triage.yaml   what would policy say, and by which rule?
  countersign approval list                what are people asked?
  countersign cost                         what have runs paid for models?
  countersign worker list                  which workers are there?
  countersign bundle verify RUN.bundle     is this evidence genuine? needs no store
  countersign profile add work --url https://countersign.example --key-file ~/.countersign.key
  countersign run list --profile work      the same on a server
  countersign run undo RUN --plan          how would a finished run be taken back?

Exit codes:
  0  it was done; a watched run succeeded
  1  it was refused, or the run failed, was canceled, or its chain of events is broken; tests of a
     policy failed; evidence did not verify
  2  the command line, a file or an input is wrong, or there is no such run
  3  the store or the server could not be used
  4  the watched run is paused and waits for an operator

Environment:
  COUNTERSIGN_STORE     the store's file, if --store is not given
  COUNTERSIGN_PROFILE   the profile, if neither --profile, --server nor --store is given
  COUNTERSIGN_API_KEY   the key for a server, unless its profile names another place
  RUST_LOG              what the worker logs: error, warn, info (default), debug, trace";

/// Runs workflows so that whatever dies, nothing is lost, and nothing outside happens twice unless a person
/// said so.
#[derive(Debug, Parser)]
#[command(name = "countersign", version, after_help = EXAMPLES, arg_required_else_help = true)]
#[command(max_term_width = 100, disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) common: Common,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What every command takes.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// The file that holds runs, queue and payloads [default: `countersign.db`]
    #[arg(long, global = true, value_name = "FILE", help_heading = "Common options")]
    pub(crate) store: Option<PathBuf>,
    /// The server whose API is spoken to, instead of a store on this machine
    #[arg(long, global = true, value_name = "URL", conflicts_with_all = ["store", "profile"], help_heading = "Common options")]
    pub(crate) server: Option<Url>,
    /// The server of this profile (see `countersign profile`)
    #[arg(
        long,
        global = true,
        value_name = "NAME",
        conflicts_with = "store",
        help_heading = "Common options"
    )]
    pub(crate) profile: Option<ProfileName>,
    /// AWS instead of a file: the stand-in that `COUNTERSIGN_AWS` names, or else the account whose table, queues and
    /// buckets `COUNTERSIGN_TABLE` and its neighbours name; takes a program that was built with `--features aws`
    #[arg(long, global = true, conflicts_with_all = ["store", "server", "profile"], help_heading = "Common options")]
    pub(crate) aws: bool,
    /// Whose runs are meant [default: `default`, or the tenant of the key for a server]
    #[arg(long, global = true, value_name = "TENANT", help_heading = "Common options")]
    pub(crate) tenant: Option<TenantId>,
    /// Who is asking: whoever starts a run cannot approve it [default: the user of this shell]
    #[arg(long = "as", global = true, value_name = "NAME", help_heading = "Common options")]
    pub(crate) user: Option<PersonId>,
    /// Print JSON for programs instead of text for people
    #[arg(long, global = true, help_heading = "Common options")]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn common_options_may_stand_before_or_after_the_verb() {
        for line in [["countersign", "--json", "run", "list"], ["countersign", "run", "list", "--json"]] {
            assert!(Cli::try_parse_from(line).unwrap().common.json);
        }
    }

    #[test]
    fn a_tenant_that_is_no_id_is_refused_where_it_is_typed() {
        let error = Cli::try_parse_from(["countersign", "run", "list", "--tenant", "a/b"]).unwrap_err();
        assert!(error.to_string().contains("tenant id holds '/'"), "{error}");
    }
}
