//! The processes of the product. One that ends, for any reason, is replaced.

use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::process::Pid;

use crate::deployment::Deployment;

/// At most this much of the logs is kept.
const LOG_BYTES_MAX: u64 = 64 * 1024 * 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Worker,
    Server(u16),
}

struct Process {
    role: Role,
    child: Child,
}

pub(crate) struct Fleet<S> {
    deployment: Arc<S>,
    processes: Mutex<Vec<Process>>,
    log: PathBuf,
}

impl<S: Deployment> Fleet<S> {
    pub(crate) fn start(deployment: Arc<S>, ports: &[u16], log: PathBuf) -> Result<Self, String> {
        let profile = deployment.profile();
        let fleet = Self { deployment, processes: Mutex::new(Vec::new()), log };
        for port in ports {
            fleet.add(Role::Server(*port))?;
        }
        for _ in 0..profile.workers {
            fleet.add(Role::Worker)?;
        }
        Ok(fleet)
    }

    fn add(&self, role: Role) -> Result<(), String> {
        let mut command = match role {
            Role::Worker => self.deployment.worker(),
            Role::Server(port) => self.deployment.server(port),
        };
        let child =
            start(&mut command, self.log.clone()).map_err(|error| format!("start {role:?}: {error}"))?;
        self.processes.lock().push(Process { role, child });
        Ok(())
    }

    pub(crate) fn pids(&self) -> Vec<Pid> {
        self.processes.lock().iter().map(|process| Pid::from_child(&process.child)).collect()
    }

    /// The process id of the `nth` worker or server.
    pub(crate) fn pid(&self, worker: bool, nth: u64) -> Option<Pid> {
        let processes = self.processes.lock();
        let of_role: Vec<_> =
            processes.iter().filter(|process| matches!(process.role, Role::Worker) == worker).collect();
        let at = usize::try_from(nth).ok()?.checked_rem(of_role.len())?;
        Some(Pid::from_child(&of_role[at].child))
    }

    /// Replaces every process that has ended.
    pub(crate) fn replace_ended(&self) -> Result<(), String> {
        let mut ended = Vec::new();
        self.processes.lock().retain_mut(|process| {
            let is_running = matches!(process.child.try_wait(), Ok(None));
            if !is_running {
                ended.push(process.role);
            }
            is_running
        });
        ended.into_iter().try_for_each(|role| self.add(role))
    }
}

impl<S> Drop for Fleet<S> {
    fn drop(&mut self) {
        for process in self.processes.lock().iter_mut() {
            let _ = process.child.kill();
            let _ = process.child.wait();
        }
    }
}

/// Starts a program. A thread copies its log, so that a file size limit of the program does not apply to the log.
fn start(command: &mut Command, log: PathBuf) -> std::io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    if let Some(mut pipe) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut buffer = [0; 8 * 1024];
            while let Ok(read @ 1..) = pipe.read(&mut buffer) {
                let file = OpenOptions::new().create(true).append(true).open(&log);
                let Ok(mut file) = file else { continue };
                if file.metadata().is_ok_and(|metadata| metadata.len() < LOG_BYTES_MAX) {
                    let _ = file.write_all(&buffer[..read]);
                }
            }
        });
    }
    Ok(child)
}
