//! `countersign dev`: everything in one process, to try things out on a laptop.
//!
//! A worker, the console, the API with its live stream, the routes for Slack's clicks and for webhooks, a page of
//! links, and an outside world that is simulated. What the runtime keeps is in one directory and is found again on
//! the next start; so are the incidents of the simulated ServiceNow. Messages in the simulated Slack are not, so
//! those that can still be answered are posted anew.

mod hook;
mod kept;
mod page;
mod people;
mod records;
pub(crate) mod world;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ::worker::{Worker, WorkerSettings, leaving};
use api::auth::session::Over;
use api::stream::StreamSettings;
use axum::Router;
use connectors::Allow;
use domain::{Card, Source, WorkerId};
use engine::metrics::exporter::Serving;
use engine::{Engine, Parts, Timing};
use ingress::served::CLICKS;
use ingress::webhook::WebhookAuth;
use serde_json::{Value, json};
use store::{PageQuery, Store, SystemClock};

use crate::config;
use crate::context::{Context, Goes};
use crate::demo::TRIAGE;
use crate::ending::Ending;
use crate::error::CliError;
use crate::front::served::Served;
use crate::front::{Front, Seeds};
use crate::input::read_workflow;
use crate::metrics::Metrics;
use crate::stop::Stop;
use crate::{keys, logging, random};
use views::hint::{Hints, quoted};

use hook::Hook;
use kept::Kept;
use page::Page;
use people::Keys;
use world::{Ports, World, credential, listen, tenant_of};

const EXAMPLES: &str = "\
Examples:
  countersign dev
  countersign dev --dir /tmp/try --port 0      any free ports
  RUST_LOG=info countersign dev                and say what the worker does

The console, the API and a page of links (/dev) are on the port that --port names; the simulated
Slack, ServiceNow and model are on the three ports after it. All of it listens on 127.0.0.1 only.
SIGTERM, Ctrl-C or a drain of its worker ends it; the next start on the same directory and ports
goes on where it was. On other ports the systems outside are other systems, so what was approved
for the old ones is asked again.";

/// A workflow that is started by an incident.
const ON_INCIDENT: &str = include_str!("on-incident.yaml");

/// The first of four ports. Nothing well known is on any of them.
const PORT_DEFAULT: u16 = 7420;

/// The steps under way may take so long to finish; the systems outside are on this machine.
const DRAIN: Duration = Duration::from_secs(5);

/// What is logged if nobody says otherwise: the page says the rest.
const FILTER: &str = "warn";

/// More open questions than this are not posted anew.
const REPOSTED_MAX: u32 = 200;

/// Keep everything running on this machine: a worker, Slack, ServiceNow and a model, simulated
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Where everything is kept; made if it is not there
    #[arg(long, value_name = "DIR", default_value = "countersign-dev")]
    dir: PathBuf,
    /// The port of the page; the three after it are used, too; 0 for any that are free
    #[arg(long, value_name = "N", default_value_t = PORT_DEFAULT, value_parser = clap::value_parser!(u16).range(..=65_532))]
    port: u16,
    #[command(flatten)]
    metrics: Metrics,
}

pub(crate) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    logging::start(Some(context.surroundings.log.as_deref().unwrap_or(FILTER)), false)?;
    let stop = Stop::listen()?;
    let directory = made(&args.dir)?;
    let context = Context { store: directory.join("dev.db"), goes: Goes::Store, ..context.clone() };
    #[cfg(feature = "aws")]
    if let Some(account) = context.account.clone() {
        let kept = Kept::Table(account.name());
        return Box::pin(live(&args, (account.store, kept), &directory, context, stop)).await;
    }
    let (store, kept) = (context.open_store()?, Kept::File(context.store.clone()));
    Box::pin(live(&args, (store, kept), &directory, context, stop)).await
}

