//! `countersign serve`: the API with its live stream, the console, and the endpoints for webhooks and Slack.
//!
//! A server accepts requests and shows state. Workers on the same store execute the runs.

mod oidc;
mod secrets;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use ::config::{ProcessContext, SystemsConfig};
use api::auth::session::CookieSecurity;
use api::stream::StreamSettings;
use api_types::PREFIX;
use connectors::{HostAllowList, HostRule};
use domain::{Millis, WorkerId};
use engine::{Engine, EngineParts, Timing};
use evidence::TrustedKeys;
use http_server::{ConnectionLimits, serve};
use ingress::configured;
use serde_json::{Value, json};
use store::{Clock as _, Store, SystemClock};
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::any_store::with_store;
use crate::context::{Context, IfMissing};
use crate::error::CliError;
use crate::http_server::{HttpServer, Seeds, aws_stream_settings, listen};
use crate::input::{Variable, read_config};
use crate::process::ExitStatus;
use crate::shutdown::ShutdownSignal;
use crate::telemetry::{Metrics, start_logging};
use crate::{keys, random};

const EXAMPLES: &str = "\
Examples:
  countersign serve --config countersign.yaml
  countersign serve --config countersign.yaml --listen 0.0.0.0:7420 --behind-tls
  countersign key create ada --role admin          create the first key, on the server's store
  countersign worker --config countersign.yaml     execute the runs; a server does not

The server provides the console, the API (/api/v1), endpoints for webhooks
(/webhook/SOURCE/TENANT) and Slack (/slack/interactions/TENANT, /slack/commands/TENANT), and
/healthz for load balancers. Any number of servers and workers may share a store. The section
`server` of the configuration sets who may sign in and which systems may send webhooks.

The server speaks plain HTTP. To accept connections from other machines, put a proxy or load
balancer in front of it that terminates TLS and forwards the Host header, and add --behind-tls.

On SIGTERM or Ctrl-C the server accepts no new requests, and open requests may finish (see --drain).
A second signal ends the process at once.

Exit codes: 0 if every open request finished, 1 if some were cut off.";

/// The port is that of `countersign dev`.
const LISTEN_DEFAULT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 7420);

/// Serve the API, the console, and the endpoints for webhooks and Slack
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The configuration of external systems, webhook sources and the identity provider
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The address to listen on
    #[arg(long, value_name = "ADDR:PORT", default_value_t = LISTEN_DEFAULT)]
    listen: SocketAddr,
    /// A proxy or load balancer terminates TLS: use HTTPS-only cookies and allow connections from other machines
    #[arg(long)]
    behind_tls: bool,
    /// How long open requests may take to finish after SIGTERM
    #[arg(long, value_name = "DURATION", default_value = "10s")]
    drain: Millis,
    /// The public key that verifies evidence [default: the key next to the store]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// A host in your network that workers may call with `http.request`. Used by dry runs; repeatable
    #[arg(long, value_name = "HOST[:PORT]")]
    allow_host: Vec<HostRule>,
    #[command(flatten)]
    metrics: Metrics,
    /// Log JSON instead of text
    #[arg(long)]
    log_json: bool,
}

pub(super) async fn run(args: Args, context: &Context) -> Result<ExitStatus, CliError> {
    let cookie_security = listen::cookie_security(args.listen, args.behind_tls)?;
    start_logging(context.env.log.as_deref(), args.log_json)?;
    let signals = ShutdownSignal::listen()?;
    let config = read_config(Some(&args.config))?;
    let given_keys = args.key.as_deref().map(keys::read_trusted_keys).transpose()?;
    let any_store = context.any_store(IfMissing::Create)?;
    let (store_name, trusted_keys, stream) = if let Some(account) = &context.account {
        (account.name(), given_keys, aws_stream_settings())
    } else {
        let keys = given_keys.map_or_else(|| keys::trusted_keys(&context.store), Ok)?;
        (context.store.display().to_string(), Some(keys), StreamSettings::default())
    };
    with_store!(any_store, |store| {
        let allowed = HostAllowList { hosts: args.allow_host.clone() };
        let serving = Serving { store, store_name, config, cookie_security, trusted_keys, stream, allowed };
        Box::pin(serving.run(&args, context, signals)).await
    })
}

struct Serving<S> {
    store: S,
    store_name: String,
    config: SystemsConfig,
    cookie_security: CookieSecurity,
    trusted_keys: Option<TrustedKeys>,
    stream: StreamSettings,
    allowed: HostAllowList,
}

