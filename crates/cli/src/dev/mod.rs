//! `countersign dev`: a complete local environment in one process.
//!
//! It runs a worker, the console, the API with its live stream, the endpoints for Slack and webhooks, a page of links,
//! and fake external systems. Runs and the incidents of the fake ServiceNow are stored in one directory and survive a
//! restart. Messages of the fake Slack do not, so pending approvals are posted again.

mod api_keys;
pub(crate) mod env;
mod page;
mod records;
mod state;
mod webhook;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::worker::{CancellationToken, Worker, WorkerSettings};
use api::auth::session::CookieSecurity;
use api::stream::StreamSettings;
use axum::Router;
use config::ProcessContext;
use connectors::{HostAllowList, HostRule};
use domain::{Card, Source, WorkerId};
use engine::metrics::exporter::Serving;
use engine::{Engine, EngineParts, Timing};
use http_server::ConnectionLimits;
use ingress::routes::SLACK_INTERACTIONS;
use ingress::webhook::WebhookAuth;
use serde_json::{Value, json};
use store::{Clock as _, PageQuery, Store, SystemClock};

use crate::any_store::with_store;
use crate::context::{Context, IfMissing, Target};
use crate::error::CliError;
use crate::http_server::background::BackgroundServer;
use crate::http_server::{HttpServer, Seeds};
use crate::input::read_config;
use crate::input::read_workflow;
use crate::process::ExitStatus;
use crate::shutdown::ShutdownSignal;
use crate::telemetry::{Metrics, start_logging};
use crate::{keys, random};
use views::hint::{CommandHints, quoted};

use api_keys::Keys;
use env::{DevEnv, Ports, credential, listen, sample_tenant};
use page::Page;
use state::DevState;
use webhook::DevWebhook;

const EXAMPLES: &str = "\
Examples:
  countersign dev
  countersign dev --dir /tmp/try --port 0      use free ports
  RUST_LOG=info countersign dev                log what the worker does

The console, the API and a page of links (/dev) use the port in --port. The fake Slack, ServiceNow
and model use the three ports after it. All of them listen on 127.0.0.1 only.

SIGTERM, Ctrl-C or a drain of the worker stops the environment. The next start with the same
directory and ports continues from the saved state. With other ports, the fake systems have other
addresses, so existing approvals do not apply to them and are requested again.";

/// The sample workflow, also used by the demo.
pub(crate) const TRIAGE: &str = include_str!("triage.yaml");

/// A workflow that incidents trigger.
const ON_INCIDENT: &str = include_str!("on-incident.yaml");

/// The first of four ports, none of which is well known.
const PORT_DEFAULT: u16 = 7420;

/// How long running steps may take to finish; the external systems are on this machine.
const DRAIN: Duration = Duration::from_secs(5);

/// The default log level; the page shows the rest.
const FILTER: &str = "warn";

/// At most this many pending approvals are posted again.
const REPOSTED_MAX: u32 = 200;

/// Start a local environment with a worker, a server and fake external systems
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The directory for all state; created if it does not exist
    #[arg(long, value_name = "DIR", default_value = "countersign-dev")]
    dir: PathBuf,
    /// The first of four consecutive ports; 0 for free ports
    #[arg(long, value_name = "N", default_value_t = PORT_DEFAULT, value_parser = clap::value_parser!(u16).range(..=65_532))]
    port: u16,
    /// Allow `http.request` to call this host in your network; repeatable
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_host: Vec<HostRule>,
    #[command(flatten)]
    metrics: Metrics,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    start_logging(Some(context.env.log.as_deref().unwrap_or(FILTER)), false)?;
    let signals = ShutdownSignal::listen()?;
    let directory = create_directory(&args.dir)?;
    let _lock = lock(&directory)?;
    let target = if context.account.is_some() { Target::Aws } else { Target::Store };
    let context = Context { store: directory.join("dev.db"), target, ..context.clone() };
    let state = match &context.account {
        Some(account) => DevState::Table(account.name()),
        None => DevState::File(context.store.clone()),
    };
    with_store!(context.any_store(IfMissing::Create)?, |store| {
        Box::pin(serve(&args, (store, state), &directory, context, signals)).await
    })
}

