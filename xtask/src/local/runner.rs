//! Runs slow commands: their output goes to a log file, and progress is printed.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::stages::format_duration;

use super::error::{LocalError, io_error};

/// The longest installation, LocalStack, takes two minutes on a good connection.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(15);

/// The interval of progress messages.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(10);

const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the command to its end. `action` describes it in messages.
pub(crate) fn run(action: &str, mut command: Command, log: &Path) -> Result<(), LocalError> {
    eprintln!("{action} …");
    let file = File::create(log).map_err(io_error("create", log))?;
    let stderr = file.try_clone().map_err(io_error("open", log))?;
    let started = Instant::now();
    let spawned = command.stdin(Stdio::null()).stdout(file).stderr(stderr).spawn();
    let mut child = spawned.map_err(|error| LocalError::new(format!("{action}: did not start: {error}")))?;
    let failed = |reason: String| LocalError::new(format!("{action}: {reason}")).with_log(log);
    let status = wait(action, &mut child, started).map_err(failed)?;
    if status.success() {
        eprintln!("{action}: done, {}", format_duration(started.elapsed()));
        return Ok(());
    }
    Err(failed(status.to_string()))
}

/// Runs a command that needs the network. The error mentions mirrors.
pub(crate) fn download(action: &str, command: Command, log: &Path) -> Result<(), LocalError> {
    run(action, command, log).map_err(|error| {
        LocalError::new(format!(
            "{}\non a closed network, configure a mirror for pip, npm, apt or uv",
            error.message()
        ))
    })
}

fn wait(action: &str, child: &mut Child, started: Instant) -> Result<ExitStatus, String> {
    let mut last_message = started;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("cannot read its status: {error}"))? {
            return Ok(status);
        }
        if started.elapsed() > COMMAND_TIMEOUT {
            drop(child.kill());
            drop(child.wait());
            return Err(format!("timed out after {}", format_duration(COMMAND_TIMEOUT)));
        }
        if last_message.elapsed() >= PROGRESS_INTERVAL {
            last_message = Instant::now();
            eprintln!("{action}: {}", format_duration(started.elapsed()));
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}

/// The standard output of a short command, if it succeeds.
pub(crate) fn stdout_of(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
