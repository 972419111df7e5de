//! Starts and stops servers together with all their child processes.
//!
//! Each server leads its own process group, so its process id identifies the group. A background server is found again
//! by that id. The server of a test runs under a supervisor shell, and stops when the test process ends for any reason.
//! LocalStack starts Java in another group and may leave it behind. Where `/proc` exists, every process whose command
//! line contains the server's working directory is killed with the server.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::error::{LocalError, io_error};

/// The time between SIGTERM and SIGKILL. LocalStack stops its own children meanwhile.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Runs a server until it exits or until standard input is closed, which happens when the owning process ends for any
/// reason. Then sends SIGTERM to the group, and after ten seconds SIGKILL, also to every process whose command line
/// contains the working directory. The trap keeps this shell alive for the second part; children do not inherit it.
const SUPERVISOR: &str = r#"
trap : TERM
exec 3<&0
"$@" 3<&- </dev/null &
server=$!
{ cat <&3 >/dev/null; kill -s TERM 0; } &
wait "$server"
{ sleep 10; kill -s KILL "$server"; } &
wait "$server"
for line in /proc/[0-9]*/cmdline; do
  stray=${line#/proc/}
  stray=${stray%/cmdline}
  if [ "$stray" != "$$" ] && tr '\0' ' ' 2>/dev/null <"$line" | grep -qF -- "$PWD/"; then kill -s KILL "$stray"; fi
done
kill -s KILL 0
"#;

/// Starts a server in the background. It keeps running when this process ends.
pub(crate) fn start(mut command: Command, log: &Path) -> Result<Child, LocalError> {
    command.stdin(Stdio::null());
    spawn(&mut command, log)
}

/// A server that stops when this value is dropped or this process ends.
pub(crate) struct ScopedServer(Child);

impl ScopedServer {
    pub(crate) fn start(command: &Command, log: &Path) -> Result<Self, LocalError> {
        let mut supervisor = Command::new("sh");
        supervisor.args(["-c", SUPERVISOR, "supervisor"]).arg(command.get_program()).args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            supervisor.current_dir(directory);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => supervisor.env(name, value),
                None => supervisor.env_remove(name),
            };
        }
        spawn(supervisor.stdin(Stdio::piped()), log).map(Self)
    }

    /// The process of the supervisor, which exits with the server.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for ScopedServer {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // The supervisor ends within a bounded time and kills itself, so its exit status carries no information.
        drop(self.0.wait());
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child, LocalError> {
    let file = File::create(log).map_err(io_error("create", log))?;
    let stderr = file.try_clone().map_err(io_error("open", log))?;
    set_process_group(command);
    let program = command.get_program().to_string_lossy().into_owned();
    let spawned = command.stdout(file).stderr(stderr).spawn();
    spawned.map_err(|error| LocalError::new(format!("cannot start {program}: {error}")))
}

#[cfg(unix)]
fn set_process_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// Not reached: `up` fails earlier on systems without process groups.
#[cfg(not(unix))]
fn set_process_group(_: &mut Command) {}

/// Stops the process group of `pid` and every process that works in `files`.
pub(crate) fn stop(pid: u32, home: &Path, files: &Path) {
    if is_foreign(pid, home) {
        return;
    }
    signal_group("TERM", pid);
    let started = Instant::now();
    while is_ours(pid, home) && started.elapsed() < STOP_TIMEOUT {
        std::thread::sleep(POLL_INTERVAL);
    }
    // Kills the processes of the group that ignored SIGTERM. An error for a group that no longer exists is ignored.
    signal_group("KILL", pid);
    for stray in strays(files) {
        kill(&format!("KILL {stray}"));
    }
}

/// Processes whose command line contains a path in `files`.
fn strays(files: &Path) -> Vec<u32> {
    let inside = format!("{}/", files.display());
    let processes = Path::new("/proc").read_dir().into_iter().flatten().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| command_line(*pid).is_some_and(|line| line.contains(&inside))).collect()
}

/// Whether `pid` is one of our servers. Process ids are reused, so the command line must contain our directory. A
/// zombie has no command line.
pub(crate) fn is_ours(pid: u32, home: &Path) -> bool {
    command_line(pid).is_some_and(|line| line.contains(&*home.to_string_lossy()))
}

