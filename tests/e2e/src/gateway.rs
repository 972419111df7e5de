//! Deploys functions behind an HTTP API to a local AWS, with plain HTTP requests.
//!
//! The SDK crates for Lambda and API Gateway would take longer to compile than everything else here, for five requests.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};

use crate::zip::zipped;

/// How long a client waits for a reply.
const REPLY_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a direct invocation waits: longer than any function timeout, so that the result is the function's own.
const INVOKE_TIMEOUT: Duration = Duration::from_mins(1);

/// A function to deploy.
pub struct Function<'a> {
    pub name: &'a str,
    /// The path of the built program.
    pub program: &'a Path,
    pub timeout: Duration,
    pub environment: &'a BTreeMap<String, String>,
}

/// A client for functions, APIs and secrets of a local AWS.
pub struct Gateway {
    endpoint: String,
    http: reqwest::Client,
}

/// The deployed HTTP API.
pub struct Api {
    endpoint: String,
    host: String,
    http: reqwest::Client,
}

/// The reply of a function.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    /// The `Retry-After` header.
    pub retry_after: Option<Duration>,
    pub body: String,
}

impl Gateway {
    /// A client of the local AWS at `endpoint`.
    pub fn new(endpoint: &str) -> Self {
        Self { endpoint: endpoint.to_owned(), http: client() }
    }

    pub async fn deploy(&self, function: &Function<'_>) {
        let program = std::fs::read(function.program).unwrap_or_else(|error| {
            panic!("{}: {error}; `cargo xtask test` builds it", function.program.display())
        });
        let body = json!({
            "FunctionName": function.name,
            "Runtime": "provided.al2023",
            "Role": "arn:aws:iam::000000000000:role/countersign",
            "Handler": "bootstrap",
            "Timeout": function.timeout.as_secs(),
            "Environment": { "Variables": function.environment },
            "Code": { "ZipFile": STANDARD.encode(zipped("bootstrap", &program)) },
        });
        self.post("lambda", "/2015-03-31/functions", &body).await;
    }

    /// Invokes a function directly, as a schedule does. Returns its answer, or the error.
    pub async fn invoke(&self, function: &str, event: &Value) -> Result<Value, String> {
        let path = format!("/2015-03-31/functions/{function}/invocations");
        let request = self.request("lambda", &path).header("content-type", "application/json");
        let response = request.timeout(INVOKE_TIMEOUT).body(event.to_string()).send().await;
        let response = response.map_err(|error| error.to_string())?;
        // The invocation succeeds even if the function fails.
        let failed = response.headers().get("x-amz-function-error").cloned();
        let answer = read(response).await?;
        match failed {
            Some(kind) => Err(format!("{function} failed with {kind:?}: {answer}")),
            None => Ok(answer),
        }
    }

    pub async fn create_secret(&self, name: &str, secret: &Value) {
        let body = json!({ "Name": name, "SecretString": secret.to_string() });
        let request =
            self.request("secretsmanager", "/").header("x-amz-target", "secretsmanager.CreateSecret");
        self.send(request.header("content-type", "application/x-amz-json-1.1").body(body.to_string()), name)
            .await;
    }

    /// Creates an HTTP API with these routes, each to a function.
    pub async fn api(&self, routes: &[(String, String)]) -> Api {
        let service = "apigateway";
        let api = self.post(service, "/v2/apis", &json!({ "name": "e2e", "protocolType": "HTTP" })).await;
        let id = text(&api, "apiId");
        for (route, function) in routes {
            let body = json!({
                "integrationType": "AWS_PROXY",
                "integrationUri": format!("arn:aws:lambda:us-east-1:000000000000:function:{function}"),
                "payloadFormatVersion": "2.0",
            });
            let integration = self.post(service, &format!("/v2/apis/{id}/integrations"), &body).await;
            let target = format!("integrations/{}", text(&integration, "integrationId"));
            let body = json!({ "routeKey": route, "target": target });
            self.post(service, &format!("/v2/apis/{id}/routes"), &body).await;
        }
        let stage = json!({ "stageName": "$default", "autoDeploy": true });
        self.post(service, &format!("/v2/apis/{id}/stages"), &stage).await;
        let port = self.endpoint.rsplit(':').next().unwrap_or_default();
        let host = format!("{id}.execute-api.localhost:{port}");
        Api { endpoint: self.endpoint.clone(), host, http: self.http.clone() }
    }

    async fn post(&self, service: &str, path: &str, body: &Value) -> Value {
        let request = self.request(service, path).header("content-type", "application/json");
        self.send(request.body(body.to_string()), path).await
    }

    fn request(&self, service: &str, path: &str) -> RequestBuilder {
        // The local AWS does not check the signature; it takes the service from the credential scope.
        let scope = format!("Credential=test/20260101/us-east-1/{service}/aws4_request");
        let authorization = format!("AWS4-HMAC-SHA256 {scope}, SignedHeaders=host, Signature=0");
        self.http.post(format!("{}{path}", self.endpoint)).header("authorization", authorization)
    }

    async fn send(&self, request: RequestBuilder, what: &str) -> Value {
        answer(request).await.unwrap_or_else(|error| panic!("{what}: {error}"))
    }
}

/// An HTTP client for the local AWS.
pub(crate) fn client() -> reqwest::Client {
    // `reqwest` needs a TLS provider even for plain HTTP. It may be installed already.
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
    /// Posts `body`, as an external client does.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        self.try_post(path, headers, body).await.unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    /// Like `post`; an error if there is no reply.
    pub async fn try_post(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> Result<Reply, reqwest::Error> {
        let request = self.http.post(format!("{}{path}", self.endpoint)).header("host", &self.host);
        let request = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        let response = request.timeout(REPLY_TIMEOUT).body(body.to_vec()).send().await?;
        let status = response.status().as_u16();
        let retry_after = response.headers().get("retry-after").and_then(|value| value.to_str().ok());
        let retry_after = retry_after.and_then(|secs| secs.parse().ok()).map(Duration::from_secs);
        Ok(Reply { status, retry_after, body: response.text().await? })
    }
}

fn text(answer: &Value, name: &str) -> String {
    answer[name].as_str().unwrap_or_else(|| panic!("no {name} in {answer}")).to_owned()
}
