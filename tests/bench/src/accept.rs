//! The rate of accepted webhooks: signed ServiceNow deliveries over open connections.
//!
//! The endpoint is served as in `countersign dev`, on TCP, with the embedded store in a file and every commit synced. The
//! senders run on the same machine and share its cores. No worker processes the inbox. Afterwards the stored entries are
//! counted.

use std::sync::Arc;
use std::time::{Duration, Instant};

use domain::{IdempotencyKey, InboxEntry, QueueName, RunKey, Source, TenantId};
use ingress::routes::webhooks;
use ingress::webhook::{AuthScheme, SIGNATURE_HEADER, TIMESTAMP_HEADER, WebhookAuth};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::json;
use signing::Secrets;
use store::{Clock as _, Inbox as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::report::{ms, per_s, percentile};

/// The limits, on two cores.
const PER_S_MIN: f64 = 2_000.0;
const P99_MAX: Duration = Duration::from_millis(50);

/// Signs the deliveries. The store is temporary.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Longer than any reply.
const REPLY_BYTES_MAX: usize = 4 * 1024;

#[derive(Debug, Clone, Copy)]
pub(crate) struct AcceptLoad {
    pub(crate) deliveries: u32,
    pub(crate) connections: u32,
}

#[derive(Debug, Serialize)]
pub(crate) struct AcceptReport {
    accepted_per_s: f64,
    ms_p50: f64,
    ms_p99: f64,
    deliveries: u32,
    connections: u32,
    fsyncs: u64,
    /// The number of entries in the store afterwards.
    stored: u32,
}

impl AcceptReport {
    /// A message if a limit is exceeded.
    pub(crate) fn limit_exceeded(&self) -> Option<String> {
        let slow = self.accepted_per_s < PER_S_MIN;
        let late = self.ms_p99 > ms(P99_MAX);
        (slow || late).then(|| {
            format!(
                "{} deliveries per second, {} ms at p99; the limits are {PER_S_MIN} per second and {} ms",
                self.accepted_per_s,
                self.ms_p99,
                ms(P99_MAX)
            )
        })
    }
}

pub(crate) async fn measure(load: AcceptLoad) -> Result<AcceptReport, String> {
    let dir = tempfile::tempdir().map_err(to_text)?;
    let store = SqliteStore::open(dir.path().join("bench.db"), SqliteOptions::default()).map_err(to_text)?;
    let address = serve(&store).await?;
    let warm = AcceptLoad { deliveries: load.deliveries.div_ceil(10), ..load };
    deliver(&address, warm, 0).await?;
    let before = store.usage();
    let began = Instant::now();
    let mut took = deliver(&address, load, warm.deliveries).await?;
    let all = began.elapsed();
    took.sort_unstable();
    Ok(AcceptReport {
        accepted_per_s: per_s(load.deliveries, all),
        ms_p50: ms(percentile(&took, 50)),
        ms_p99: ms(percentile(&took, 99)),
        deliveries: load.deliveries,
        connections: load.connections,
        fsyncs: store.usage().commits - before.commits,
        stored: stored(&store, warm.deliveries, load.deliveries).await?,
    })
}

/// Serves a ServiceNow webhook endpoint and returns its address.
async fn serve(store: &SqliteStore) -> Result<String, String> {
    let engine = testkit::engine().me("bench").on(store.clone());
    let proof = AuthScheme::Hmac(Secrets::new(SECRET.into()).map_err(to_text)?);
    let auth = WebhookAuth::default().with(tenant()?, Source::ServiceNow, proof).map_err(to_text)?;
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(to_text)?;
    let address = listener.local_addr().map_err(to_text)?.to_string();
    tokio::spawn(async move { axum::serve(listener, webhooks(Arc::new(engine), auth)).await });
    Ok(address)
}

/// Delivers over concurrent connections; returns the duration of each delivery.
async fn deliver(address: &str, load: AcceptLoad, first: u32) -> Result<Vec<Duration>, String> {
    let senders = (0..load.connections).map(|connection| {
        let requests: Vec<_> = (connection..load.deliveries)
            .step_by(usize::try_from(load.connections).unwrap_or(1))
            .map(|n| request(address, first + n))
            .collect();
        let address = address.to_owned();
        tokio::spawn(async move { send(&address, requests).await })
    });
    let mut took = Vec::new();
    for sender in senders.collect::<Vec<_>>() {
        took.extend(sender.await.map_err(to_text)??);
    }
    Ok(took)
}

async fn send(address: &str, requests: Vec<Vec<u8>>) -> Result<Vec<Duration>, String> {
    let mut connection = TcpStream::connect(address).await.map_err(to_text)?;
    connection.set_nodelay(true).map_err(to_text)?;
    let mut took = Vec::with_capacity(requests.len());
    for request in requests {
        let began = Instant::now();
        connection.write_all(&request).await.map_err(to_text)?;
        let reply = reply(&mut connection).await?;
        took.push(began.elapsed());
        if !reply.starts_with("HTTP/1.1 202") {
            return Err(format!("a delivery was rejected: {reply}"));
        }
    }
    Ok(took)
}

/// Reads one reply, to the end of its body.
async fn reply(connection: &mut TcpStream) -> Result<String, String> {
    let (mut bytes, mut some) = (Vec::new(), [0; REPLY_BYTES_MAX]);
    loop {
        let read = connection.read(&mut some).await.map_err(to_text)?;
        bytes.extend_from_slice(&some[..read]);
        let text = String::from_utf8_lossy(&bytes);
        let whole = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            length.and_then(|length| length.parse().ok()) == Some(body.len())
        });
        if whole || read == 0 || bytes.len() > REPLY_BYTES_MAX {
            return Ok(text.into_owned());
        }
    }
}

fn request(address: &str, n: u32) -> Vec<u8> {
    let record = json!({
        "sys_id": sys_id(n),
        "sys_mod_count": "1",
        "number": format!("INC{n:07}"),
        "priority": "1",
        "short_description": "The primary database of the shop does not answer",
    });
    let body = json!({ "table": "incident", "record": record }).to_string();
    let secs = (SystemClock.now().0 / 1_000).to_string();
    let signature = signing::sign(&SecretString::from(SECRET), &secs, body.as_bytes());
    let head = format!(
        "POST /webhook/servicenow/bench HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\n\
         {TIMESTAMP_HEADER}: {secs}\r\n{SIGNATURE_HEADER}: {signature}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

fn sys_id(n: u32) -> String {
    format!("{n:032x}")
}

/// The number of deliveries from `first` on in the store. Each must also have a message in the ingest queue.
async fn stored(store: &SqliteStore, first: u32, deliveries: u32) -> Result<u32, String> {
    let announced = store.depth(QueueName::Ingest).await.map_err(to_text)?;
    if announced < u64::from(first) + u64::from(deliveries) {
        return Err(format!("{announced} messages are in the ingest queue; expected one for each delivery"));
    }
    let mut stored = 0;
    for n in first..first + deliveries {
        stored += u32::from(store.entry(&run(n)?).await.map_err(to_text)?.is_some());
    }
    if stored == deliveries {
        Ok(stored)
    } else {
        Err(format!("{stored} of {deliveries} deliveries are stored"))
    }
}

fn run(n: u32) -> Result<RunKey, String> {
    let key = IdempotencyKey::new(&format!("servicenow:incident:{}:1", sys_id(n))).map_err(to_text)?;
    Ok(InboxEntry::run_of(&tenant()?, &key))
}

fn tenant() -> Result<TenantId, String> {
    TenantId::new("bench").map_err(to_text)
}

fn to_text(error: impl std::fmt::Display) -> String {
    error.to_string()
}
