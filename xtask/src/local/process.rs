//! Starting servers and ending them, each with everything it started.
//!
//! A server is the first of a process group of its own, so that the group's number is its own. What is left
//! running for a person is found again by that number; what runs for a test is on a leash, and ends with
//! whoever holds the other end, however that ends. LocalStack starts its Java in another group and may leave it
//! behind: where there is a `/proc`, whoever's command line names a server's files ends with it.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::trouble::{Trouble, on};

/// How long a server may take to end when asked to. LocalStack ends its own children meanwhile.
const END_WITHIN: Duration = Duration::from_secs(10);

/// How often one looks.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Runs a server until it ends or standard input does, which it does when its writer is gone, whatever killed
/// it. Then the group is asked to end, and after ten seconds made to, with whoever works in its directory. The trap
/// keeps this shell for the second part; a signal that is caught here is not caught in its children.
const LEASH: &str = r#"
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

/// Starts a server that goes on when we end.
pub(crate) fn start(mut command: Command, log: &Path) -> Result<Child, Trouble> {
    command.stdin(Stdio::null());
    spawn(&mut command, log)
}

/// A server that ends when this does.
pub(crate) struct Leashed(Child);

impl Leashed {
    /// Starts it.
    pub(crate) fn start(command: &Command, log: &Path) -> Result<Self, Trouble> {
        let mut leash = Command::new("sh");
        leash.args(["-c", LEASH, "leash"]).arg(command.get_program()).args(command.get_args());
        if let Some(directory) = command.get_current_dir() {
            leash.current_dir(directory);
        }
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => leash.env(name, value),
                None => leash.env_remove(name),
            };
        }
        spawn(leash.stdin(Stdio::piped()), log).map(Self)
    }

    /// The process that stands for it.
    pub(crate) fn child(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Leashed {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        // The leash is bounded, and ends by killing itself; how it ended says nothing.
        drop(self.0.wait());
    }
}

fn spawn(command: &mut Command, log: &Path) -> Result<Child, Trouble> {
    let file = File::create(log).map_err(on("create", log))?;
    let also = file.try_clone().map_err(on("open", log))?;
    own_group(command);
    let shown = command.get_program().to_string_lossy().into_owned();
    let started = command.stdout(file).stderr(also).spawn();
    started.map_err(|error| Trouble::new(format!("{shown} did not start: {error}")))
}

#[cfg(unix)]
fn own_group(command: &mut Command) {
    std::os::unix::process::CommandExt::process_group(command, 0);
}

/// There are no groups; `up` says before this that it cannot work here.
#[cfg(not(unix))]
fn own_group(_: &mut Command) {}

/// Ends the group that `pid` is, or was, the first of, and whoever works in its `files`.
pub(crate) fn stop(pid: u32, home: &Path, files: &Path) {
    if is_a_strangers(pid, home) {
        return;
    }
    signal("TERM", pid);
    let began = Instant::now();
    while is_ours(pid, home) && began.elapsed() < END_WITHIN {
        std::thread::sleep(LOOK_EVERY);
    }
    // Those of the group who did not listen. A number that names nobody any more is no mistake.
    signal("KILL", pid);
    for stray in strays(files) {
        kill(&format!("KILL {stray}"));
    }
}

/// Whoever's command line names something in `files`.
fn strays(files: &Path) -> Vec<u32> {
    let inside = format!("{}/", files.display());
    let processes = Path::new("/proc").read_dir().into_iter().flatten().flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    numbers.filter(|pid| command_line(*pid).is_some_and(|line| line.contains(&inside))).collect()
}

/// Whether `pid` is a server of ours: numbers are given again, so its command line must name our directory. A
/// process that has ended and that nobody has asked about has no command line.
pub(crate) fn is_ours(pid: u32, home: &Path) -> bool {
    command_line(pid).is_some_and(|line| line.contains(&*home.to_string_lossy()))
}

/// Whether there is a process of this number.
pub(crate) fn exists(pid: u32) -> bool {
    command_line(pid).is_some_and(|line| !line.trim().is_empty())
}

/// Whether the number was given to somebody else since. While the group lives, it is not.
fn is_a_strangers(pid: u32, home: &Path) -> bool {
    exists(pid) && !is_ours(pid, home)
}

