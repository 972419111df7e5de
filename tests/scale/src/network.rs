//! An HTTP client below the AWS SDK that adds latency and throttles partitions, in virtual time.
//!
//! A request is sent to the emulator in real time, on a runtime of its own. Virtual time does not advance while it
//! is in flight, so the latency is exactly the simulated one, regardless of the speed of this machine.

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
use tokio::runtime::Runtime;

use crate::partitions::{Consumption, Partitions};

/// The runtime of the requests.
static REAL_TIME: LazyLock<Runtime> = LazyLock::new(|| {
    #[expect(clippy::expect_used, reason = "without a runtime there is no measurement")]
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("a runtime")
});

const THROTTLED: &str =
    r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"rate"}"#;

/// The simulated network and the partitions behind it. Clones share their state.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    inner: SharedHttpClient,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    partitions: Partitions,
    /// The latency is between 50 % and 150 % of this.
    latency: Duration,
    random: u64,
    requests: u64,
    throttled: u64,
}

/// The load since the last reset.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) requests: u64,
    pub(crate) throttled: u64,
    pub(crate) hottest: Vec<Consumption>,
}

impl Network {
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            partitions: Partitions::default(),
            latency: Duration::ZERO,
            random: seed,
            requests: 0,
            throttled: 0,
        };
        Self {
            inner: aws_smithy_http_client::Builder::new().build_http(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    /// Sets the mean latency of a request and forgets the load so far.
    pub(crate) fn start(&self, latency: Duration) {
        let mut state = self.state.lock();
        state.partitions.reset();
        (state.latency, state.requests, state.throttled) = (latency, 0, 0);
    }

    /// The hottest partitions that all tenants share.
    pub(crate) fn hottest_shared(&self) -> Vec<Consumption> {
        let shared = |used: &Consumption| {
            let name = used.partition.as_str();
            name.starts_with("due ") || name.starts_with("open_approvals paused") || name.starts_with('#')
        };
        let mut hottest = self.state.lock().partitions.hottest(usize::MAX);
        hottest.retain(shared);
        hottest.truncate(3);
        hottest
    }

    pub(crate) fn load(&self) -> Load {
        let state = self.state.lock();
        Load { requests: state.requests, throttled: state.throttled, hottest: state.partitions.hottest(3) }
    }
}

impl State {
    /// The latency of the next request.
    fn next_latency(&mut self) -> Duration {
        // SplitMix64: the same seed gives the same latencies.
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        let per_mille = u32::try_from((mixed ^ (mixed >> 31)) % 1_001).unwrap_or(500);
        self.latency / 2 + self.latency * per_mille / 1_000
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
    async fn exchange(&self, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let mut body: Value = serde_json::from_slice(request.body().bytes().unwrap_or_default())
            .map_err(|error| ConnectorError::other(error.into(), None))?;
        let latency = self.state.lock().next_latency();
        tokio::time::sleep(latency / 2).await;
        if self.is_throttled(&operation, &body) {
            tokio::time::sleep(latency / 2).await;
            return response(400, THROTTLED.as_bytes().to_vec());
        }
        body["ReturnConsumedCapacity"] = json!("INDEXES");
        let text = body.to_string();
        request.headers_mut().insert("content-length", text.len().to_string());
        *request.body_mut() = text.into();
        let (status, reply) = self.forward(request).await?;
        if let Ok(reply) = serde_json::from_slice(&reply) {
            self.state.lock().partitions.consume(&operation, &body, &reply);
        }
        tokio::time::sleep(latency / 2).await;
        response(status, reply)
    }

    fn is_throttled(&self, operation: &str, body: &Value) -> bool {
        let mut state = self.state.lock();
        state.requests += 1;
        let throttled = !state.latency.is_zero() && state.partitions.exhausted(operation, body);
        state.throttled += u64::from(throttled);
        throttled
    }

    async fn forward(&self, request: HttpRequest) -> Result<(u16, Vec<u8>), ConnectorError> {
        let inner = self.inner.clone();
        // Paused time does not advance while a blocking task runs.
        let replied = tokio::task::spawn_blocking(move || {
            REAL_TIME.block_on(async move {
                let response = inner.call(request).await?;
                let status = response.status().as_u16();
                let body = ByteStream::new(response.into_body()).collect().await;
                Ok((status, body.map_err(|error| ConnectorError::io(error.into()))?.to_vec()))
            })
        });
        replied.await.map_err(|error| ConnectorError::other(error.into(), None))?
    }
}

fn response(status: u16, body: Vec<u8>) -> Result<HttpResponse, ConnectorError> {
    let status = StatusCode::try_from(status).map_err(|error| ConnectorError::other(error.into(), None))?;
    Ok(HttpResponse::new(status, body.into()))
}
