//! `countersign`: the command line program.
//!
//! [`verb`] has one file per command. The program holds no business rules: it parses the command line, calls the
//! API or the engine, and prints the result. Only this file reads the environment.

mod any_store;
mod api_session;
mod args;
mod common;
mod context;
mod demo;
mod dev;
mod error;
mod escape;
mod http_server;
mod input;
mod keys;
mod new_file;
mod process;
mod profile;
mod progress;
mod random;
mod run_name;
mod screen;
mod shutdown;
mod start_run;
mod telemetry;
mod verb;

use std::env;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use args::Cli;
use context::{Context, Env};
use error::CliError;
use process::ExitStatus;

/// Faster than the allocator of libc for many small objects on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = Cli::parse_from(args::with_help_option(env::args_os()));
    let json = cli.common.json;
    let context = Context::new(cli.common, process_env());
    let ended = context.and_then(|context| run(cli.command, &context));
    ended.unwrap_or_else(|error| error.report(json)).into()
}

/// A commit to DynamoDB is many calls deep. In a debug build it needs more than the two megabytes of the default.
const STACK_BYTES: usize = 8 * 1024 * 1024;

fn run(command: verb::Command, context: &Context) -> Result<ExitStatus, CliError> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_stack_size(STACK_BYTES)
        .build()
        .map_err(|source| CliError::Start { what: "the runtime", source })?;
    let context = &runtime.block_on(context.open_account())?;
    let ended = runtime.block_on(verb::run(command, Cli::command(), context));
    // Tasks that are still running were already asked to stop; do not wait for them again.
    runtime.shutdown_background();
    ended
}

fn process_env() -> Env {
    let text = |name: &str| env::var(name).ok().filter(|text| !text.is_empty());
    Env {
        store: env::var_os("COUNTERSIGN_STORE").filter(|path| !path.is_empty()).map(PathBuf::from),
        profile: text("COUNTERSIGN_PROFILE"),
        config: config_home().map(|home| home.join("countersign/config.yaml")),
        user: text("USER").or_else(|| text("LOGNAME")),
        log: text("RUST_LOG"),
        utf8: is_utf8(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(text)),
        program: env::current_exe().ok(),
        temp: env::temp_dir(),
        variable: |name| env::var(name).ok().filter(|text| !text.is_empty()),
    }
}

/// The user's configuration directory.
fn config_home() -> Option<PathBuf> {
    let path = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    path("XDG_CONFIG_HOME").or_else(|| Some(path("HOME")?.join(".config")))
}

fn is_utf8(locale: Option<String>) -> bool {
    let locale = locale.unwrap_or_default().to_ascii_lowercase();
    locale.ends_with("utf-8") || locale.ends_with("utf8")
}
