//! Whoever stands between a program and AWS, lets everything pass, and remembers what was asked for in IAM's words.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Method, Uri};
use axum::response::Response;
use fakes::server::{Faults, Server};
use serde_json::Value;

use crate::gateway::client;
use crate::roles::{Grant, grant};

/// Headers that belong to one connection.
const OF_A_CONNECTION: [&str; 4] = ["host", "connection", "content-length", "transfer-encoding"];

/// Stands between a program and the services of an account.
pub struct Witness {
    server: Server,
    seen: Arc<Seen>,
}

struct Seen {
    /// Where AWS is.
    aws: String,
    http: reqwest::Client,
    asked: Mutex<Asked>,
}

/// What a program asked for.
#[derive(Debug, Clone, Default)]
pub struct Asked {
    /// What it must be allowed.
    pub grants: BTreeSet<Grant>,
    /// The partition keys of the items it named.
    pub partitions: BTreeSet<String>,
}

impl Witness {
    /// Stands in front of the AWS that listens at `aws`.
    pub async fn before(aws: &str) -> Self {
        let (aws, asked) = (aws.to_owned(), Mutex::new(Asked::default()));
        let seen = Arc::new(Seen { aws, http: client(), asked });
        let router = Router::new().fallback(pass).with_state(Arc::clone(&seen));
        Self { server: Server::start(router, &Faults::default()).await.unwrap(), seen }
    }

    /// The variables that lead a program here. Those for one service count before those for all of them, and a local AWS
    /// sets the latter itself.
    pub fn environment(&self) -> Vec<(String, String)> {
        let services = ["DYNAMODB", "SQS", "S3", "SECRETS_MANAGER"];
        services.map(|service| (format!("AWS_ENDPOINT_URL_{service}"), self.server.url())).into()
    }

    /// What was asked for so far.
    pub fn asked(&self) -> Asked {
        self.seen.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn pass(
    State(seen): State<Arc<Seen>>,
    method: Method,
    uri: Uri,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut passed = headers.clone();
    for name in OF_A_CONNECTION {
        passed.remove(name);
    }
    let request = seen.http.request(method.clone(), format!("{}{uri}", seen.aws)).headers(passed);
    let answer = request.body(body.clone()).send().await.unwrap();
    let status = answer.status();
    let mut response = Response::builder().status(status);
    for (name, value) in answer.headers() {
        if !OF_A_CONNECTION.contains(&name.as_str()) {
            response = response.header(name, value);
        }
    }
    // What is told of a head is the length of a body that is not sent.
    let length = answer.headers().get("content-length").filter(|_| method == Method::HEAD).cloned();
    let told = answer.bytes().await.unwrap();
    if let Some(length) = length {
        response = response.header("content-length", length);
    }
    let mut asked = seen.asked.lock().unwrap_or_else(PoisonError::into_inner);
    match headers.get("x-amz-target").and_then(|target| target.to_str().ok()) {
        Some(target) => asked.called(target, &serde_json::from_slice(&body).unwrap_or_default()),
        None => asked.object(&method, uri.path(), &headers, status.as_u16()),
    }
    response.body(Body::from(told)).unwrap()
}

impl Asked {
    /// An operation of a service that speaks JSON.
    fn called(&mut self, target: &str, wish: &Value) {
        let (service, operation) = target.rsplit_once('.').unwrap_or(("", target));
        let action = operation.strip_suffix("Batch").unwrap_or(operation);
        match service {
            "AmazonSQS" => {
                let url = wish["QueueUrl"].as_str().unwrap_or_default();
                let queue = ["ingest", "decisions", "steps"].into_iter().find(|queue| url.contains(queue));
                let dead = if url.ends_with("-dead") { "-dead" } else { "" };
                self.grants.insert(grant("sqs", action, &format!("{}{dead}", queue.unwrap_or(url))));
            }
            "secretsmanager" => drop(self.grants.insert(grant(service, action, "secret"))),
            _ => self.item(operation, wish),
        }
    }

    /// An operation of DynamoDB. The parts of a transaction are allowed one by one.
    fn item(&mut self, operation: &str, wish: &Value) {
        let parts = wish["TransactItems"].as_array().into_iter().flatten();
        for (part, wish) in parts.filter_map(Value::as_object).flatten() {
            let operation =
                if part == "ConditionCheck" { "ConditionCheckItem" } else { &format!("{part}Item") };
            self.item(operation, wish);
        }
        if operation.starts_with("Transact") {
            return;
        }
        let index = wish["IndexName"].as_str();
        let on = index.map_or_else(|| "table".to_owned(), |index| format!("index {index}"));
        self.grants.insert(grant("dynamodb", operation, &on));
        let keys = wish["RequestItems"].as_object().into_iter().flat_map(|tables| tables.values());
        let keys = keys.filter_map(|table| table["Keys"].as_array()).flatten();
        let named = keys.chain([&wish["Key"], &wish["Item"]]).filter_map(|item| item["pk"]["S"].as_str());
        let queried = wish["ExpressionAttributeValues"][":pk"]["S"].as_str();
        self.partitions.extend(named.chain(queried).map(str::to_owned));
    }

    /// A request for an object in S3.
    fn object(&mut self, method: &Method, path: &str, headers: &HeaderMap, status: u16) {
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
        // Whoever may not list is told that it is forbidden, not that nothing is there.
        if status == 404 {
            self.grants.insert(grant("s3", "ListBucket", bucket));
        }
    }
}
