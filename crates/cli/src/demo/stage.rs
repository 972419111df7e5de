//! Where the demo is played: a directory with a store in it, an outside world, and workers that are real
//! processes.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use connectors::{Allow, Settings};
use domain::{IdempotencyKey, RunKey, RunRecord};
use engine::Engine;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::{Governance as _, Ledger as _, SqliteStore};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::context::{Context, Goes};
use crate::dev::world::{CREDENTIALS, Ports, World, listen, tenant_of};
use crate::error::CliError;
use crate::front::served::Served;
use crate::input::read_workflow;
use crate::random;
use crate::verb::{Wish, start};
use views::Seen;

use super::desk::Desk;

/// How long a worker holds a step without a sign of life. Short, so that nobody waits long for a take-over.
pub(super) const LEASE: &str = "2s";
const HEARTBEAT: &str = "500ms";

/// Everything that is waited for takes two or three seconds; on a machine that is busy, a few more.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often something is looked at while it is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(25);

/// How often a name for the directory is thought up before giving up.
const NAMES_MAX: u32 = 16;

/// Who starts the runs of the demo.
const REQUESTER: &str = "ada";

/// The stage.
pub(super) struct Stage {
    pub(super) directory: PathBuf,
    pub(super) desk: Desk,
    pub(super) world: World,
    /// Where Slack delivers clicks.
    pub(super) door: Served,
    pub(super) engine: Arc<Engine<SqliteStore>>,
    pub(super) context: Context,
    program: PathBuf,
    config: PathBuf,
}

/// A worker: another process on the same store.
pub(super) struct WorkerProcess {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl Stage {
    /// Sets the stage in `keep`, or in a directory of its own under the one for temporary files.
    pub(super) async fn set(keep: Option<&Path>, context: &Context) -> Result<Self, CliError> {
        let mut surroundings = context.surroundings.clone();
        let unknown = || CliError::Demo("this program cannot find its own file to start workers from".into());
        let program = surroundings.program.clone().ok_or_else(unknown)?;
        let directory = match keep {
            Some(directory) => new_directory(directory)?,
            None => temporary_directory(&surroundings.temp)?,
        };
        surroundings.user = Some(REQUESTER.to_owned());
        let context =
            Context { store: directory.join("demo.db"), goes: Goes::Store, surroundings, ..context.clone() };
        let desk =
            Desk::open().await.map_err(|source| CliError::Start { what: "the service desk", source })?;
        let engine = Arc::new(context.engine()?);
        engine.store().put_tenant(tenant_of(context.tenant.clone())?).await?;
        let world = World::open(Ports::default()).await?;
        let doors = [world.door(context.tenant.clone())?].into_iter().collect();
        let clicks = ingress::served::slack(Arc::clone(&engine), doors);
        let door = Served::start(listen(0, "the route for clicks").await?, clicks)?;
        let config = write(&directory, "countersign.yaml", world.config())?;
        Ok(Self { directory, desk, world, door, engine, context, program, config })
    }

    /// Writes a file into the directory.
    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf, CliError> {
        write(&self.directory, name, bytes)
    }

    /// Starts a run of the workflow at `path`, as `countersign run start` would.
    pub(super) async fn start(&self, path: &Path, key: &str, input: Value) -> Result<RunKey, CliError> {
        let plan = read_workflow(path, &connectors::standard(Allow::default(), Settings::default()))?;
        let key = IdempotencyKey::new(key).map_err(|error| CliError::Demo(error.to_string()))?;
        Ok(start(&self.engine, Wish { plan, input, key, record: None }, &self.context).await?.run)
    }

    /// Starts a worker, as `countersign worker` in another terminal would.
    pub(super) fn worker(&self, name: &'static str) -> Result<WorkerProcess, CliError> {
        let log = self.directory.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|source| CliError::Write { path: log.clone(), source })?;
        let child = Command::new(&self.program)
            .arg("--store")
            .arg(&self.context.store)
            .args(["worker", "--name", name, "--lease", LEASE, "--heartbeat", HEARTBEAT])
            .args(["--allow-host", &self.desk.address().to_string(), "--config"])
            .arg(&self.config)
            .envs(CREDENTIALS)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(file)
            .kill_on_drop(true)
            .spawn()
            .map_err(|source| CliError::Start { what: "a worker process", source })?;
        Ok(WorkerProcess { name, child, log })
    }

