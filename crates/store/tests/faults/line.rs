//! A line that fails on demand, below the SDK, where the real ones do.
//!
//! What passes it is carried by a runtime of its own, in real time. A test whose time stands still can use it:
//! as long as a request is under way the test's time does not jump, and when everybody waits it does.

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

/// Where real time passes, whatever the time of a test does.
pub(crate) static OUTSIDE: LazyLock<Runtime> = LazyLock::new(|| {
    tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap()
});

/// How old an object is, which S3 tells nowhere else. All other headers of an answer are left out.
const LAST_MODIFIED: &str = "last-modified";

/// What happens to one request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fault {
    /// It arrives, and its answer does not.
    LoseReply,
    /// It does not arrive.
    LoseRequest,
    /// It does not arrive, and nobody ever says so.
    Silence,
    /// It is a batch, and all but a part of it is done.
    Partial,
    /// It is answered with this, and nothing is done.
    Answer { status: u16, body: String },
}

/// For how long requests of one operation fail.
#[derive(Debug, Clone)]
pub(crate) struct Trouble {
    pub(crate) operation: String,
    /// How many of them are answered first.
    pub(crate) after: usize,
    /// How many of them fail then.
    pub(crate) times: usize,
    pub(crate) fault: Fault,
}

impl Trouble {
    /// Requests of `operation` fail like this until somebody mends it.
    pub(crate) fn forever(operation: &str, fault: Fault) -> Self {
        Self { operation: operation.to_owned(), after: 0, times: usize::MAX, fault }
    }

    /// The request of `operation` with this number fails like this.
    pub(crate) fn once(operation: &str, number: usize, fault: Fault) -> Self {
        Self { operation: operation.to_owned(), after: number, times: 1, fault }
    }
}

/// A line that fails as it is told to.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    inner: SharedHttpClient,
    book: Arc<Mutex<Book>>,
}

/// What a line is to do, and has seen.
#[derive(Debug, Default)]
struct Book {
    faults: VecDeque<Fault>,
    troubles: Vec<Trouble>,
    seen: Vec<Passed>,
}

/// A request that was sent.
#[derive(Debug, Clone)]
pub(crate) struct Passed {
    pub(crate) operation: String,
    /// What it was answered with, if it was.
    pub(crate) answer: String,
}

impl Line {
    /// A line whose first requests fail in these ways.
    pub(crate) fn with(faults: impl IntoIterator<Item = Fault>) -> Self {
        let inner = aws_smithy_http_client::Builder::new().build_http();
        let book = Book { faults: faults.into_iter().collect(), ..Book::default() };
        Self { inner, book: Arc::new(Mutex::new(book)) }
    }

    /// From now on requests fail like this, or not at all; what was seen before is forgotten.
    pub(crate) fn set(&self, troubles: impl IntoIterator<Item = Trouble>) {
        *self.book.lock().unwrap() = Book { troubles: troubles.into_iter().collect(), ..Book::default() };
    }

    /// What was sent since the line was set.
    pub(crate) fn seen(&self) -> Vec<Passed> {
        self.book.lock().unwrap().seen.clone()
    }
}

impl HttpClient for Line {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Faulty { inner, book: Arc::clone(&self.book) })
    }
}

#[derive(Debug, Clone)]
struct Faulty {
    inner: SharedHttpConnector,
    book: Arc<Mutex<Book>>,
}

impl HttpConnector for Faulty {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let (number, fault) = enter(&mut self.book.lock().unwrap(), operation(&request));
        let line = self.clone();
        HttpConnectorFuture::new(async move {
            match fault {
                None => line.pass(number, request).await,
                Some(Fault::LoseReply) => {
                    line.pass(number, request).await?;
                    Err(ConnectorError::io("the line broke".into()))
                }
                Some(Fault::LoseRequest) => Err(ConnectorError::timeout("nobody answers".into())),
                Some(Fault::Silence) => std::future::pending().await,
                Some(Fault::Partial) => line.pass_in_part(number, request).await,
                Some(Fault::Answer { status, body }) => Ok(response(status, body.into_bytes())),
            }
        })
    }
}

