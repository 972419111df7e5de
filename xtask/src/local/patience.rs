//! Running what takes a while: its output goes to a log, and whoever waits is told now and then.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::trouble::{Trouble, on};

/// How long an installation may take. LocalStack's takes two minutes over a good line.
const DONE_WITHIN: Duration = Duration::from_mins(15);

/// How often whoever waits is told so.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// How often one looks.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs it to its end; `what` says what is being done.
pub(crate) fn run(what: &str, mut command: Command, log: &Path) -> Result<(), Trouble> {
    eprintln!("{what} …");
    let file = File::create(log).map_err(on("create", log))?;
    let also = file.try_clone().map_err(on("open", log))?;
    let began = Instant::now();
    let started = command.stdin(Stdio::null()).stdout(file).stderr(also).spawn();
    let mut child = started.map_err(|error| Trouble::new(format!("{what}: did not start: {error}")))?;
    let failed = |why: String| Trouble::new(format!("{what}: {why}")).with_log(log);
    let status = watch(what, &mut child, began).map_err(failed)?;
    if status.success() {
        eprintln!("{what}: done, {:.1} s", began.elapsed().as_secs_f64());
        return Ok(());
    }
    Err(failed(status.to_string()))
}

/// The same for what comes over the network.
pub(crate) fn fetch(what: &str, command: Command, log: &Path) -> Result<(), Trouble> {
    run(what, command, log).map_err(|trouble| {
        Trouble::new(format!(
            "{}\non a closed network: pip, npm, apt and uv each have a setting that names a mirror",
            trouble.why()
        ))
    })
}

fn watch(what: &str, child: &mut Child, began: Instant) -> Result<ExitStatus, String> {
    let mut told = began;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("was lost: {error}"))? {
            return Ok(status);
        }
        if began.elapsed() > DONE_WITHIN {
            drop(child.kill());
            drop(child.wait());
            return Err(format!("not done within {} s", DONE_WITHIN.as_secs()));
        }
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            eprintln!("{what}: {} s", began.elapsed().as_secs());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What a short command says on its standard output, if it succeeds.
pub(crate) fn said(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}
