//! An HTTP client below the AWS SDK that adds latency, throttles partitions and delays visibility, in virtual time.
//!
//! A request is sent to the emulator in real time, on a runtime of its own, while the thread of the simulation waits.
//! Virtual time does not advance meanwhile, so the latency is exactly the simulated one, regardless of the speed of
//! this machine, and the order of all requests is the same each time.

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use aws_smithy_types::byte_stream::ByteStream;
use parking_lot::Mutex;
use serde_json::{Value, json};
use testkit::Random;
use tokio::runtime::Runtime;

use crate::partitions::{Access, Consumption, Partitions, is_shared};
use crate::visibility::{Visibility, name_of, written_keys};

/// The runtime of the requests.
static REAL_TIME: LazyLock<Runtime> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "without a runtime there is no measurement")]
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().expect("a runtime")
});

const THROTTLED: &str =
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"rate"}"#;

/// A write met a transaction that is in progress on the same item.
const CONFLICT: &str =
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#TransactionConflictException","message":"conflict"}"#;

/// The operations that write items.
const WRITES: [&str; 5] = ["PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "TransactWriteItems"];

/// The operations that read items of the table.
const READS: [&str; 3] = ["GetItem", "BatchGetItem", "Query"];

/// The conditions of the network and of DynamoDB.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions {
    /// The mean latency of a request. Each latency is between 50 % and 150 % of it.
    pub(crate) latency: Duration,
    /// The part of the real limits that each partition has; `None` for no limits.
    pub(crate) capacity: Option<f64>,
    /// The longest lag of an index. If it is not zero, transactions become visible item by item too.
    pub(crate) index_lag: Duration,
}

impl Conditions {
    /// No latency and no limits.
    pub(crate) const IDEAL: Self =
        Self { latency: Duration::ZERO, capacity: None, index_lag: Duration::ZERO };

    /// The latency and the limits of DynamoDB, without delayed visibility.
    pub(crate) const fn with_latency(latency: Duration) -> Self {
        Self { latency, capacity: Some(1.0), index_lag: Duration::ZERO }
    }
}

/// The simulated network and the partitions behind it. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    inner: SharedHttpClient,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    conditions: Conditions,
    partitions: Partitions,
    visibility: Visibility,
    /// The endpoint of the table that index queries read; `None` while indexes do not lag.
    replica: Option<String>,
    random: Random,
    requests: u64,
    throttled: u64,
    /// The throttled requests of each partition that all tenants share.
    throttled_shared: BTreeMap<String, u64>,
    /// Units of queries that look for due runs.
    idle_units: f64,
}

/// The load since the last reset.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) throttled: u64,
    pub(crate) hottest: Vec<Consumption>,
}