/// Runs the environment on `store` until a signal or a drain.
async fn serve<S: Store>(
    args: &Args,
    (store, state): (S, DevState),
    directory: &Path,
    context: Context,
    mut signals: ShutdownSignal,
) -> Result<ExitStatus, CliError> {
    let listener = listen(args.port, "the page").await?;
    let address = listener.local_addr().map_err(|source| CliError::Start { what: "the server", source })?;
    let url = format!("http://{address}");
    let metrics = args.metrics.start().await?;
    let systems = DevEnv::open(ports(args.port)).await?;
    let me = WorkerId::new(&format!("dev-{}", random::hex::<4>()?))?;
    let allowed = HostAllowList { hosts: args.allow_host.clone() };
    let engine = engine(directory, &systems, (store, &context), me.clone(), allowed)?;
    create_tenant(&engine, &context).await?;
    let manual = write_sample(directory, "triage.yaml", TRIAGE)?;
    apply_sample(&engine, &context, &manual).await?;
    let triggered = write_sample(directory, "on-incident.yaml", ON_INCIDENT)?;
    let keys = Keys::load_or_create(directory, &engine, &context.tenant).await?;
    let hints = state.hints(&context, &url);
    let page = Page {
        context: context.clone(),
        slack: systems.slack.url(),
        servicenow: systems.servicenow.url(),
        model: systems.model.url(),
        first_command: state.key_prefix(&keys) + &state.first_command(&hints, &manual, "triage-incident"),
        hints: hints.clone(),
        store: state.name(),
    };
    let webhook = DevWebhook::new(context.tenant.clone())?;
    let server =
        BackgroundServer::start(listener, routes(&engine, &systems, webhook.webhook_auth()?, page.clone())?)?;
    systems.slack.set_callback(&interactions_url(&server.url(), &context));
    let records = records::RecordFile::restore(&directory.join("servicenow.json"), &systems)?;
    repost_approvals(&engine, &context).await?;
    let apply = state.key_prefix(&keys) + &apply_command(&hints, &triggered);
    let info = StartupInfo { apply, webhook, keys, metrics: metrics.as_ref().map(Serving::url) };
    context.print(
        &format!("{}{}", startup_text(&page, &info, &server.url()), info.trigger_text(&server.url())),
        &startup_json(&page, &info, &server.url()),
    )?;
    let finished = run_worker(engine, me, &mut signals, records.save_changes(&systems)).await;
    records.save(&systems)?;
    if !context.json {
        crate::screen::text(&format!(
            "Stopped. The state is in {}; run `countersign dev` again to continue.",
            directory.display()
        ))?;
    }
    Ok(ExitStatus::success_if(finished))
}

fn create_directory(directory: &Path) -> Result<PathBuf, CliError> {
    let failed = |source| CliError::Write { path: directory.into(), source };
    std::fs::create_dir_all(directory).and_then(|()| directory.canonicalize()).map_err(failed)
}

/// Locks the directory until the process ends: a second environment would overwrite its configuration.
fn lock(directory: &Path) -> Result<File, CliError> {
    let path = directory.join("dev.lock");
    let file = File::create(&path).map_err(|source| CliError::Write { path, source })?;
    file.try_lock().map_err(|_| {
        CliError::Usage(format!(
            "another `countersign dev` uses {}; choose another directory with --dir",
            directory.display()
        ))
    })?;
    Ok(file)
}

/// The ports after the first.
fn ports(page: u16) -> Ports {
    match page {
        0 => Ports::default(),
        page => Ports { slack: page + 1, servicenow: page + 2, model: page + 3 },
    }
}

fn engine<S: Store>(
    directory: &Path,
    systems: &DevEnv,
    (store, context): (S, &Context),
    me: WorkerId,
    allowed: HostAllowList,
) -> Result<Arc<Engine<S>>, CliError> {
    let file = directory.join("countersign.yaml");
    std::fs::write(&file, systems.config(&context.tenant))
        .map_err(|source| CliError::Write { path: file.clone(), source })?;
    let config = read_config(Some(&file))?;
    Ok(Arc::new(Engine::new(EngineParts {
        store: Arc::new(store),
        tools: connectors::standard_tools(allowed),
        connections: config
            .connection_parts(credential, ProcessContext::without_aws(|| SystemClock.now()))?,
        clock: Arc::new(SystemClock),
        me,
        timing: Timing::default(),
        notifier: config.notifier()?,
        evidence_signer: Some(keys::evidence_signer(&context.store)?),
    })))
}

/// Creates the tenant with the sample users, unless it exists.
async fn create_tenant<S: Store>(engine: &Engine<S>, context: &Context) -> Result<(), CliError> {
    if engine.store().tenant(&context.tenant).await?.is_none() {
        // If another process created it first, its record stays.
        engine.store().put_tenant(sample_tenant(context.tenant.clone())?).await?;
    }
    Ok(())
}

/// Writes a sample workflow, unless the file exists.
fn write_sample(directory: &Path, name: &str, text: &str) -> Result<PathBuf, CliError> {
    let file = directory.join(name);
    if !file.try_exists().unwrap_or(false) {
        std::fs::write(&file, text).map_err(|source| CliError::Write { path: file.clone(), source })?;
    }
    Ok(file)
}

/// Applies the workflow in `file`, so that the console can start one, unless a workflow is already applied.
async fn apply_sample<S: Store>(engine: &Engine<S>, context: &Context, file: &Path) -> Result<(), CliError> {
    let handle = engine.tenant_handle(&context.tenant, &context.by_user());
    if handle.workflows().await?.is_empty() {
        handle.apply(&read_workflow(file, engine.tools())?).await?;
    }
    Ok(())
}

fn apply_command(hints: &CommandHints, file: &Path) -> String {
    hints.line(&format!("workflow apply {}", quoted(&file.to_string_lossy())))
}

/// The rest of the startup message.
struct StartupInfo {
    /// Applies the workflow that incidents trigger.
    apply: String,
    webhook: DevWebhook,
    keys: Keys,
    /// The URL of the metrics endpoint.
    metrics: Option<String>,
}

