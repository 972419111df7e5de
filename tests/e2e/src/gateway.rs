//! Functions behind a gateway, deployed to a local AWS by its own HTTP interface.
//!
//! The SDK crates for Lambda and API Gateway would take longer to compile than everything else here together,
//! and what is asked of them is five requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::zip::zipped;

/// How long somebody on the internet waits for a reply.
const REPLY_WITHIN: Duration = Duration::from_secs(30);

/// How long a schedule waits: longer than any function may take, so that what is told is the function's end.
const CALL_WITHIN: Duration = Duration::from_mins(1);

/// A function that is to be deployed.
pub struct Function<'a> {
    /// What it is called.
    pub name: &'a str,
    /// The program, as it was built.
    pub program: &'a Path,
    /// After how long a call is ended.
    pub timeout: Duration,
    /// What it finds in its environment.
    pub environment: &'a BTreeMap<String, String>,
}

/// Speaks to a local AWS about functions and gateways.
pub struct Gateway {
    endpoint: String,
    http: reqwest::Client,
}

/// Where requests to the functions go.
pub struct Api {
    endpoint: String,
    host: String,
    http: reqwest::Client,
}

/// What a function replied.
#[derive(Debug)]
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    /// When to come again, if it said so.
    pub retry_after: Option<Duration>,
    /// The body.
    pub body: String,
}

impl Gateway {
    /// A gateway at the local AWS that listens at `endpoint`.
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), http: client() }
    }

    /// Deploys a function.
    pub async fn deploy(&self, function: &Function<'_>) {
        let program = std::fs::read(function.program).unwrap_or_else(|error| {
            panic!("{}: {error}; `cargo xtask test` builds it", function.program.display())
        });
        let wish = json!({
            "FunctionName": function.name,
            "Runtime": "provided.al2023",
            "Role": "arn:aws:iam::000000000000:role/countersign",
            "Handler": "bootstrap",
            "Timeout": function.timeout.as_secs(),
            "Environment": { "Variables": function.environment },
            "Code": { "ZipFile": STANDARD.encode(zipped("bootstrap", &program)) },
        });
        self.ask("lambda", "/2015-03-31/functions", &wish).await;
    }

    /// Calls a function directly, as a schedule does. What it answered, or why it did not.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<Value, String> {
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let request = self.request("lambda", &path).header("content-type", "application/json");
        let response = request.timeout(CALL_WITHIN).body(event.to_string()).send().await;
        let response = response.map_err(|error| error.to_string())?;
        // A function that fails is a call that succeeded.
        let failed = response.headers().get("x-amz-function-error").cloned();
        let answer = read(response).await?;
        match failed {
            Some(how) => Err(format!("{function} failed, {how:?}: {answer}")),
            None => Ok(answer),
        }
    }

    /// Keeps a secret in the account.
    pub async fn keep_secret(&self, name: &str, secret: &Value) {
        let wish = json!({ "Name": name, "SecretString": secret.to_string() });
        let request =
            self.request("secretsmanager", "/").header("x-amz-target", "secretsmanager.CreateSecret");
        self.send(request.header("content-type", "application/x-amz-json-1.1").body(wish.to_string()), name)
            .await;
    }

    /// An HTTP API with these routes, each to a function.
    pub async fn api(&self, routes: &[(String, String)]) -> Api {
        let service = "apigateway";
        let api = self.ask(service, "/v2/apis", &json!({ "name": "journeys", "protocolType": "HTTP" })).await;
        let id = text(&api, "apiId");
        for (route, function) in routes {
            let wish = json!({
                "integrationType": "AWS_PROXY",
                "integrationUri": format!("arn:aws:lambda:us-east-1:000000000000:function:{function}"),
                "payloadFormatVersion": "2.0",
            });
            let integration = self.ask(service, &format!("/v2/apis/{id}/integrations"), &wish).await;
            let target = format!("integrations/{}", text(&integration, "integrationId"));
            let wish = json!({ "routeKey": route, "target": target });
            self.ask(service, &format!("/v2/apis/{id}/routes"), &wish).await;
        }
        let stage = json!({ "stageName": "$default", "autoDeploy": true });
        self.ask(service, &format!("/v2/apis/{id}/stages"), &stage).await;
        let port = self.endpoint.rsplit(':').next().unwrap_or_default();
        let host = format!("{id}.execute-api.localhost:{port}");
        Api { endpoint: self.endpoint.clone(), host, http: self.http.clone() }
    }

    async fn ask(&self, service: &str, path: &str, wish: &Value) -> Value {
        let request = self.request(service, path).header("content-type", "application/json");
        self.send(request.body(wish.to_string()), path).await
    }

    fn request(&self, service: &str, path: &str) -> RequestBuilder {
        // Nobody checks the signature here; the service is told by the credential's scope.
        let scope = format!("Credential=test/20260101/us-east-1/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        self.http.post(format!("{}{path}", self.endpoint)).header("authorization", authorization)
    }

    async fn send(&self, request: RequestBuilder, what: &str) -> Value {
        answer(request).await.unwrap_or_else(|why| panic!("{what}: {why}"))
    }
}

/// Speaks HTTP to a local AWS.
pub(crate) fn client() -> reqwest::Client {
    // A client is built for TLS even where it never speaks it. Somebody may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::new()
}

async fn answer(request: RequestBuilder) -> Result<Value, String> {
    read(request.send().await.map_err(|error| error.to_string())?).await
}

async fn read(response: Response) -> Result<Value, String> {
    let status = response.status();
    let body = response.text().await.unwrap_or_default();
    if !status.is_success() {
        return Err(format!("{status} {body}"));
    }
    Ok(serde_json::from_str(&body).unwrap_or_default())
}

impl Api {
    /// Posts `body`, as somebody on the internet would.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_post(path, headers, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// The same; an error if there was no reply.
    pub async fn try_post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply, reqwest::Error> {
        let request = self.http.post(format!("{}{path}", self.endpoint)).header("host", &self.host);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.timeout(REPLY_WITHIN).body(body.to_vec()).send().await?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|secs| secs.parse().ok()).map(Duration::from_secs);
        Ok(Reply { status, retry_after, body: response.text().await? })
    }
}

fn text(answer: &Value, name: &str) -> String {
    answer[name].as_str().unwrap_or_else(|| panic!("no {name} in {answer}")).to_owned()
}