impl Network {
    /// A network with ideal conditions. `replica` is the endpoint of a second DynamoDB for lagging indexes.
    pub(crate) fn new(seed: u64, replica: Option<String>) -> Self {
        let state = State {
            conditions: Conditions::IDEAL,
            partitions: Partitions::default(),
            visibility: Visibility::default(),
            replica,
            random: Random::new(seed),
            requests: 0,
            throttled: 0,
            throttled_shared: BTreeMap::new(),
            idle_units: 0.0,
        };
        Self {
            inner: aws_smithy_http_client::Builder::new().build_http(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Sets the conditions and forgets the load so far.
    pub(crate) fn start(&self, conditions: Conditions) {
        let mut state = self.state.lock();
        state.conditions = conditions;
        state.partitions.reset(conditions.capacity.unwrap_or(1.0));
        state.visibility.index_lag = conditions.index_lag;
        (state.requests, state.throttled, state.idle_units) = (0, 0, 0.0);
        state.throttled_shared.clear();
    }

    /// The units of reads and writes, without the queries for due runs, which a fleet without runs makes too.
    pub(crate) fn units(&self) -> (f64, f64) {
        let state = self.state.lock();
        let reads = state.partitions.consumed(Access::Read) - state.idle_units;
        (reads, state.partitions.consumed(Access::Write))
    }

    /// The hottest partitions that all tenants share.
    pub(crate) fn hottest_shared(&self) -> Vec<Consumption> {
        let mut hottest = self.state.lock().partitions.hottest(usize::MAX);
        hottest.retain(|used| is_shared(&used.partition));
        hottest.truncate(3);
        hottest
    }

    /// What was read of a partition.
    pub(crate) fn reads_of(&self, partition: &str) -> Option<Consumption> {
        let used = self.state.lock().partitions.hottest(usize::MAX);
        used.into_iter().find(|used| used.partition == partition && used.access == Access::Read)
    }

    /// The throttled requests of each partition that all tenants share.
    pub(crate) fn throttled_shared(&self) -> BTreeMap<String, u64> {
        self.state.lock().throttled_shared.clone()
    }

    /// The units of queries for due runs.
    pub(crate) fn idle_units(&self) -> f64 {
        self.state.lock().idle_units
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.state.lock();
        Load { requests: state.requests, throttled: state.throttled, hottest: state.partitions.hottest(3) }
    }
}

impl State {
    /// The latency of the next request.
    fn next_latency(&mut self) -> Duration {
        let mean = self.conditions.latency;
        mean / 2 + self.random.up_to(mean)
    }

    /// The response to a request that DynamoDB does not carry out.
    fn refusal(&mut self, operation: &str, body: &Value) -> Option<Vec<u8>> {
        self.requests += 1;
        if self.conditions.capacity.is_some()
            && let Some(partition) = self.partitions.exhausted_partition(operation, body)
        {
            self.throttled += 1;
            if is_shared(&partition) {
                *self.throttled_shared.entry(partition).or_default() += 1;
            }
            return Some(THROTTLED.into());
        }
        let conflict = WRITES.contains(&operation) && self.visibility.in_transaction(&written_keys(body));
        conflict.then(|| match body["TransactItems"].as_array() {
            Some(items) => {
                let reasons: Vec<Value> =
                    items.iter().map(|_| json!({ "Code": "TransactionConflict" })).collect();
                let error = "com.amazonaws.dynamodb.v20120810#TransactionCanceledException";
                json!({ "__type": error, "message": "conflict", "CancellationReasons": reasons })
                    .to_string()
                    .into()
            }
            None => CONFLICT.into(),
        })
    }
}

impl HttpClient for Network {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Connection { inner, state: Arc::clone(&self.state) })
    }
}

#[derive(Debug, Clone)]
struct Connection {
    inner: SharedHttpConnector,
    state: Arc<Mutex<State>>,
}

impl HttpConnector for Connection {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let connection = self.clone();
        HttpConnectorFuture::new(async move { connection.exchange(request).await })
    }
}