impl<S: Store> Serving<S> {
    /// Serves until a signal, then drains.
    async fn run(
        self,
        args: &Args,
        context: &Context,
        mut signals: ShutdownSignal,
    ) -> Result<ExitStatus, CliError> {
        let store = self.store_name.clone();
        let server = self.http_server(context.env.variable)?;
        let metrics = args.metrics.start().await?;
        let listener = listen::bind(args.listen, "--listen", "the server").await?;
        let address =
            listener.local_addr().map_err(|source| CliError::Start { what: "the server", source })?;
        let metrics = metrics.as_ref().map(engine::metrics::exporter::Serving::url);
        context.print(
            &startup_text(address, &store, metrics.as_deref()),
            &startup_json(address, &store, metrics.as_deref()),
        )?;
        tracing::info!(event = "server_started", %address, store, "server started");
        let limits = ConnectionLimits::for_process();
        let (routes, streams) = server.routes(&limits);
        let shutdown = CancellationToken::new();
        let serving = serve(listener, routes, limits, shutdown.clone());
        tokio::pin!(serving);
        tokio::select! {
            // The server ends only on request; this arm is for completeness.
            () = &mut serving => return Ok(ExitStatus::Success),
            signal = signals.recv() => {
                tracing::info!(event = "server_draining", signal, "draining; open requests may finish");
            }
        }
        shutdown.cancel();
        // Live streams do not end by themselves.
        streams.close();
        tokio::select! {
            ended = timeout(args.drain.std(), serving) => Ok(ExitStatus::success_if(log_exit(ended.is_ok()))),
            _ = signals.recv() => Ok(ExitStatus::success_if(log_exit(false))),
        }
    }

    fn http_server(self, variable: Variable) -> Result<HttpServer<S>, CliError> {
        let Self { store, config, cookie_security, trusted_keys, stream, allowed, .. } = self;
        let server = config.server();
        let seeds = match server.session_secret(&variable)? {
            Some(secret) => Seeds::derive(&secret),
            None => Seeds::random()?,
        };
        let wrong = |error: configured::InvalidSources| CliError::Usage(error.to_string());
        let (oidc, login) = match &server.oidc {
            Some(config) => oidc::read(config, cookie_security, variable)?,
            None => (None, None),
        };
        Ok(HttpServer {
            oidc,
            login,
            stream,
            cookie_security,
            seeds,
            trusted_keys,
            webhook_auth: configured::webhook_auth(&server.sources, &variable).map_err(wrong)?,
            slack: configured::slack_installations(
                &config,
                variable,
                ProcessContext::without_aws(|| SystemClock.now()),
            )?,
            secrets: secrets::names(&config),
            engine: Arc::new(engine(store, &config, allowed)?),
        })
    }
}

/// An engine that executes no steps, notifies no approvers and builds no evidence; workers do.
fn engine<S: Store>(store: S, config: &SystemsConfig, allowed: HostAllowList) -> Result<Engine<S>, CliError> {
    Ok(Engine::new(EngineParts {
        store: Arc::new(store),
        tools: connectors::standard_tools(allowed),
        connections: config.connections_without_secrets()?,
        clock: Arc::new(SystemClock),
        me: WorkerId::new(&format!("server-{}", random::hex::<8>()?))?,
        timing: Timing::default(),
        notifier: None,
        evidence_signer: None,
    }))
}

fn log_exit(finished: bool) -> bool {
    if finished {
        tracing::info!(event = "server_stopped", finished, "server stopped; every open request finished");
    } else {
        tracing::warn!(event = "server_stopped", finished, "server stopped; open requests were cut off");
    }
    finished
}

fn startup_text(address: SocketAddr, store: &str, metrics: Option<&str>) -> String {
    let metrics = metrics.map(|url| format!("  metrics   {url}\n")).unwrap_or_default();
    format!(
        "Serving at http://{address}. Press Ctrl-C to stop.\n\n  \
         console   http://{address}/\n  \
         API       http://{address}{PREFIX}/openapi.json\n  \
         webhooks  http://{address}/webhook/SOURCE/TENANT\n\
         {metrics}  \
         store     {store}\n\n\
         The server executes no runs. Start workers on the same store.\n"
    )
}

fn startup_json(address: SocketAddr, store: &str, metrics: Option<&str>) -> Value {
    let url = format!("http://{address}");
    json!({
        "url": url,
        "console": url,
        "api": format!("{url}{PREFIX}"),
        "webhooks": format!("{url}/webhook"),
        "health": format!("{url}/healthz"),
        "metrics": metrics,
        "store": store,
    })
}
