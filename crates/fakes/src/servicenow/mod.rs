//! A fake ServiceNow: the Table API for single records, and the journal.
//!
//! It behaves like an instance where the tools can tell: values are strings, references include a link unless excluded,
//! unknown columns are silently ignored, every change increments `sys_mod_count`, and `work_notes` appear only in
//! `sys_journal_field`. One difference from a stock instance: a PATCH with `sysparm_query=sys_mod_count={n}` is a
//! compare-and-set that returns 412 if the record has changed. [`ServiceNow::ignore_preconditions`] turns that off.

mod query;
mod table;

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Path, Query, State};
use axum::http::header::AUTHORIZATION;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::server::{FakeFaults, Server};

use query::Condition;
pub use table::Record;
use table::Tables;

/// The valid user.
pub const USER: &str = "countersign";
/// The password of an instance, unless [`ServiceNow::set_password`] changed it.
pub const PASSWORD: &str = "correct-horse";
pub const TOKEN: &str = "sn-token-1";

/// The `sys_id` of the first seeded incident: a database that does not answer, priority 1.
pub const INCIDENT: &str = "9d385017c611228701d22104cc95c371";
/// The `sys_id` of the second seeded incident: a printer, priority 4.
pub const PRINTER: &str = "46ee8c2fa9fe198100623592c70d643e";

#[derive(Debug)]
pub struct ServiceNow {
    server: Server,
    instance: Arc<Mutex<Instance>>,
    faults: FakeFaults,
}

#[derive(Debug)]
struct Instance {
    tables: Tables,
    requests: u32,
    /// The number of requests with wrong credentials.
    refused: u32,
    password: String,
    /// Whether it honors preconditions; a stock instance does not.
    compares: bool,
}

impl ServiceNow {
    /// Starts an instance with two incidents, [`INCIDENT`] and [`PRINTER`].
    pub async fn start() -> io::Result<Self> {
        Self::start_on(TcpListener::bind(("127.0.0.1", 0)).await?)
    }

    pub fn start_on(listener: TcpListener) -> io::Result<Self> {
        let instance = Instance {
            tables: Tables::seeded(),
            requests: 0,
            refused: 0,
            password: PASSWORD.to_owned(),
            compares: true,
        };
        let instance = Arc::new(Mutex::new(instance));
        let router = Router::new()
            .route("/api/now/table/{table}/{sys_id}", get(read).patch(change))
            .route("/api/now/table/{table}", get(list))
            .with_state(Arc::clone(&instance));
        let faults = FakeFaults::default();
        Ok(Self { server: Server::start_on(listener, router, &faults)?, instance, faults })
    }

    pub fn url(&self) -> String {
        self.server.url()
    }

    /// Faults to inject into the next requests.
    pub fn faults(&self) -> &FakeFaults {
        &self.faults
    }

    /// The only valid password from now on.
    pub fn set_password(&self, password: &str) {
        password.clone_into(&mut self.instance.lock().password);
    }

    /// The number of requests with wrong credentials.
    pub fn refused(&self) -> u32 {
        self.instance.lock().refused
    }

    /// Ignores preconditions from now on, like a stock instance.
    pub fn ignore_preconditions(&self) {
        self.instance.lock().compares = false;
    }

    /// Makes `field` read-only. Like an instance, it accepts a write and ignores the field.
    pub fn protect(&self, field: &str) {
        self.instance.lock().tables.protected.insert(field.to_owned());
    }

    /// The number of requests that no fault rejected.
    pub fn requests(&self) -> u32 {
        self.instance.lock().requests
    }

    /// The number of real changes of a record.
    pub fn writes(&self, sys_id: &str) -> u32 {
        self.instance.lock().tables.writes(sys_id)
    }

    /// The number of accepted writes by record, including writes that changed nothing. Use it to detect a second write
    /// of the same values.
    pub fn accepted(&self) -> BTreeMap<String, u32> {
        self.instance.lock().tables.accepted.clone()
    }

    /// Adds an incident.
    pub fn report(&self, sys_id: &str, number: &str, short_description: &str) {
        self.instance.lock().tables.seed(sys_id, number, short_description, "4");
    }

    pub fn record(&self, table: &str, sys_id: &str) -> Option<Record> {
        self.instance.lock().tables.get(table, sys_id).cloned()
    }

    /// One value of a record; empty if it is absent.
    pub fn value(&self, table: &str, sys_id: &str, field: &str) -> String {
        self.record(table, sys_id).and_then(|record| record.get(field).cloned()).unwrap_or_default()
    }