/// Keeps everything running on `store` until somebody asks to stop.
async fn live<S: Store>(
    args: &Args,
    (store, kept): (S, Kept),
    directory: &Path,
    context: Context,
    mut stop: Stop,
) -> Result<Ending, CliError> {
    // First of all: whoever has the ports has the directory's configuration.
    let listener = listen(args.port, "the page").await?;
    let address = listener.local_addr().map_err(|source| CliError::Start { what: "the server", source })?;
    let url = format!("http://{address}");
    let metrics = args.metrics.start().await?;
    let world = World::open(ports(args.port)).await?;
    let me = WorkerId::new(&format!("dev-{}", random::hex::<4>()?))?;
    let engine = engine(directory, &world, (store, &context), me.clone())?;
    settle(&engine, &context).await?;
    let by_hand = sample(directory, "triage.yaml", TRIAGE)?;
    put_to_use(&engine, &context, &by_hand).await?;
    let triggered = sample(directory, "on-incident.yaml", ON_INCIDENT)?;
    let keys = Keys::found(directory, &engine, &context.tenant).await?;
    let hints = kept.hints(&context, &url);
    let page = Page {
        context: context.clone(),
        slack: world.slack.url(),
        servicenow: world.servicenow.url(),
        model: world.model.url(),
        first: kept.entry(&keys) + &kept.first(&hints, &by_hand, "triage-incident"),
        hints: hints.clone(),
        store: kept.name(),
    };
    let hook = Hook::new(context.tenant.clone())?;
    let served = Served::start(listener, routes(&engine, &world, hook.doors()?, page.clone())?)?;
    world.slack.call_back(&clicks(&served.url(), &context));
    let records = records::Keeper::restore(&directory.join("servicenow.json"), &world)?;
    repost(&engine, &context).await?;
    let apply = kept.entry(&keys) + &apply_command(&hints, &triggered);
    let coming = Coming { apply, hook, keys, metrics: metrics.as_ref().map(Serving::url) };
    context.answer(
        &format!("{}{}", greeting(&page, &coming, &served.url()), coming.text(&served.url())),
        &addresses(&page, &coming, &served.url()),
    )?;
    let finished = work(engine, me, &mut stop, records.keep(&world)).await;
    records.save(&world)?;
    if !context.json {
        crate::screen::text(&format!(
            "Left. Everything is in {}; start again to go on.",
            directory.display()
        ))?;
    }
    Ok(Ending::done_if(finished))
}

fn made(directory: &Path) -> Result<PathBuf, CliError> {
    let failed = |source| CliError::Write { path: directory.into(), source };
    std::fs::create_dir_all(directory).and_then(|()| directory.canonicalize()).map_err(failed)
}

/// The ports after the page's.
fn ports(page: u16) -> Ports {
    match page {
        0 => Ports::default(),
        page => Ports { slack: page + 1, servicenow: page + 2, model: page + 3 },
    }
}

fn engine<S: Store>(
    directory: &Path,
    world: &World,
    (store, context): (S, &Context),
    me: WorkerId,
) -> Result<Arc<Engine<S>>, CliError> {
    let file = directory.join("countersign.yaml");
    std::fs::write(&file, world.config()).map_err(|source| CliError::Write { path: file.clone(), source })?;
    let config = config::read(Some(&file))?;
    Ok(Arc::new(Engine::new(Parts {
        store: Arc::new(store),
        tools: connectors::standard(Allow::default(), config.settings(&credential)?),
        clock: Arc::new(SystemClock),
        me,
        timing: Timing::default(),
        shows: config.showing(&credential)?,
        sealing: Some(keys::sealing(&context.store)?),
    })))
}

/// Writes down who the people are, unless somebody has settled that.
async fn settle<S: Store>(engine: &Engine<S>, context: &Context) -> Result<(), CliError> {
    if engine.store().tenant(&context.tenant).await?.is_none() {
        // Whoever was faster has settled it.
        engine.store().put_tenant(tenant_of(context.tenant.clone())?).await?;
    }
    Ok(())
}

/// A workflow to try, as its owner has left it.
fn sample(directory: &Path, name: &str, text: &str) -> Result<PathBuf, CliError> {
    let file = directory.join(name);
    if !file.try_exists().unwrap_or(false) {
        std::fs::write(&file, text).map_err(|source| CliError::Write { path: file.clone(), source })?;
    }
    Ok(file)
}

/// Puts the workflow in `file` to use, so that there is one to start in the console, unless somebody has put any to use.
async fn put_to_use<S: Store>(engine: &Engine<S>, context: &Context, file: &Path) -> Result<(), CliError> {
    if engine.applied(&context.tenant).await?.is_empty() {
        let plan = read_workflow(file, engine.tools())?;
        engine.apply(&context.tenant, &plan, context.by_user()).await?;
    }
    Ok(())
}

fn apply_command(hints: &Hints, file: &Path) -> String {
    hints.line(&format!("workflow apply {}", quoted(&file.to_string_lossy())))
}

/// What comes in by itself.
struct Coming {
    /// Puts the workflow to use that wants it.
    apply: String,
    hook: Hook,
    /// Who may come in, and with which key.
    keys: Keys,
    /// Where what is counted is told, if somebody wants it.
    metrics: Option<String>,
}

impl Coming {
    fn text(&self, url: &str) -> String {
        format!(
            "\nOr let an incident start a run by itself:\n\n  {}\n  {}\n\n\
             Other systems deliver to {url}/webhook/SOURCE/{} and sign with {}, which is new at every start.\n",
            self.apply,
            self.hook.line(url),
            self.hook.tenant,
            self.hook.secret,
        )
    }
}

