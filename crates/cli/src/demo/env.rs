//! The environment of the demo: a directory with a store, fake external systems, and worker processes.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use domain::{IdempotencyKey, RunKey, RunRecord};
use engine::Engine;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use store::{Governance as _, Ledger as _, SqliteStore};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use crate::context::{Context, IfMissing, Target, command_engine, default_tools};
use crate::dev::env::{CREDENTIALS, DevEnv, Ports, listen, sample_tenant};
use crate::error::CliError;
use crate::http_server::background::BackgroundServer;
use crate::input::read_workflow;
use crate::random;
use crate::start_run::{StartRequest, start_run};
use views::RunSnapshot;

use super::phone_service::PhoneService;

/// The lease of the workers; short, so that the take-over happens soon.
pub(super) const LEASE: &str = "2s";
const RENEW_EVERY: &str = "500ms";

/// Every wait takes two or three seconds, more on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

const POLL_EVERY: Duration = Duration::from_millis(25);

/// How many random directory names are tried.
const NAMES_MAX: u32 = 16;

/// The user who starts the runs.
const REQUESTER: &str = "ada";

pub(super) struct DemoEnv {
    pub(super) directory: PathBuf,
    pub(super) phone_service: PhoneService,
    pub(super) systems: DevEnv,
    /// The endpoint for Slack interactions.
    pub(super) interactions: BackgroundServer,
    pub(super) engine: Arc<Engine<SqliteStore>>,
    pub(super) context: Context,
    program: PathBuf,
    config: PathBuf,
}

/// A worker in its own process, on the same store.
pub(super) struct WorkerProcess {
    name: &'static str,
    child: Child,
    log: PathBuf,
}

impl DemoEnv {
    /// Creates the environment in `keep`, or in a new temporary directory.
    pub(super) async fn create(keep: Option<&Path>, context: &Context) -> Result<Self, CliError> {
        let mut env = context.env.clone();
        let unknown = || CliError::Demo("cannot find this executable to start workers".into());
        let program = env.program.clone().ok_or_else(unknown)?;
        let directory = match keep {
            Some(directory) => new_directory(directory)?,
            None => temporary_directory(&env.temp)?,
        };
        env.user = Some(REQUESTER.to_owned());
        let context =
            Context { store: directory.join("demo.db"), target: Target::Store, env, ..context.clone() };
        let phone_service = PhoneService::start()
            .await
            .map_err(|source| CliError::Start { what: "the phone service", source })?;
        let engine = Arc::new(command_engine(context.file_store(IfMissing::Create)?, default_tools())?);
        engine.store().put_tenant(sample_tenant(context.tenant.clone())?).await?;
        let systems = DevEnv::open(Ports::default()).await?;
        let installations = systems.slack_installations(&context.tenant)?;
        let routes = ingress::routes::slack(Arc::clone(&engine), installations);
        let listener = listen(0, "the Slack endpoint").await?;
        let interactions = BackgroundServer::start(listener, routes)?;
        let config = write(&directory, "countersign.yaml", systems.config(&context.tenant))?;
        Ok(Self { directory, phone_service, systems, interactions, engine, context, program, config })
    }

