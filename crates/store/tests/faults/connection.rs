//! An HTTP client below the AWS SDK that injects faults.
//!
//! Requests run on their own runtime, in real time. A test with paused time can use it: time does not advance while
//! a request is in flight, and it does when all tasks wait.

use std::collections::VecDeque;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_sdk_s3::primitives::ByteStream;
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use serde_json::{Value, json};
use tokio::runtime::Runtime;

/// The runtime that requests run on, in real time.
pub(crate) static REAL_TIME: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// The age of an S3 object. All other response headers are dropped.
const LAST_MODIFIED: &str = "last-modified";

/// The fault of one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The request arrives; its response is lost.
    LoseReply,
    /// The request is lost.
    LoseRequest,
    /// The request is lost, and no error is returned.
    Silence,
    /// Only part of a batch is processed.
    Partial,
    /// The service returns this response and does nothing.
    Respond { status: u16, body: String },
}

/// A fault that is injected into requests of one operation.
#[derive(Debug, Clone)]
pub(crate) struct Injection {
    pub(crate) operation: String,
    /// The number of requests that succeed first.
    pub(crate) after: usize,
    /// The number of requests that fail then.
    pub(crate) times: usize,
    pub(crate) fault: Fault,
}

impl Injection {
    /// Every request of `operation` fails.
    pub(crate) fn forever(operation: &str, fault: Fault) -> Self {
        Self { operation: operation.to_owned(), after: 0, times: usize::MAX, fault }
    }

    /// The `number`th request of `operation` fails.
    pub(crate) fn once(operation: &str, number: usize, fault: Fault) -> Self {
        Self { operation: operation.to_owned(), after: number, times: 1, fault }
    }
}

/// An HTTP client that injects faults.
#[derive(Debug, Clone)]
pub(crate) struct FaultyConnection {
    inner: SharedHttpClient,
    script: Arc<Mutex<Script>>,
}

/// The faults to inject, and the requests so far.
#[derive(Debug, Default)]
struct Script {
    faults: VecDeque<Fault>,
    injections: Vec<Injection>,
    requests: Vec<SentRequest>,
}

#[derive(Debug, Clone)]
pub(crate) struct SentRequest {
    pub(crate) operation: String,
    /// The response, if there was one.
    pub(crate) response: String,
}

impl FaultyConnection {
    /// A client whose first requests fail in these ways.
    pub(crate) fn with(faults: impl IntoIterator<Item = Fault>) -> Self {
        let inner = aws_smithy_http_client::Builder::new().build_http();
        let script = Script { faults: faults.into_iter().collect(), ..Script::default() };
        Self { inner, script: Arc::new(Mutex::new(script)) }
    }

    /// Replaces the injected faults and forgets the requests so far.
    pub(crate) fn set(&self, injections: impl IntoIterator<Item = Injection>) {
        *self.script.lock().unwrap() =
            Script { injections: injections.into_iter().collect(), ..Script::default() };
    }

    /// The requests since the last call of `set`.
    pub(crate) fn requests(&self) -> Vec<SentRequest> {
        self.script.lock().unwrap().requests.clone()
    }
}

impl HttpClient for FaultyConnection {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(FaultyConnector { inner, script: Arc::clone(&self.script) })
    }
}

#[derive(Debug, Clone)]
struct FaultyConnector {
    inner: SharedHttpConnector,
    script: Arc<Mutex<Script>>,
}

impl HttpConnector for FaultyConnector {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (number, fault) = register(&mut self.script.lock().unwrap(), operation(&request));
        let connector = self.clone();
        HttpConnectorFuture::new(async move {
            match fault {
                None => connector.forward(number, request).await,
                Some(Fault::LoseReply) => {
                    connector.forward(number, request).await?;
                    Err(ConnectorError::io("connection lost".into()))
                }
                Some(Fault::LoseRequest) => Err(ConnectorError::timeout("no response".into())),
                Some(Fault::Silence) => std::future::pending().await,
                Some(Fault::Partial) => connector.forward_part(number, request).await,
                Some(Fault::Respond { status, body }) => Ok(response(status, body.into_bytes())),
            }
        })
    }
}

/// Registers a request. Returns its number and the fault to inject.
fn register(script: &mut MutexGuard<'_, Script>, operation: String) -> (usize, Option<Fault>) {
    let before = script.requests.iter().filter(|request| request.operation == operation).count();
    let injection = script.injections.iter().find(|injection| {
        injection.operation == operation
            && (injection.after..injection.after.saturating_add(injection.times)).contains(&before)
    });
    let fault = injection.map(|injection| injection.fault.clone());
    script.requests.push(SentRequest { operation, response: String::new() });
    (script.requests.len() - 1, fault.or_else(|| script.faults.pop_front()))
}