impl Connection {
    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let mut body: Value = serde_json::from_slice(request.body().bytes().unwrap_or_default())
            .map_err(|error| ConnectorError::other(error.into(), None))?;
        let latency = self.state.lock().next_latency();
        tokio::time::sleep(latency / 2).await;
        let refused = self.state.lock().refusal(&operation, &body);
        if let Some(refused) = refused {
            tokio::time::sleep(latency / 2).await;
            return response(400, refused);
        }
        body["ReturnConsumedCapacity"] = json!("INDEXES");
        let (status, reply) = self.execute(&request, &operation, &body, latency / 2)?;
        tokio::time::sleep(latency / 2).await;
        response(status, reply)
    }

    /// Sends a request to the emulator and records its consequences. The caller gets the reply after `reply_latency`.
    fn execute(
        &self,
        request: &HttpRequest,
        operation: &str,
        body: &Value,
        reply_latency: Duration,
    ) -> Result<(u16, Vec<u8>), ConnectorError> {
        let replica = self.state.lock().replica.clone();
        let Some(replica) = replica else {
            let (status, reply) = self.forward(copy(request, operation, body, None)?)?;
            if let Ok(reply) = serde_json::from_slice(&reply) {
                self.consume(operation, body, &reply);
            }
            return Ok((status, reply));
        };
        if body["IndexName"].is_string() {
            return self.query_index(request, body, &replica);
        }
        let keys = if WRITES.contains(&operation) { written_keys(body) } else { Vec::new() };
        let before = if operation == "TransactWriteItems" {
            self.images(request, body, &keys)?
        } else {
            HashMap::new()
        };
        let (status, reply) = self.forward(copy(request, operation, body, None)?)?;
        let Ok(mut parsed) = serde_json::from_slice::<Value>(&reply) else { return Ok((status, reply)) };
        self.consume(operation, body, &parsed);
        if keys.is_empty() && !READS.contains(&operation) {
            // An operation on the table itself.
            drop(self.forward(copy(request, operation, body, Some(&replica))?)?);
        }
        if status != 200 {
            return Ok((status, reply));
        }
        if keys.is_empty() {
            self.state.lock().visibility.mask_response(&mut parsed);
            return Ok((status, parsed.to_string().into()));
        }
        let after = self.images(request, body, &keys)?;
        let State { visibility, random, conditions, .. } = &mut *self.state.lock();
        visibility.record_writes(&keys, &after, random);
        if operation == "TransactWriteItems" && !conditions.index_lag.is_zero() {
            visibility.hide(&keys, &before, reply_latency, random);
        }
        Ok((status, reply))
    }

    /// Queries the replica, after the changes whose lag has passed reached it.
    fn query_index(
        &self,
        request: &HttpRequest,
        body: &Value,
        replica: &str,
    ) -> Result<(u16, Vec<u8>), ConnectorError> {
        let table = body["TableName"].as_str().unwrap_or_default();
        let changes = self.state.lock().visibility.replication_requests(table);
        for change in changes {
            let (status, reply) = self.forward(copy(request, "BatchWriteItem", &change, Some(replica))?)?;
            if status != 200 {
                return Ok((status, reply));
            }
        }
        let (status, reply) = self.forward(copy(request, "Query", body, Some(replica))?)?;
        if let Ok(reply) = serde_json::from_slice(&reply) {
            self.consume("Query", body, &reply);
        }
        Ok((status, reply))
    }

    fn consume(&self, operation: &str, body: &Value, reply: &Value) {
        let mut state = self.state.lock();
        state.partitions.consume(operation, body, reply);
        if body["IndexName"] == "due" {
            state.idle_units += reply["ConsumedCapacity"]["CapacityUnits"].as_f64().unwrap_or_default();
        }
    }

    /// The items with these keys, by name.
    fn images(
        &self,
        request: &HttpRequest,
        body: &Value,
        keys: &[Value],
    ) -> Result<HashMap<String, Value>, ConnectorError> {
        let Some(table) = table_of(body) else { return Ok(HashMap::new()) };
        let get = json!({ "RequestItems": { &table: { "Keys": keys, "ConsistentRead": true } } });
        let (_, reply) = self.forward(copy(request, "BatchGetItem", &get, None)?)?;
        let reply: Value =
            serde_json::from_slice(&reply).map_err(|error| ConnectorError::other(error.into(), None))?;
        let items = reply["Responses"][&table].as_array().cloned().unwrap_or_default();
        Ok(items.into_iter().filter_map(|item| Some((name_of(&item)?, item))).collect())
    }

    /// Sends a request in real time. This thread waits, so that virtual time stands still.
    fn forward(&self, request: HttpRequest) -> Result<(u16, Vec<u8>), ConnectorError> {
        let inner = self.inner.clone();
        let (reply, replied) = sync_channel(1);
        REAL_TIME.spawn(async move {
            let exchange = async {
                let response = inner.call(request).await?;
                let status = response.status().as_u16();
                let body = ByteStream::new(response.into_body()).collect().await;
                Ok((status, body.map_err(|error| ConnectorError::io(error.into()))?.to_vec()))
            };
            // The receiver waits until it has the reply.
            let _ = reply.send(exchange.await);
        });
        replied.recv().map_err(|error| ConnectorError::other(error.into(), None))?
    }
}

/// The table that a request writes to.
fn table_of(body: &Value) -> Option<String> {
    let batch_table = || body["RequestItems"].as_object()?.keys().next().cloned();
    let transaction_table = || {
        let first = body["TransactItems"].as_array()?.first()?.as_object()?.values().next()?;
        first["TableName"].as_str().map(str::to_owned)
    };
    body["TableName"].as_str().map(str::to_owned).or_else(transaction_table).or_else(batch_table)
}

/// A request with another operation and body, to another endpoint if there is one.
fn copy(
    request: &HttpRequest,
    operation: &str,
    body: &Value,
    endpoint: Option<&str>,
) -> Result<HttpRequest, ConnectorError> {
    let other = |error: &str| ConnectorError::other(error.to_owned().into(), None);
    let mut copied = request.try_clone().ok_or_else(|| other("the request cannot be copied"))?;
    if let Some(endpoint) = endpoint {
        copied.set_uri(format!("{endpoint}/")).map_err(|error| ConnectorError::other(error.into(), None))?;
    }
    let text = body.to_string();
    copied.headers_mut().insert("content-length", text.len().to_string());
    copied.headers_mut().insert("x-amz-target", format!("DynamoDB_20120810.{operation}"));
    *copied.body_mut() = text.into();
    Ok(copied)
}

fn response(status: u16, body: Vec<u8>) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(status).map_err(|error| ConnectorError::other(error.into(), None))?;
    Ok(HttpResponse::new(status, body.into()))
}