fn command_line(pid: u32) -> Option<String> {
    match std::fs::read(format!("/proc/{pid}/cmdline")) {
        Ok(line) => Some(String::from_utf8_lossy(&line).replace('\0', " ")),
        Err(_) if Path::new("/proc/self").exists() => None,
        Err(_) => asked_of_ps(pid),
    }
}

/// Where there is no `/proc`, as on a Mac.
fn asked_of_ps(pid: u32) -> Option<String> {
    let output = Command::new("ps").args(["-ww", "-o", "args=", "-p", &pid.to_string()]).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// By the shell's own `kill`: the program of that name is not everywhere.
fn signal(name: &str, group: u32) {
    kill(&format!("{name} -- -{group}"));
}

fn kill(what: &str) {
    drop(Command::new("sh").args(["-c", &format!("kill -s {what}")]).stderr(Stdio::null()).status());
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// A server that has a child, in a directory of its own.
    fn family(home: &Path) -> Command {
        let mut command = Command::new("sh");
        // The directory stands in the command line, as a real server's does.
        command.args(["-c", "sleep 600 & echo $! >\"$0/child\"; wait"]).arg(home);
        command
    }

    fn home(name: &str) -> std::path::PathBuf {
        let home = std::env::temp_dir().join(format!("xtask-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&home).unwrap();
        home
    }

    fn child_of(home: &Path) -> u32 {
        let began = Instant::now();
        loop {
            let text = std::fs::read_to_string(home.join("child")).unwrap_or_default();
            match text.trim().parse() {
                Ok(pid) => return pid,
                Err(_) if began.elapsed() < END_WITHIN => std::thread::sleep(LOOK_EVERY),
                Err(error) => panic!("no child: {error}"),
            }
        }
    }

    fn is_gone(pid: u32) -> bool {
        let began = Instant::now();
        while command_line(pid).is_some_and(|line| line.contains("sleep") || line.contains("tail")) {
            if began.elapsed() > END_WITHIN {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        true
    }

    #[test]
    fn what_is_stopped_takes_its_children_along() {
        let home = home("stop");
        let mut server = start(family(&home), &home.join("log")).ok().unwrap();
        let child = child_of(&home);
        assert!(is_ours(server.id(), &home));
        stop(server.id(), &home, &home);
        server.wait().unwrap();
        assert!(is_gone(child));
        stop(server.id(), &home, &home);
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    fn what_is_on_a_leash_ends_with_its_holder_and_takes_its_children_along() {
        let home = home("leash");
        let server = Leashed::start(&family(&home), &home.join("log")).ok().unwrap();
        let child = child_of(&home);
        drop(server);
        assert!(is_gone(child));
        std::fs::remove_dir_all(home).unwrap();
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn whoever_works_in_a_servers_files_ends_with_it_although_it_went_its_own_way() {
        let leaves = |home: &Path| {
            let mut command = Command::new("sh");
            // The server is gone at once, and its child has a group and a session of its own.
            let own_way = "touch $PWD/log; setsid tail -f \"$PWD/log\" & echo $! >\"$0/child\"; sleep 1";
            command.args(["-c", own_way]).arg(home).current_dir(home);
            command
        };
        let (up, leashed) = (home("stray-up"), home("stray-leashed"));
        let mut server = start(leaves(&up), &up.join("out")).ok().unwrap();
        let stray = child_of(&up);
        server.wait().unwrap();
        assert!(exists(stray), "it outlives its server");
        stop(server.id(), &up, &up);
        assert!(is_gone(stray));

        let server = Leashed::start(&leaves(&leashed), &leashed.join("out")).ok().unwrap();
        let stray = child_of(&leashed);
        drop(server);
        assert!(is_gone(stray));
        for home in [up, leashed] {
            std::fs::remove_dir_all(home).unwrap();
        }
    }

    #[test]
    fn a_strangers_process_is_not_ours() {
        assert!(is_a_strangers(std::process::id(), Path::new("/no/such/home")));
        assert!(!is_ours(std::process::id(), Path::new("/no/such/home")));
        assert!(!is_ours(u32::MAX, Path::new("/")));
    }
}