/// Notes a request; gives its number, and what is to happen to it.
fn enter(book: &mut MutexGuard<'_, Book>, operation: String) -> (usize, Option<Fault>) {
    let before = book.seen.iter().filter(|passed| passed.operation == operation).count();
    let trouble = book.troubles.iter().find(|trouble| {
        trouble.operation == operation
            && (trouble.after..trouble.after.saturating_add(trouble.times)).contains(&before)
    });
    let fault = trouble.map(|trouble| trouble.fault.clone());
    book.seen.push(Passed { operation, answer: String::new() });
    (book.seen.len() - 1, fault.or_else(|| book.faults.pop_front()))
}

impl Faulty {
    /// Sends a request and waits for all of its answer.
    async fn pass(&self, number: usize, mut request: HttpRequest) -> Result<HttpResponse, ConnectorError> {
        do_not_wait(&mut request);
        let inner = self.inner.clone();
        // While a thread is busy on its behalf, time that stands still does not jump.
        let answered = tokio::task::spawn_blocking(move || {
            OUTSIDE.block_on(async move {
                let answer = inner.call(request).await?;
                let status = answer.status().as_u16();
                let age = answer.headers().get(LAST_MODIFIED).map(str::to_owned);
                let body = ByteStream::new(answer.into_body()).collect().await;
                let body = body.map_err(|error| ConnectorError::io(error.into()))?;
                Ok((status, age, body.to_vec()))
            })
        });
        let (status, age, body) = answered.await.unwrap()?;
        if let Some(passed) = self.book.lock().unwrap().seen.get_mut(number) {
            passed.answer = String::from_utf8_lossy(&body).into_owned();
        }
        let mut answer = response(status, body);
        if let Some(age) = age {
            answer.headers_mut().insert(LAST_MODIFIED, age);
        }
        Ok(answer)
    }

    /// Sends a part of a batch, and says of the rest that it was not done.
    async fn pass_in_part(
        &self,
        number: usize,
        mut request: HttpRequest,
    ) -> Result<HttpResponse, ConnectorError> {
        let mut asked = body_of(&request);
        let left = take_a_part(&mut asked);
        let Some(left) = left else { return Ok(response(200, asked.to_string().into_bytes())) };
        write_body(&mut request, &asked);
        let answer = self.pass(number, request).await?;
        let mut said: Value = serde_json::from_slice(answer.body().bytes().unwrap()).unwrap();
        said.as_object_mut().unwrap().extend(left.as_object().unwrap().clone());
        Ok(response(200, said.to_string().into_bytes()))
    }
}

/// Takes out of a batch what is not to be done, and gives what its answer is to say about that. If nothing
/// is left to be done, what was asked becomes the whole answer.
fn take_a_part(asked: &mut Value) -> Option<Value> {
    if let Some(entries) = asked["Entries"].as_array_mut() {
        let last = entries.pop()?;
        let failed = json!({ "Id": last["Id"], "SenderFault": false, "Code": "InternalError" });
        return Some(json!({ "Failed": [failed] }));
    }
    let tables = asked["RequestItems"].as_object_mut()?;
    let (table, wanted) = tables.iter_mut().next()?;
    let keys = wanted["Keys"].as_array_mut()?;
    let rest = keys.split_off(keys.len() / 2);
    let nothing = keys.is_empty();
    let mut unprocessed = json!({ table.clone(): wanted.clone() });
    unprocessed[table]["Keys"] = Value::Array(rest);
    if nothing {
        *asked = json!({ "Responses": {}, "UnprocessedKeys": unprocessed });
        return None;
    }
    Some(json!({ "UnprocessedKeys": unprocessed }))
}

/// A stand-in has one server, and all that is there is there at once: nobody needs to wait for more.
fn do_not_wait(request: &mut HttpRequest) {
    if operation(request) == "ReceiveMessage" {
        let mut asked = body_of(request);
        asked["WaitTimeSeconds"] = json!(0);
        write_body(request, &asked);
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

/// What a request asks for. S3 tells by method and path; the others say so.
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
