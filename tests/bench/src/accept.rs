//! How fast a door takes in what comes: signed deliveries of ServiceNow, over connections that stay open.
//!
//! The door is served as `countersign dev` serves it, on TCP, with the embedded store in a file and every commit synced.
//! Whoever delivers does so from the same machine, so both share its cores. Nobody takes up what came meanwhile.
//! Afterwards what was accepted is counted in the store.

use std::sync::Arc;
use std::time::{Duration, Instant};

use connectors::Toolbox;
use domain::{IdempotencyKey, InboxEntry, QueueName, RunKey, Source, TenantId};
use engine::{Engine, Parts, Timing};
use ingress::served::webhooks;
use ingress::webhook::{Proof, SIGNATURE_HEADER, TIMESTAMP_HEADER, WebhookAuth};
use secrecy::SecretString;
use serde::Serialize;
use serde_json::json;
use signing::Secrets;
use store::{Clock as _, Inbox as _, Queue as _, SqliteOptions, SqliteStore, SystemClock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::report::{ms, per_s, percentile};

/// What was promised, on two cores.
const PER_S_MIN: f64 = 2_000.0;
const P99_MAX: Duration = Duration::from_millis(50);

/// What signs the deliveries. It opens a store that is gone afterwards.
const SECRET: &str = "0123456789abcdef0123456789abcdef";

/// Longer than any reply.
const REPLY_BYTES_MAX: usize = 4 * 1024;

/// How much is delivered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Crowd {
    pub(crate) deliveries: u32,
    pub(crate) connections: u32,
}

/// What was measured.
#[derive(Debug, Serialize)]
pub(crate) struct Accepting {
    accepted_per_s: f64,
    ms_p50: f64,
    ms_p99: f64,
    deliveries: u32,
    connections: u32,
    fsyncs: u64,
    /// What the store has of them afterwards.
    kept: u32,
}

impl Accepting {
    /// What was promised and is not so.
    pub(crate) fn missed(&self) -> Option<String> {
        let slow = self.accepted_per_s < PER_S_MIN;
        let late = self.ms_p99 > ms(P99_MAX);
        (slow || late).then(|| {
            format!(
                "{} deliveries a second, {} ms at p99; promised: {PER_S_MIN} and {}",
                self.accepted_per_s,
                self.ms_p99,
                ms(P99_MAX)
            )
        })
    }
}

/// Delivers all of it.
pub(crate) async fn measure(crowd: Crowd) -> Result<Accepting, String> {
    let dir = tempfile::tempdir().map_err(told)?;
    let store = SqliteStore::open(dir.path().join("bench.db"), SqliteOptions::default()).map_err(told)?;
    let address = serve(&store).await?;
    let warm = Crowd { deliveries: crowd.deliveries.div_ceil(10), ..crowd };
    deliver(&address, warm, 0).await?;
    let before = store.usage();
    let began = Instant::now();
    let mut took = deliver(&address, crowd, warm.deliveries).await?;
    let all = began.elapsed();
    took.sort_unstable();
    Ok(Accepting {
        accepted_per_s: per_s(crowd.deliveries, all),
        ms_p50: ms(percentile(&took, 50)),
        ms_p99: ms(percentile(&took, 99)),
        deliveries: crowd.deliveries,
        connections: crowd.connections,
        fsyncs: store.usage().commits - before.commits,
        kept: kept(&store, warm.deliveries, crowd.deliveries).await?,
    })
}

/// Opens a door of ServiceNow's, and says where.
async fn serve(store: &SqliteStore) -> Result<String, String> {
    let engine = Engine::new(Parts {
        store: Arc::new(store.clone()),
        tools: Toolbox::default(),
        clock: Arc::new(SystemClock),
        me: "bench".parse().map_err(told)?,
        timing: Timing::default(),
        shows: None,
        sealing: None,
    });
    let proof = Proof::Signed(Secrets::new(SECRET.into()).map_err(told)?);
    let doors = WebhookAuth::default().and(tenant()?, Source::ServiceNow, proof).map_err(told)?;
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(told)?;
    let address = listener.local_addr().map_err(told)?.to_string();
    tokio::spawn(async move { axum::serve(listener, webhooks(Arc::new(engine), doors)).await });
    Ok(address)
}

/// Delivers over so many connections at once; says how long each delivery took.
async fn deliver(address: &str, crowd: Crowd, first: u32) -> Result<Vec<Duration>, String> {
    let senders = (0..crowd.connections).map(|connection| {
        let requests: Vec<_> = (connection..crowd.deliveries)
            .step_by(usize::try_from(crowd.connections).unwrap_or(1))
            .map(|n| request(address, first + n))
            .collect();
        let address = address.to_owned();
        tokio::spawn(async move { send(&address, requests).await })
    });
    let mut took = Vec::new();
    for sender in senders.collect::<Vec<_>>() {
        took.extend(sender.await.map_err(told)??);
    }
    Ok(took)
}

async fn send(address: &str, requests: Vec<Vec<u8>>) -> Result<Vec<Duration>, String> {
    let mut connection = TcpStream::connect(address).await.map_err(told)?;
    connection.set_nodelay(true).map_err(told)?;
    let mut took = Vec::with_capacity(requests.len());
    for request in requests {
        let began = Instant::now();
        connection.write_all(&request).await.map_err(told)?;
        let reply = reply(&mut connection).await?;
        took.push(began.elapsed());
        if !reply.starts_with("HTTP/1.1 202") {
            return Err(format!("a delivery was not accepted: {reply}"));
        }
    }
    Ok(took)
}

/// One reply, to the end of its body.
async fn reply(connection: &mut TcpStream) -> Result<String, String> {
    let (mut bytes, mut some) = (Vec::new(), [0; REPLY_BYTES_MAX]);
    loop {
        let read = connection.read(&mut some).await.map_err(told)?;
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

/// How many of the deliveries from `first` on the store keeps; all of them are announced as well.
async fn kept(store: &SqliteStore, first: u32, deliveries: u32) -> Result<u32, String> {
    let announced = store.depth(QueueName::Ingest).await.map_err(told)?;
    if announced < u64::from(first) + u64::from(deliveries) {
        return Err(format!("{announced} deliveries were announced"));
    }
    let mut kept = 0;
    for n in first..first + deliveries {
        kept += u32::from(store.entry(&run(n)?).await.map_err(told)?.is_some());
    }
    if kept == deliveries { Ok(kept) } else { Err(format!("{kept} deliveries of {deliveries} were kept")) }
}

fn run(n: u32) -> Result<RunKey, String> {
    let key = IdempotencyKey::new(&format!("servicenow:incident:{}:1", sys_id(n))).map_err(told)?;
    Ok(InboxEntry::run_of(&tenant()?, &key))
}

fn tenant() -> Result<TenantId, String> {
    TenantId::new("bench").map_err(told)
}

fn told(error: impl std::fmt::Display) -> String {
    error.to_string()
}