/// What a server serves, and the page of links.
fn routes<S: Store>(
    engine: &Arc<Engine<S>>,
    world: &World,
    doors: WebhookAuth,
    page: Page,
) -> Result<Router, CliError> {
    let front = Front {
        engine: Arc::clone(engine),
        over: Over::Loopback,
        seeds: Seeds::fresh()?,
        public: Some(keys::public(&keys::public_path(&page.context.store))?),
        doors,
        slack: [world.door(page.context.tenant.clone())?].into_iter().collect(),
        secrets: Vec::new(),
        believes: None,
        login: None,
        stream: StreamSettings::default(),
    };
    let (routes, _streams) = front.routes();
    Ok(routes.merge(page::router(Arc::clone(engine), page)))
}

/// Where the simulated Slack delivers clicks.
fn clicks(url: &str, context: &Context) -> String {
    format!("{url}{CLICKS}/{}", context.tenant)
}

/// Slack has forgotten its messages; what can still be answered is posted anew.
async fn repost<S: Store>(engine: &Engine<S>, context: &Context) -> Result<(), CliError> {
    let open = engine.store().open_approvals(&context.tenant, PageQuery::first(REPOSTED_MAX)).await?;
    for approval in open.approvals {
        let tenant = &approval.run.tenant;
        if let Some(card) = engine.store().card(tenant, &approval.id).await? {
            // A place that no message has, so that none of today's is taken for it.
            let gone = Card { place: "C0APPROVALS/1.0".to_owned(), shown: 0, ..card.clone() };
            engine.store().put_card(tenant, &approval.id, gone, Some(card)).await?;
            engine.show(&approval.run, &approval.id).await?;
        }
    }
    Ok(())
}

/// Works until a signal comes, or until the worker is asked to leave; says whether every step under way was finished.
async fn work<S: Store>(
    engine: Arc<Engine<S>>,
    me: WorkerId,
    stop: &mut Stop,
    keeping: impl Future<Output = ()>,
) -> bool {
    let (leave, heard) = leaving();
    let settings = WorkerSettings { drain: DRAIN, ..WorkerSettings::default() };
    let working = Worker::new(engine, settings, me, heard).run();
    tokio::pin!(working);
    tokio::select! {
        finished = &mut working => return finished,
        () = keeping => {}
        () = stop.asked() => {}
    }
    leave.ask();
    tokio::select! {
        finished = working => finished,
        () = stop.asked() => false,
    }
}

fn greeting(page: &Page, coming: &Coming, url: &str) -> String {
    let Coming { keys, metrics, .. } = coming;
    let metrics = metrics.as_ref().map(|url| format!("  metrics     {url}\n")).unwrap_or_default();
    format!(
        "Countersign is running. Ctrl-C ends it.\n\n  \
         console     {url}/    log in as ada with {}\n  \
         API         {url}/api/v1/openapi.json    the other keys are in {}\n  \
         links       {url}/dev\n  \
         Slack       {}/    press the buttons here, as ada, grace or ben\n  \
         ServiceNow  {}\n  \
         model       {}\n\
         {metrics}  \
         store       {}\n\n\
         Try this in another terminal, and then look at the console:\n\n  {}\n\n\
         The systems outside are simulated. Anybody on this machine can press any button in that Slack.\n",
        keys.of("ada"),
        keys.file.display(),
        page.slack,
        page.servicenow,
        page.model,
        page.store,
        page.first,
    )
}

fn addresses(page: &Page, coming: &Coming, url: &str) -> Value {
    json!({
        "console": url,
        "api": format!("{url}/api/v1"),
        "keys": coming.keys.file,
        "page": format!("{url}/dev"),
        "metrics": coming.metrics,
        "slack": page.slack,
        "slack_interactions": clicks(url, &page.context),
        "servicenow": page.servicenow,
        "model": page.model,
        "store": page.store,
        "first_command": page.first,
        "webhook": coming.hook.address(url, Source::ServiceNow),
        "webhook_secret": coming.hook.secret,
        "webhook_command": coming.hook.line(url),
        "apply_command": coming.apply,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use connectors::Toolbox;
    use store::{SqliteOptions, SqliteStore};

    #[test]
    fn the_workflow_to_try_begins_with_an_incident_that_there_is() {
        let sample = format!("sample: {{ incident: {} }}", fakes::servicenow::INCIDENT);
        assert!(TRIAGE.contains(&sample), "{TRIAGE}");
    }

    /// An engine on a store that is gone when it is dropped.
    pub(super) fn engine() -> Engine<SqliteStore> {
        Engine::new(Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "dev".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        })
    }
}