pub(crate) fn exists(pid: u32) -> bool {
    command_line(pid).is_some_and(|line| !line.trim().is_empty())
}

/// Whether the process id was reused by another program. This cannot happen while the group exists.
fn is_foreign(pid: u32, home: &Path) -> bool {
    exists(pid) && !is_ours(pid, home)
}

fn command_line(pid: u32) -> Option<String> {
    match std::fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(line) => Some(String::from_utf8_lossy(&line).replace('\0', " ")),
        Err(_) if Path::new("/proc/self").exists() => None,
        Err(_) => command_line_from_ps(pid),
    }
}

/// For systems without `/proc`, such as macOS.
fn command_line_from_ps(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

fn signal_group(name: &str, group: u32) {
    kill(&format!("{name} -- -{group}"));
}

/// Uses the `kill` of the shell, because the program of that name is not installed everywhere.
fn kill(arguments: &str) {
    drop(Command::new("sh").args(["-c", &format!("kill -s {arguments}")]).stderr(Stdio::null()).status());
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// A server with one child process, in its own directory.
    fn server_with_child(home: &Path) -> Command {
        let mut command = Command::new("sh");
        // The command line contains the directory, as that of a real server does.
        command.args(["-c", "sleep 600 & echo $! >\"$0/child\"; wait"]).arg(home);
        command
    }

    fn home(name: &str) -> std::path::PathBuf {
        let home = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        home
    }

    fn child_of(home: &Path) -> u32 {
        let started = Instant::now();
        loop {
            let text = std::fs::read_to_string(home.join("child")).unwrap_or_default();
            match text.trim().parse() {
                Ok(pid) => return pid,
                Err(_) if started.elapsed() < STOP_TIMEOUT => std::thread::sleep(POLL_INTERVAL),
                Err(error) => panic!("no child: {error}"),
            }
        }
    }

    fn is_gone(pid: u32) -> bool {
        let started = Instant::now();
        while command_line(pid).is_some_and(|line| line.contains("sleep") || line.contains("tail")) {
            if started.elapsed() > STOP_TIMEOUT {
                return false;
            }
            std::thread::sleep(POLL_INTERVAL);
        }
        true
    }

    #[test]
    fn stopped_server_takes_its_children_with_it() {
        let home = home("stop");
        let mut server = start(server_with_child(&home), &home.join("log")).ok().unwrap();
        let child = child_of(&home);
        assert!(is_ours(server.id(), &home));
        stop(server.id(), &home, &home);
        server.wait().unwrap();
        assert!(is_gone(child));
        stop(server.id(), &home, &home);
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn dropped_server_takes_its_children_with_it() {
        let home = home("scoped");
        let server = ScopedServer::start(&server_with_child(&home), &home.join("log")).ok().unwrap();
        let child = child_of(&home);
        drop(server);
        assert!(is_gone(child));
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn detached_child_is_killed_with_its_server() {
        let detaching = |home: &Path| {
            let mut command = Command::new("sh");
            // The server exits soon, and its child has its own group and session.
            let script = "touch $PWD/log; setsid tail -f \"$PWD/log\" & echo $! >\"$0/child\"; sleep 1";
            command.args(["-c", script]).arg(home).current_dir(home);
            command
        };
        let (background, scoped) = (home("stray-background"), home("stray-scoped"));
        let mut server = start(detaching(&background), &background.join("out")).ok().unwrap();
        let stray = child_of(&background);
        server.wait().unwrap();
        assert!(exists(stray), "the child outlives the server");
        stop(server.id(), &background, &background);
        assert!(is_gone(stray));

        let server = ScopedServer::start(&detaching(&scoped), &scoped.join("out")).ok().unwrap();
        let stray = child_of(&scoped);
        drop(server);
        assert!(is_gone(stray));
        for home in [background, scoped] {
            std::fs::remove_dir_all(home).unwrap();
        }
    }

    #[test]
    fn process_of_another_program_is_not_ours() {
        assert!(is_foreign(std::process::id(), Path::new("/no/such/home")));
        assert!(!is_ours(std::process::id(), Path::new("/no/such/home")));
        assert!(!is_ours(u32::MAX, Path::new("/")));
    }
}
