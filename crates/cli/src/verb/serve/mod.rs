//! `countersign serve`: the API, the live stream, the console and the doors, for real systems.
//!
//! A server takes things in and shows how they stand. Workers do the work, beside it, on the same store.

mod oidc;
mod secrets;
mod told;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ::config::Systems;
use api::auth::session::Over;
use api::stream::StreamSettings;
use axum::Router;
use connectors::Allow;
use domain::{Millis, WorkerId};
use engine::{Engine, Parts, Timing};
use evidence::PublicKey;
use ingress::described;
use store::{Store, SystemClock};
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config::{self, Variable};
use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
#[cfg(feature = "aws")]
use crate::front::looking_at_aws;
use crate::front::{Front, Seeds, listen};
use crate::metrics::Metrics;
use crate::stop::Stop;
use crate::{keys, logging, random};

const EXAMPLES: &str = "\
Examples:
  countersign serve --config countersign.yaml
  countersign serve --config countersign.yaml --listen 0.0.0.0:7420 --behind-tls
  countersign key create ada --role admin          the first key, on the server's store
  countersign worker --config countersign.yaml     beside it: a server does no work itself

Serves the console, the API (/api/v1), the doors for webhooks (/webhook/SOURCE/TENANT) and for Slack
(/slack/interactions/TENANT, /slack/commands/TENANT), and /healthz for load balancers. Any number of
servers and workers may share a store. Who may come in is told in `server` of the configuration.

It speaks plain HTTP. Listening for other machines takes --behind-tls: a proxy or load balancer before
it ends TLS and passes the header Host on.

SIGTERM or Ctrl-C: no request is taken any more, and those under way may finish (see --drain). A
second signal ends the process at once.

Exit codes: 0 if every request under way was finished, 1 if some were cut off.";

/// Where a newcomer looks first, and `countersign dev` is.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);

/// Serve the API, the console, and the doors for webhooks and Slack; workers run beside it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The systems outside, and what the server is told: who may deliver, and who says who people are
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Where to listen
    #[arg(long, value_name = "ADDR:PORT", default_value_t = LISTEN_DEFAULT)]
    listen: SocketAddr,
    /// A proxy or load balancer before this server ends TLS: cookies are for HTTPS alone, and other machines may
    /// be listened to
    #[arg(long)]
    behind_tls: bool,
    /// How long the requests under way may take to finish after SIGTERM
    #[arg(long, value_name = "LENGTH", default_value = "10s")]
    drain: Millis,
    /// The public key that evidence is verified with [default: the one beside the store]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    #[command(flatten)]
    metrics: Metrics,
    /// Log JSON instead of text
    #[arg(long)]
    log_json: bool,
}

/// Serves until it is asked to leave.
pub(super) async fn run(args: Args, context: &Context) -> Result<Ending, CliError> {
    let over = listen::over(args.listen, args.behind_tls)?;
    logging::start(context.surroundings.log.as_deref(), args.log_json)?;
    let stop = Stop::listen()?;
    let config = config::read(Some(&args.config))?;
    let key = args.key.as_deref().map(keys::public).transpose()?;
    #[cfg(feature = "aws")]
    if let Some(account) = &context.account {
        let (store, kept) = (account.store.clone(), account.name());
        let serving = Serving { store, kept, config, over, key, stream: looking_at_aws() };
        return Box::pin(serving.until_asked(&args, context, stop)).await;
    }
    let (store, kept) = (context.open_store()?, context.store.display().to_string());
    let key = key.map_or_else(|| keys::verifying(&context.store), Ok)?;
    let serving = Serving { store, kept, config, over, key: Some(key), stream: StreamSettings::default() };
    Box::pin(serving.until_asked(&args, context, stop)).await
}

/// What is served, and from where.
struct Serving<S> {
    store: S,
    /// Where runs are kept, in words.
    kept: String,
    config: Systems,
    over: Over,
    key: Option<PublicKey>,
    stream: StreamSettings,
}

impl<S: Store> Serving<S> {
    async fn until_asked(self, args: &Args, context: &Context, mut stop: Stop) -> Result<Ending, CliError> {
        let kept = self.kept.clone();
        let front = self.front(context.surroundings.variable)?;
        let metrics = args.metrics.start().await?;
        let listener = listen::bound(args.listen, "--listen", "the server").await?;
        let address =
            listener.local_addr().map_err(|source| CliError::Start { what: "the server", source })?;
        let counted = metrics.as_ref().map(engine::metrics::exporter::Serving::url);
        context.answer(
            &told::text(address, &kept, counted.as_deref()),
            &told::json(address, &kept, counted.as_deref()),
        )?;
        tracing::info!(%address, store = kept, "serving");
        let (routes, streams) = front.routes();
        let (leave, leaving) = oneshot::channel::<()>();
        let served = serve(listener, routes, leaving);
        tokio::pin!(served);
        tokio::select! {
            // It ends only when it is asked to, so this is for completeness.
            ended = &mut served => return ended.map(|()| Ending::Done),
            () = stop.asked() => tracing::info!("leaving; requests under way may finish"),
        }
        // Whoever has gone already need not be asked.
        let _ = leave.send(());
        // A stream has no end of its own.
        streams.close();
        tokio::select! {
            ended = timeout(args.drain.std(), served) => Ok(Ending::done_if(finished(ended.is_ok()))),
            () = stop.asked() => Ok(Ending::done_if(finished(false))),
        }
    }

    /// Everything that is served, as the configuration says.
    fn front(self, variable: Variable) -> Result<Front<S>, CliError> {
        let Self { store, config, over, key, stream, .. } = self;
        let server = config.server();
        let seeds = match server.session_secret(&variable)? {
            Some(secret) => Seeds::of(&secret),
            None => Seeds::fresh()?,
        };
        let wrong = |error: described::InvalidSources| CliError::Usage(error.to_string());
        let (believes, login) = match &server.oidc {
            Some(config) => oidc::read(config, over, variable)?,
            None => (None, None),
        };
        Ok(Front {
            believes,
            login,
            stream,
            over,
            seeds,
            public: key,
            doors: described::doors(&server.sources, &variable).map_err(wrong)?,
            slack: described::slack_installations(&config, &variable)?,
            secrets: secrets::names(&config),
            engine: Arc::new(engine(store, &config, variable)?),
        })
    }
}

/// The runtime as workers have it; but nothing is worked on here, and no evidence put together.
fn engine<S: Store>(store: S, config: &Systems, variable: Variable) -> Result<Engine<S>, CliError> {
    Ok(Engine::new(Parts {
        store: Arc::new(store),
        tools: connectors::standard(Allow::default(), config.settings(&variable)?),
        clock: Arc::new(SystemClock),
        me: WorkerId::new(&format!("server-{}", random::hex::<8>()?))?,
        timing: Timing::default(),
        shows: config.showing(&variable)?,
        sealing: None,
    }))
}

/// Serves until `leaving` is told, and then until no request is under way.
async fn serve(
    listener: tokio::net::TcpListener,
    routes: Router,
    leaving: oneshot::Receiver<()>,
) -> Result<(), CliError> {
    let asked = async {
        // If nobody can ask any more, that is as good as asking.
        let _ = leaving.await;
    };
    let served = axum::serve(listener, routes).with_graceful_shutdown(asked).await;
    served.map_err(|source| CliError::Start { what: "the server", source })
}

fn finished(all: bool) -> bool {
    if all {
        tracing::info!("left; every request under way was finished");
    } else {
        tracing::warn!("left; requests under way were cut off");
    }
    all
}