    pub(super) fn write(&self, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf, CliError> {
        write(&self.directory, name, bytes)
    }

    /// Starts a run of the workflow at `path`, like `countersign run start`.
    pub(super) async fn start(&self, path: &Path, key: &str, input: Value) -> Result<RunKey, CliError> {
        let plan = read_workflow(path, &default_tools())?;
        let key = IdempotencyKey::new(key).map_err(|error| CliError::Demo(error.to_string()))?;
        Ok(start_run(
            &self.engine,
            StartRequest { plan, workspace: None, input, key, record: None },
            &self.context,
        )
        .await?
        .run)
    }

    /// Starts a worker process, like `countersign worker`.
    pub(super) fn worker(&self, name: &'static str) -> Result<WorkerProcess, CliError> {
        let log = self.directory.join(format!("{name}.log"));
        let file = File::create(&log).map_err(|source| CliError::Write { path: log.clone(), source })?;
        let child = Command::new(&self.program)
            .arg("--store")
            .arg(&self.context.store)
            .args(["worker", "--name", name, "--lease", LEASE, "--renew-every", RENEW_EVERY])
            .args(["--allow-host", &self.phone_service.address().to_string(), "--config"])
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

    pub(super) async fn load(&self, run: &RunKey) -> Result<RunSnapshot, CliError> {
        Ok(RunSnapshot::load(&self.engine, run, self.context.hints()).await?)
    }

    /// Waits until `condition` holds for the run.
    pub(super) async fn wait_until(
        &self,
        run: &RunKey,
        worker: &WorkerProcess,
        condition: impl Fn(&RunRecord) -> bool,
    ) -> Result<(), CliError> {
        let poll = async {
            loop {
                let record = self.engine.store().load(run).await?;
                if record.is_some_and(|record| condition(&record)) {
                    return Ok(());
                }
                sleep(POLL_EVERY).await;
            }
        };
        timeout(WAIT_MAX, poll).await.unwrap_or_else(|_| Err(worker.failed("did not advance the run")))
    }
}

impl WorkerProcess {
    /// The process id.
    pub(super) fn pid(&self) -> String {
        self.child.id().map_or_else(|| "ended".to_owned(), |id| id.to_string())
    }

    /// Waits until the phone service has executed the worker's request.
    pub(super) async fn wait_for_request(&self, reached: oneshot::Receiver<()>) -> Result<(), CliError> {
        match timeout(WAIT_MAX, reached).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) => Err(CliError::Demo("the phone service has stopped".into())),
            Err(_) => Err(self.failed("did not call the phone service")),
        }
    }

    /// Waits until `find` returns `what`, which the worker causes.
    pub(super) async fn wait_for<T>(&self, what: &str, find: impl Fn() -> Option<T>) -> Result<T, CliError> {
        let poll = async {
            loop {
                if let Some(found) = find() {
                    return found;
                }
                sleep(POLL_EVERY).await;
            }
        };
        timeout(WAIT_MAX, poll).await.map_err(|_| self.failed(&format!("did not cause {what}")))
    }

    /// Sends SIGKILL and waits until the process has ended.
    pub(super) async fn kill(mut self) -> Result<(), CliError> {
        let killed = self.child.kill().await;
        killed.map_err(|error| CliError::Demo(format!("cannot kill {}: {error}", self.name)))
    }

    /// Sends SIGTERM and waits until the worker has drained.
    pub(super) async fn drain(mut self) -> Result<(), CliError> {
        let process = self.child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let process = process.ok_or_else(|| self.failed("ended unexpectedly"))?;
        kill_process(process, Signal::TERM)
            .map_err(|error| self.failed(&format!("did not receive SIGTERM: {error}")))?;
        match timeout(WAIT_MAX, self.child.wait()).await {
            Ok(Ok(status)) if status.success() => Ok(()),
            Ok(Ok(status)) => Err(self.failed(&format!("ended with {status}"))),
            Ok(Err(error)) => Err(self.failed(&format!("cannot be waited for: {error}"))),
            Err(_) => Err(self.failed("did not stop after SIGTERM")),
        }
    }

    pub(super) fn failed(&self, what: &str) -> CliError {
        CliError::Demo(format!("{} {what}; see {}", self.name, self.log.display()))
    }
}

fn write(directory: &Path, name: &str, bytes: impl AsRef<[u8]>) -> Result<PathBuf, CliError> {
    let path = directory.join(name);
    std::fs::write(&path, bytes).map_err(|source| CliError::Write { path: path.clone(), source })?;
    Ok(path)
}

/// Creates the directory, or accepts an empty one: an old store in it would change the result.
fn new_directory(path: &Path) -> Result<PathBuf, CliError> {
    let failed = |source| CliError::Write { path: path.into(), source };
    std::fs::create_dir_all(path).map_err(failed)?;
    if std::fs::read_dir(path).map_err(failed)?.next().is_some() {
        return Err(CliError::Usage(format!("{} is not empty; choose a new directory", path.display())));
    }
    path.canonicalize().map_err(failed)
}

/// Creates a private directory. Its name is short because the printed commands contain it.
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