    /// The run as the ledger has it now.
    pub(super) async fn look(&self, run: &RunKey) -> Result<Seen, CliError> {
        Ok(Seen::look(&self.engine, run, self.context.hints()).await?)
    }

    /// Waits until the run stands as `wanted` says.
    pub(super) async fn until(
        &self,
        run: &RunKey,
        worker: &WorkerProcess,
        wanted: impl Fn(&RunRecord) -> bool,
    ) -> Result<(), CliError> {
        let look = async {
            loop {
                let record = self.engine.store().load(run).await?;
                if record.is_some_and(|record| wanted(&record)) {
                    return Ok(());
                }
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(PATIENCE, look).await.unwrap_or_else(|_| Err(worker.stuck("got the run no further")))
    }
}

impl WorkerProcess {
    /// The process's number, as `ps` shows it.
    pub(super) fn process(&self) -> String {
        self.child.id().map_or_else(|| "gone".to_owned(), |id| id.to_string())
    }

    /// Waits until the worker has brought about what `reached` tells of.
    pub(super) async fn bring_about(&self, reached: oneshot::Receiver<()>) -> Result<(), CliError> {
        match timeout(PATIENCE, reached).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(CliError::Demo("the service desk has closed".into())),
            Err(_) => Err(self.stuck("did not reach the service desk")),
        }
    }

    /// Waits until `look` sees `what`, which the worker is to bring about.
    pub(super) async fn see<T>(&self, what: &str, look: impl Fn() -> Option<T>) -> Result<T, CliError> {
        let look = async {
            loop {
                if let Some(seen) = look() {
                    return seen;
                }
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(PATIENCE, look).await.map_err(|_| self.stuck(&format!("did not bring about {what}")))
    }

    /// Kills it with SIGKILL, which no process can catch, and waits until it is gone.
    pub(super) async fn kill(mut self) -> Result<(), CliError> {
        let killed = self.child.kill().await;
        killed.map_err(|error| CliError::Demo(format!("{} could not be killed: {error}", self.name)))
    }

    /// Asks it to leave, as an operator would, and waits until it has finished what it was doing.
    pub(super) async fn leave(mut self) -> Result<(), CliError> {
        let process = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let process = process.ok_or_else(|| self.stuck("ended by itself"))?;
        kill_process(process, Signal::TERM)
            .map_err(|error| self.stuck(&format!("could not be asked to leave: {error}")))?;
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.stuck(&format!("ended with {status}"))),
            Ok(Err(error)) => Err(self.stuck(&format!("was lost: {error}"))),
            Err(_) => Err(self.stuck("did not leave although it was asked to")),
        }
    }

    pub(super) fn stuck(&self, what: &str) -> CliError {
        CliError::Demo(format!("{} {what}; see {}", self.name, self.log.display()))
    }
}

fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf, CliError> {
    let path = directory.join(name);
    std::fs::write(&path, bytes).map_err(|source| CliError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// A directory that was not there, or is empty: an old store in it would tell another story.
fn new_directory(path: &Path) -> Result<PathBuf, CliError> {
    let failed = |source| CliError::Write { path: path.into(), source };
    std::fs::create_dir_all(path).map_err(failed)?;
    if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
        return Err(CliError::Usage(format!("{} is not empty; name a new directory", path.display())));
    }
    path.canonicalize().map_err(failed)
}

/// A directory for us alone. Its name is short because it stands in every command that is shown.
fn temporary_directory(under: &Path) -> Result<PathBuf, CliError> {
    let mut path = under.to_owned();
    for _ in 0..NAMES_MAX {
        path = under.join(format!("cs-demo-{}", random::hex::<2>()?));
        match DirBuilder::new().mode(0o700).create(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(CliError::Write { path, source }),
        }
    }
    Err(CliError::Write { path, source: io::ErrorKind::AlreadyExists.into() })
}
