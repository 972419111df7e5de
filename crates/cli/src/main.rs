//! `countersign`: the program a person touches.
//!
//! One file per verb under [`verb`]; what several of them show of a run stands in [`telling`]. The program holds
//! no rules of its own: it reads what a person typed, asks the engine, and says in plain words what the engine
//! answered. This file is the only one that reads the environment.

mod args;
#[cfg(feature = "aws")]
mod aws;
mod config;
mod context;
mod demo;
mod dev;
mod ending;
mod error;
mod front;
mod input;
mod keys;
mod link;
mod logging;
mod metrics;
mod new_file;
mod profile;
mod progress;
mod random;
mod run_name;
mod screen;
mod so_far;
mod stop;
mod verb;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser as _;

use args::Cli;
use context::{Context, Surroundings};
use ending::Ending;
use error::CliError;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let json = cli.common.json;
    let context = Context::new(cli.common, surroundings());
    let ended = context.and_then(|context| run(cli.command, &context));
    ended.unwrap_or_else(|error| error.report(json)).into()
}

fn run(command: verb::Command, context: &Context) -> Result<Ending, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(|source| CliError::Start { what: "the runtime", source })?;
    #[cfg(feature = "aws")]
    let context = &runtime.block_on(context.on_aws())?;
    let ended = runtime.block_on(verb::run(command, context));
    // Whatever still runs now was asked to leave and did not: nobody waits for it a second time.
    runtime.shutdown_background();
    ended
}

fn surroundings() -> Surroundings {
    let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    Surroundings {
        store: env::var_os("COUNTERSIGN_STORE").filter(|path| !path.is_empty()).map(PathBuf::from),
        profile: text("COUNTERSIGN_PROFILE"),
        config: config_home().map(|home| home.join("countersign/config.yaml")),
        user: text("USER").or_else(|| text("LOGNAME")),
        log: text("RUST_LOG"),
        utf8: speaks_utf8(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text)),
        program: env::current_exe().ok(),
        temp: env::temp_dir(),
        variable: |name| env::var(name).ok().filter(|text| !text.is_empty()),
    }
}

/// Where programs keep what a person has settled.
fn config_home() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")))
}

/// Whether this locale, the first that is set of those that count, writes UTF-8.
fn speaks_utf8(locale: Option<String>) -> bool {
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}