impl StartupInfo {
    fn trigger_text(&self, url: &str) -> String {
        format!(
            "\nTo let an incident start a run:\n\n  {}\n  {}\n\n\
             Webhook endpoint: {url}/webhook/SOURCE/{}\n\
             Signing secret (new at every start): {}\n",
            self.apply,
            self.webhook.curl_command(url),
            self.webhook.tenant,
            self.webhook.secret,
        )
    }
}

/// The routes of a server, and the page of links.
fn routes<S: Store>(
    engine: &Arc<Engine<S>>,
    systems: &DevEnv,
    webhook_auth: WebhookAuth,
    page: Page,
) -> Result<Router, CliError> {
    let server = HttpServer {
        engine: Arc::clone(engine),
        cookie_security: CookieSecurity::Loopback,
        seeds: Seeds::random()?,
        trusted_keys: Some(keys::read_trusted_keys(&keys::public_key_path(&page.context.store))?),
        webhook_auth,
        slack: systems.slack_installations(&page.context.tenant)?,
        secrets: Vec::new(),
        oidc: None,
        login: None,
        stream: StreamSettings::default(),
    };
    // `BackgroundServer` has the same limits.
    let (routes, _streams) = server.routes(&ConnectionLimits::for_process());
    Ok(routes.merge(page::router(Arc::clone(engine), page)))
}

/// The endpoint for interactions of the fake Slack.
fn interactions_url(url: &str, context: &Context) -> String {
    format!("{url}{SLACK_INTERACTIONS}/{}", context.tenant)
}

/// The fake Slack lost its messages; post the pending approvals again.
async fn repost_approvals<S: Store>(engine: &Engine<S>, context: &Context) -> Result<(), CliError> {
    let open = engine.store().open_approvals(&context.tenant, PageQuery::first(REPOSTED_MAX)).await?;
    for approval in open.approvals {
        let tenant = &approval.run.tenant;
        if let Some(card) = engine.store().card(tenant, &approval.id).await? {
            // No message has this position, so that no current message is taken for the card.
            let stale = Card { message: "C0APPROVALS/1.0".to_owned(), revision: 0, ..card.clone() };
            engine.store().put_card(tenant, &approval.id, stale, Some(card)).await?;
            engine.governance().notify_approval(&approval.run, &approval.id, approval.revision).await?;
        }
    }
    Ok(())
}

/// Runs the worker until a signal or a drain; returns whether every running step finished.
async fn run_worker<S: Store>(
    engine: Arc<Engine<S>>,
    me: WorkerId,
    signals: &mut ShutdownSignal,
    saving: impl Future<Output = ()>,
) -> bool {
    let shutdown = CancellationToken::new();
    let settings = WorkerSettings { drain: DRAIN, ..WorkerSettings::default() };
    let working = Worker::new(engine, settings, me, shutdown.clone()).run();
    tokio::pin!(working);
    tokio::select! {
        finished = &mut working => return finished,
        () = saving => {}
        _ = signals.recv() => {}
    }
    shutdown.cancel();
    tokio::select! {
        finished = working => finished,
        _ = signals.recv() => false,
    }
}

fn startup_text(page: &Page, info: &StartupInfo, url: &str) -> String {
    let StartupInfo { keys, metrics, .. } = info;
    let metrics = metrics.as_ref().map(|url| format!("  metrics     {url}\n")).unwrap_or_default();
    format!(
        "Countersign is running. Press Ctrl-C to stop.\n\n  \
         console     {url}/    log in as ada with {}\n  \
         API         {url}/api/v1/openapi.json    more keys: {}\n  \
         links       {url}/dev\n  \
         Slack       {}/    approve or reject here as ada, grace or ben\n  \
         ServiceNow  {}\n  \
         model       {}\n\
         {metrics}  \
         store       {}\n\n\
         Run this in another terminal, then open the console:\n\n  {}\n\n\
         The external systems are fakes. Every user of this machine can press every button in the fake Slack.\n",
        keys.key_of("ada"),
        keys.file.display(),
        page.slack,
        page.servicenow,
        page.model,
        page.store,
        page.first_command,
    )
}

fn startup_json(page: &Page, info: &StartupInfo, url: &str) -> Value {
    json!({
        "console": url,
        "api": format!("{url}/api/v1"),
        "keys": info.keys.file,
        "page": format!("{url}/dev"),
        "metrics": info.metrics,
        "slack": page.slack,
        "slack_interactions": interactions_url(url, &page.context),
        "servicenow": page.servicenow,
        "model": page.model,
        "store": page.store,
        "first_command": page.first_command,
        "webhook": info.webhook.address(url, Source::ServiceNow),
        "webhook_secret": info.webhook.secret,
        "webhook_command": info.webhook.curl_command(url),
        "apply_command": info.apply,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sample_workflow_names_an_existing_incident() {
        let sample = format!("sample: {{ incident: {} }}", fakes::servicenow::INCIDENT);
        assert!(TRIAGE.contains(&sample), "{TRIAGE}");
    }
}