    /// The work notes of a record, oldest first.
    pub fn work_notes(&self, sys_id: &str) -> Vec<String> {
        self.instance.lock().tables.notes(sys_id)
    }

    /// The work notes of all records, oldest first.
    pub fn all_work_notes(&self) -> Vec<String> {
        self.instance.lock().tables.all_notes()
    }

    /// Changes a record as another user would.
    pub fn change(&self, table: &str, sys_id: &str, field: &str, value: &str) {
        let values = [(field.to_owned(), value.to_owned())].into();
        self.instance.lock().tables.change(table, sys_id, &values);
    }
}

/// The Table API parameters that the tools use.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Parameters {
    #[serde(rename = "sysparm_fields")]
    fields: String,
    #[serde(rename = "sysparm_query")]
    query: String,
    #[serde(rename = "sysparm_exclude_reference_link")]
    exclude_reference_link: bool,
    #[serde(rename = "sysparm_limit")]
    limit: Option<usize>,
}

impl Parameters {
    fn to_json(&self, record: &Record) -> Value {
        let selected =
            |field: &str| self.fields.is_empty() || self.fields.split(',').any(|name| name == field);
        let shown = record.iter().filter(|(field, _)| selected(field));
        shown.map(|(field, value)| (field.clone(), self.value(field, value))).collect()
    }

    fn value(&self, field: &str, value: &str) -> Value {
        match field {
            "assignment_group" | "assigned_to" if !self.exclude_reference_link && !value.is_empty() => {
                json!({ "link": format!("/api/now/table/{field}/{value}"), "value": value })
            }
            _ => value.into(),
        }
    }
}

type Shared = State<Arc<Mutex<Instance>>>;

async fn read(
    State(instance): Shared,
    Path((table, sys_id)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Response {
    let mut instance = instance.lock();
    if !instance.authorize(&headers) {
        return not_authenticated();
    }
    match instance.tables.get(&table, &sys_id) {
        Some(record) => result(&parameters.to_json(record)),
        None => no_record(),
    }
}

async fn list(
    State(instance): Shared,
    Path(table): Path<String>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
) -> Response {
    let mut instance = instance.lock();
    if !instance.authorize(&headers) {
        return not_authenticated();
    }
    let conditions = query::read(&parameters.query);
    let limit = parameters.limit.unwrap_or(10_000);
    let all = instance.tables.all(&table);
    let found = all.filter(|record| conditions.iter().all(|condition| condition.holds(record))).take(limit);
    result(&found.map(|record| parameters.to_json(record)).collect())
}

async fn change(
    State(instance): Shared,
    Path((table, sys_id)): Path<(String, String)>,
    Query(parameters): Query<Parameters>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let mut instance = instance.lock();
    if !instance.authorize(&headers) {
        return not_authenticated();
    }
    let Some(record) = instance.tables.get(&table, &sys_id) else { return no_record() };
    let conditions = query::read(&parameters.query);
    if instance.compares && !conditions.iter().all(|condition| Condition::holds(condition, record)) {
        return error(StatusCode::PRECONDITION_FAILED, "Precondition failed", "The record has changed");
    }
    let Ok(values) = serde_json::from_slice(&body) else {
        return error(StatusCode::BAD_REQUEST, "Invalid payload", "Values must be strings");
    };
    instance.tables.accept(&sys_id);
    instance.tables.change(&table, &sys_id, &values);
    instance.tables.get(&table, &sys_id).map_or_else(no_record, |record| result(&parameters.to_json(record)))
}

impl Instance {
    /// Counts a request; returns whether its credentials are valid.
    fn authorize(&mut self, headers: &HeaderMap) -> bool {
        self.requests += 1;
        let basic = format!("Basic {}", BASE64_STANDARD.encode(format!("{USER}:{}", self.password)));
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let is_valid = given.is_some_and(|given| given == basic || given == format!("Bearer {TOKEN}"));
        self.refused += u32::from(!is_valid);
        is_valid
    }
}

fn result(value: &Value) -> Response {
    axum::Json(json!({ "result": value })).into_response()
}

fn not_authenticated() -> Response {
    error(StatusCode::UNAUTHORIZED, "User is not authenticated", "Required to provide Auth information")
}

fn no_record() -> Response {
    error(
        StatusCode::NOT_FOUND,
        "No Record found",
        "Record doesn't exist or ACL restricts the record retrieval",
    )
}

fn error(status: StatusCode, message: &str, detail: &str) -> Response {
    let body = json!({ "error": { "message": message, "detail": detail }, "status": "failure" });
    (status, axum::Json(body)).into_response()
}
