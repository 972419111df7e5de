//! One HTTP exchange with a store. The response may contain a secret, so no error contains a part of it.

use std::error::Error;
use std::time::Duration;

use domain::{Millis, SecretRef};
use reqwest::header::RETRY_AFTER;
use reqwest::{RequestBuilder, Response, StatusCode};
use secrecy::zeroize::{Zeroize as _, Zeroizing};
use serde_json::Value;

use crate::{LockedSecret, SecretError};

/// A step waits for its secret while it holds a lease, so a store that takes longer counts as down.
pub(crate) const EXCHANGE_MAX: Duration = Duration::from_secs(10);

/// A secret has at most 64 KiB in each of the stores; encoding as JSON and metadata make it larger.
const BODY_BYTES_MAX: usize = 256 * 1024;

/// A longer delay should fail the step, so that an operator sees it.
const RETRY_AFTER_MAX: Millis = Millis::hours(1);

/// Why there is no secret, without the reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    Unavailable { why: String, retry_after: Option<Millis> },
    Refused { why: String },
}

impl Problem {
    pub(crate) fn unavailable(why: impl Into<String>) -> Self {
        Self::Unavailable { why: why.into(), retry_after: None }
    }

    pub(crate) fn refused(why: impl Into<String>) -> Self {
        Self::Refused { why: why.into() }
    }

    pub(crate) fn of(self, secret: &SecretRef) -> SecretError {
        let secret = secret.clone();
        match self {
            Self::Unavailable { why, retry_after } => SecretError::Unavailable { secret, why, retry_after },
            Self::Refused { why } => SecretError::Refused { secret, why },
        }
    }
}

/// A complete response.
pub(crate) struct Reply {
    pub(crate) status: StatusCode,
    pub(crate) retry_after: Option<Millis>,
    pub(crate) body: Zeroizing<Vec<u8>>,
}

/// Sends `request` to `store`, which names the server in errors.
pub(crate) async fn exchange(store: &str, request: RequestBuilder) -> Result<Reply, Problem> {
    let exchanged = tokio::time::timeout(EXCHANGE_MAX, async { read(store, request.send().await).await });
    let late =
        |_| Problem::unavailable(format!("{store} did not answer within {} s", EXCHANGE_MAX.as_secs()));
    exchanged.await.map_err(late)?
}

async fn read(store: &str, sent: reqwest::Result<Response>) -> Result<Reply, Problem> {
    let mut response = sent.map_err(|error| no_response(store, &error))?;
    let (status, retry_after) = (response.status(), retry_after(&response));
    // The size is fixed at the start: growing would leave copies of the secret in freed memory.
    let mut body = Zeroizing::new(Vec::with_capacity(BODY_BYTES_MAX));
    let cut = |_| Problem::unavailable(format!("the connection to {store} was cut during the response"));
    while let Some(chunk) = response.chunk().await.map_err(cut)? {
        if body.len() + chunk.len() > BODY_BYTES_MAX {
            let why = format!("the response of {store} has more than {BODY_BYTES_MAX} bytes");
            return Err(Problem::refused(why));
        }
        body.extend_from_slice(&chunk);
    }
    Ok(Reply { status, retry_after, body })
}

/// The cause is part of the text only if there was no connection, and so no response.
fn no_response(store: &str, error: &reqwest::Error) -> Problem {
    if !error.is_connect() {
        return Problem::unavailable(format!("the connection to {store} was cut before a response"));
    }
    let mut cause: &dyn Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    Problem::unavailable(format!("cannot connect to {store}: {cause}"))
}

/// Only the form in seconds: both Vault and AWS send that.
fn retry_after(response: &Response) -> Option<Millis> {
    let seconds: u64 = response.headers().get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Millis(seconds.saturating_mul(1_000)).min(RETRY_AFTER_MAX))
}

/// JSON that contains secrets. Its texts are overwritten when it is dropped.
#[derive(serde::Deserialize)]
#[serde(transparent)]
pub(crate) struct SecretJson(Value);

impl SecretJson {
    /// The field that the reference names, or the whole as JSON.
    pub(crate) fn select(&self, field: Option<&str>) -> Result<LockedSecret, &'static str> {
        let Some(name) = field else { return Ok(self.0.to_string().into()) };
        match self.0.get(name) {
            Some(Value::String(text)) => Ok(Zeroizing::new(text.clone()).into()),
            Some(_) => Err("the field is not a string"),
            None => Err("it has no such field"),
        }
    }

    pub(crate) fn to_bytes(&self) -> Zeroizing<Vec<u8>> {
        Zeroizing::new(self.0.to_string().into_bytes())
    }
}

impl From<Value> for SecretJson {
    fn from(value: Value) -> Self {
        Self(value)
    }
}

impl Drop for SecretJson {
    fn drop(&mut self) {
        overwrite(&mut self.0);
    }
}

fn overwrite(value: &mut Value) {
    match value {
        Value::String(text) => text.zeroize(),
        Value::Array(values) => values.iter_mut().for_each(overwrite),
        Value::Object(fields) => fields.values_mut().for_each(overwrite),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// A secret text in JSON.
#[derive(serde::Deserialize)]
#[serde(from = "String")]
pub(crate) struct SecretText(pub(crate) Zeroizing<String>);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(Zeroizing::new(text))
    }
}

/// The secret that a reference names in `text`: the field of a JSON object, or the whole text.
pub(crate) fn select(secret: &SecretRef, text: Zeroizing<String>) -> Result<LockedSecret, Problem> {
    if secret.field().is_none() {
        return Ok(text.into());
    }
    let parsed: Result<SecretJson, _> = serde_json::from_str(&text);
    let json = parsed.map_err(|_| Problem::refused("it is not a JSON object"))?;
    json.select(secret.field()).map_err(Problem::refused)
}