impl FaultyConnector {
    /// Sends a request and waits for the whole response.
    async fn forward(&self, number: usize, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        disable_long_polling(&mut request);
        let inner = self.inner.clone();
        // Paused time does not advance while a blocking task runs.
        let responded = tokio::task::spawn_blocking(move || {
            REAL_TIME.block_on(async move {
                let response = inner.call(request).await?;
                let status = response.status().as_u16();
                let age = response.headers().get(LAST_MODIFIED).map(str::to_owned);
                let body = ByteStream::new(response.into_body()).collect().await;
                let body = body.map_err(|error| ConnectorError::io(error.into()))?;
                Ok((status, age, body.to_vec()))
            })
        });
        let (status, age, body) = responded.await.unwrap()?;
        if let Some(request) = self.script.lock().unwrap().requests.get_mut(number) {
            request.response = String::from_utf8_lossy(&body).into_owned();
        }
        let mut response = response(status, body);
        if let Some(age) = age {
            response.headers_mut().insert(LAST_MODIFIED, age);
        }
        Ok(response)
    }

    /// Sends part of a batch and reports the rest as failed.
    async fn forward_part(
        &self,
        number: usize,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, ConnectorError> {
        let mut body = body_of(&request);
        let Some(failed) = split_batch(&mut body) else {
            return Ok(response(200, body.to_string().into_bytes()));
        };
        write_body(&mut request, &body);
        let forwarded = self.forward(number, request).await?;
        let mut reply: Value = serde_json::from_slice(forwarded.body().bytes().unwrap()).unwrap();
        reply.as_object_mut().unwrap().extend(failed.as_object().unwrap().clone());
        Ok(response(200, reply.to_string().into_bytes()))
    }
}

/// Removes the part of a batch that fails, and returns what the response says about it. If nothing is left to
/// process, `body` becomes the whole response.
fn split_batch(body: &mut Value) -> Option<Value> {
    if let Some(entries) = body["Entries"].as_array_mut() {
        let last = entries.pop()?;
        let failed = json!({ "Id": last["Id"], "SenderFault": false, "Code": "InternalError" });
        return Some(json!({ "Failed": [failed] }));
    }
    let tables = body["RequestItems"].as_object_mut()?;
    let (table, batch) = tables.iter_mut().next()?;
    if let Some(puts) = batch.as_array_mut() {
        let rest = puts.split_off(puts.len() / 2);
        let unprocessed = json!({ table.clone(): rest });
        if puts.is_empty() {
            *body = json!({ "UnprocessedItems": unprocessed });
            return None;
        }
        return Some(json!({ "UnprocessedItems": unprocessed }));
    }
    let keys = batch["Keys"].as_array_mut()?;
    let rest = keys.split_off(keys.len() / 2);
    let nothing = keys.is_empty();
    let mut unprocessed = json!({ table.clone(): batch.clone() });
    unprocessed[table]["Keys"] = Value::Array(rest);
    if nothing {
        *body = json!({ "Responses": {}, "UnprocessedKeys": unprocessed });
        return None;
    }
    Some(json!({ "UnprocessedKeys": unprocessed }))
}

/// An emulator returns all messages at once, so long polling is not needed.
fn disable_long_polling(request: &mut HttpRequest) {
    if operation(request) == "ReceiveMessage" {
        let mut body = body_of(request);
        body["WaitTimeSeconds"] = json!(0);
        write_body(request, &body);
    }
}

fn body_of(request: &HttpRequest) -> Value {
    serde_json::from_slice(request.body().bytes().unwrap()).unwrap()
}

fn write_body(request: &mut HttpRequest, body: &Value) {
    let body = body.to_string();
    request.headers_mut().insert("content-length", body.len().to_string());
    *request.body_mut() = body.into();
}

fn response(status: u16, body: Vec<u8>) -> HttpResponse {
    HttpResponse::new(StatusCode::try_from(status).unwrap(), body.into())
}

/// The operation of a request: the target header, or the method and path for S3.
fn operation(request: &HttpRequest) -> String {
    if let Some(target) = request.headers().get("x-amz-target") {
        return target.rsplit('.').next().unwrap_or(target).to_owned();
    }
    let path = request.uri().split("://").last().and_then(|rest| rest.split_once('/'));
    let of_bucket = path.is_none_or(|(_, path)| !path.trim_end_matches('/').contains('/'));
    match (request.method(), of_bucket) {
        ("PUT", true) => "CreateBucket".to_owned(),
        ("PUT", false) => "PutObject".to_owned(),
        ("GET", false) => "GetObject".to_owned(),
        ("HEAD", false) => "HeadObject".to_owned(),
        (method, _) => format!("{method} {}", request.uri()),
    }
}
