//! A fake of AWS Secrets Manager and SSM Parameter Store: reading one secret or parameter. It checks signatures.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse as _, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::server::{FakeFaults, Server};
use crate::sigv4::Signed;

/// The valid access key.
pub const ACCESS_KEY_ID: &str = "AKIDFAKE";
pub const SECRET_ACCESS_KEY: &str = "fake-secret-access-key";

/// Both services on one address.
#[derive(Debug)]
pub struct FakeAwsSecrets {
    server: Server,
    state: Arc<Mutex<Stored>>,
    faults: FakeFaults,
}

#[derive(Debug, Default)]
struct Stored {
    /// By name and version stage: the version and the text.
    secrets: BTreeMap<(String, String), (String, String)>,
    /// By name: every version of the text.
    parameters: BTreeMap<String, Vec<String>>,
    versions: u32,
    error: Option<(u16, String)>,
}

impl FakeAwsSecrets {
    pub async fn start() -> io::Result<Self> {
        let state = Arc::new(Mutex::new(Stored::default()));
        let faults = FakeFaults::default();
        let router = Router::new().fallback(answer).with_state(Arc::clone(&state));
        Ok(Self { server: Server::start(router, &faults).await?, state, faults })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Faults to inject. Every request is a POST, so these are faults of writes.
    pub fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    /// Stores a new version of a secret. The current one becomes `AWSPREVIOUS`.
    pub fn put_secret(&self, name: &str, text: &str) {
        let mut state = self.state.lock();
        state.versions += 1;
        let version = format!("00000000-0000-4000-8000-{:012}", state.versions);
        let key = |label: &str| (name.to_owned(), label.to_owned());
        if let Some(previous) = state.secrets.insert(key("AWSCURRENT"), (version, text.to_owned())) {
            state.secrets.insert(key("AWSPREVIOUS"), previous);
        }
    }

    /// Stores a new version of a parameter.
    pub fn put_parameter(&self, name: &str, text: &str) {
        self.state.lock().parameters.entry(name.to_owned()).or_default().push(text.to_owned());
    }

    /// Answers the next request with an error of this status and code, and with a message.
    pub fn fail_once(&self, status: u16, code: &str) {
        self.state.lock().error = Some((status, code.to_owned()));
    }
}

async fn answer(State(state): State<Arc<Mutex<Stored>>>, headers: HeaderMap, body: Bytes) -> Response {
    let mut state = state.lock();
    if let Some((status, code)) = state.error.take() {
        return error(status, &code);
    }
    let texts = headers
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())));
    let headers: BTreeMap<String, String> = texts.collect();
    let text = |name: &str| headers.get(name).map_or("", String::as_str);
    let signed = Signed { headers: &headers, host: text("host"), body: &body };
    let secret_of = |id: &str| (id == ACCESS_KEY_ID).then(|| SECRET_ACCESS_KEY.to_owned());
    if signed.verify(secret_of).is_none() {
        return error(400, "InvalidSignatureException");
    }
    let Ok(input) = serde_json::from_slice::<Value>(&body) else {
        return error(400, "SerializationException");
    };
    match text("x-amz-target") {
        "secretsmanager.GetSecretValue" => state.secret(&input),
        "AmazonSSM.GetParameter" => state.parameter(&input),
        _ => error(400, "UnknownOperationException"),
    }
}

impl Stored {
    fn secret(&self, input: &Value) -> Response {
        let name = input["SecretId"].as_str().unwrap_or_default();
        let stage = input["VersionStage"].as_str().unwrap_or("AWSCURRENT");
        let Some((version, text)) = self.secrets.get(&(name.to_owned(), stage.to_owned())) else {
            return error(400, "ResourceNotFoundException");
        };
        axum::Json(json!({
            "ARN": format!("arn:aws:secretsmanager:eu-central-1:123456789012:secret:{name}-AbCdEf"),
            "CreatedDate": 1.7e9,
            "Name": name,
            "SecretString": text,
            "VersionId": version,
            "VersionStages": [stage],
        }))
        .into_response()
    }

    fn parameter(&self, input: &Value) -> Response {
        let name = input["Name"].as_str().unwrap_or_default();
        let (name, selector) = name.split_once(':').map_or((name, None), |(name, at)| (name, Some(at)));
        let Some(versions) = self.parameters.get(name) else { return error(400, "ParameterNotFound") };
        let version = selector.map_or(Some(versions.len()), |version| version.parse().ok());
        let text = version.and_then(|version| versions.get(version.checked_sub(1)?));
        let Some(text) = text else { return error(400, "ParameterVersionNotFound") };
        let decrypted = input["WithDecryption"] == true;
        let value = if decrypted { text } else { "AQECAHg-encrypted" };
        axum::Json(json!({ "Parameter": {
            "ARN": format!("arn:aws:ssm:eu-central-1:123456789012:parameter{name}"),
            "DataType": "text",
            "Name": name,
            "Type": "SecureString",
            "Value": value,
            "Version": version,
        }}))
        .into_response()
    }
}

fn error(status: u16, code: &str) -> Response {
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_REQUEST);
    (status, axum::Json(json!({ "__type": code, "message": "hunter2 is part of no error" }))).into_response()
}
