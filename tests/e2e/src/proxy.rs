//! A proxy between a program and AWS that forwards every request and records the IAM actions it needs.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use fakes::server::{FakeFaults, Server};
use parking_lot::Mutex;
use serde_json::Value;

use crate::gateway::client;
use crate::roles::{Grant, grant};

/// Headers that belong to one connection.
const CONNECTION_HEADERS: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];

pub struct RecordingProxy {
    server: Server,
    state: Arc<ProxyState>,
}

struct ProxyState {
    /// The address of the local AWS.
    aws: String,
    http: reqwest::Client,
    recorded: Mutex<RecordedRequests>,
}

/// The requests of a program.
#[derive(Debug, Clone, Default)]
pub struct RecordedRequests {
    /// The IAM actions that it needs.
    pub grants: BTreeSet<Grant>,
    /// The partition keys of the items it named.
    pub partitions: BTreeSet<String>,
}

impl RecordingProxy {
    /// Starts a proxy in front of the AWS at `aws`.
    pub async fn start(aws: &str) -> Self {
        let (aws, recorded) = (aws.to_owned(), Mutex::new(RecordedRequests::default()));
        let state = Arc::new(ProxyState { aws, http: client(), recorded });
        let router = Router::new().fallback(forward).with_state(Arc::clone(&state));
        Self { server: Server::start(router, &FakeFaults::default()).await.unwrap(), state }
    }

    /// The variables that direct a program to the proxy. A variable for one service overrides the one for all services, which
    /// a local AWS sets itself.
    pub fn environment(&self) -> Vec<(String, String)> {
        let services = ["DYNAMODB", "SQS", "S3", "SECRETS_MANAGER"];
        services.map(|service| (format!("AWS_ENDPOINT_URL_{service}"), self.server.url())).into()
    }

    pub fn recorded(&self) -> RecordedRequests {
        self.state.recorded.lock().clone()
    }
}

async fn forward(
    State(state): State<Arc<ProxyState>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut forwarded = headers.clone();
    for name in CONNECTION_HEADERS {
        forwarded.remove(name);
    }
    let request = state.http.request(method.clone(), format!("{}{uri}", state.aws)).headers(forwarded);
    let answer = request.body(body.clone()).send().await.unwrap();
    let status = answer.status();
    let mut response = Response::builder().status(status);
    for (name, value) in answer.headers() {
        if !CONNECTION_HEADERS.contains(&name.as_str()) {
            response = response.header(name, value);
        }
    }
    // The reply to a HEAD request has the length of a body that is not sent.
    let length = answer.headers().get("content-length").filter(|_| method == Method::HEAD).cloned();
    let body_bytes = answer.bytes().await.unwrap();
    if let Some(length) = length {
        response = response.header("content-length", length);
    }
    let mut recorded = state.recorded.lock();
    match headers.get("x-amz-target").and_then(|target| target.to_str().ok()) {
        Some(target) => recorded.record_json(target, &serde_json::from_slice(&body).unwrap_or_default()),
        None => recorded.record_s3(&method, uri.path(), &headers, status.as_u16()),
    }
    response.body(Body::from(body_bytes)).unwrap()
}

impl RecordedRequests {
    /// An operation of a service with a JSON protocol.
    fn record_json(&mut self, target: &str, request: &Value) {
        let (service, operation) = target.rsplit_once('.').unwrap_or(("", target));
        let action = operation.strip_suffix("Batch").unwrap_or(operation);
        match service {
            "AmazonSQS" => {
                let url = request["QueueUrl"].as_str().unwrap_or_default();
                let queue = ["ingest", "decisions", "steps"].into_iter().find(|queue| url.contains(queue));
                let dead = if url.ends_with("-dead") { "-dead" } else { "" };
                self.grants.insert(grant("sqs", action, &format!("{}{dead}", queue.unwrap_or(url))));
            }
            "secretsmanager" => drop(self.grants.insert(grant(service, action, "secret"))),
            _ => self.record_dynamodb(operation, request),
        }
    }

    /// An operation of DynamoDB. IAM authorizes each part of a transaction.
    fn record_dynamodb(&mut self, operation: &str, request: &Value) {
        let parts = request["TransactItems"].as_array().into_iter().flatten();
        for (part, request) in parts.filter_map(Value::as_object).flatten() {
            let operation =
                if part == "ConditionCheck" { "ConditionCheckItem" } else { &format!("{part}Item") };
            self.record_dynamodb(operation, request);
        }
        if operation.starts_with("Transact") {
            return;
        }
        let index = request["IndexName"].as_str();
        let on = index.map_or_else(|| "table".to_owned(), |index| format!("index {index}"));
        self.grants.insert(grant("dynamodb", operation, &on));
        let keys = request["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
        let keys = keys.filter_map(|table| table["Keys"].as_array()).flatten();
        let named =
            keys.chain([&request["Key"], &request["Item"]]).filter_map(|item| item["pk"]["S"].as_str());
        let queried = request["ExpressionAttributeValues"][":pk"]["S"].as_str();
        self.partitions.extend(named.chain(queried).map(str::to_owned));
    }

    /// A request for an object in S3.
    fn record_s3(&mut self, method: &Method, path: &str, headers: &HeaderMap, status: u16) {
        let bucket = path.split('/').nth(1).unwrap_or_default();
        let bucket = ["payloads", "evidence"].into_iter().find(|of| bucket.ends_with(of)).unwrap_or(bucket);
        let objects = format!("{bucket}/*");
        match *method {
            Method::PUT => drop(self.grants.insert(grant("s3", "PutObject", &objects))),
            Method::GET | Method::HEAD => drop(self.grants.insert(grant("s3", "GetObject", &objects))),
            _ => drop(self.grants.insert(grant("s3", method.as_str(), &objects))),
        }
        if headers.contains_key("x-amz-object-lock-mode") {
            self.grants.insert(grant("s3", "PutObjectRetention", &objects));
        }
        // Without `ListBucket`, S3 answers 403 instead of 404 for a missing object.
        if status == 404 {
            self.grants.insert(grant("s3", "ListBucket", bucket));
        }
    }
}
