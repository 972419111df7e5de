//! The document that describes the API (`OpenAPI` 3.1), made from the rows and the types.

use std::fmt;

use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use domain::record_name::RECORD_BYTES_MAX;
use domain::{RunStatus, TraceContext};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::routes::Row;
use api_types::Problem;
use api_types::{LIMIT_MAX, PREFIX};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// What is sent or given.
#[derive(Clone)]
pub(crate) enum Body {
    /// A document of one of our types.
    Document { name: String, collect: fn(&mut Schemas) },
    /// A file of this kind.
    File(&'static str),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Document { name, .. } => f.write_str(name),
            Self::File(kind) => f.write_str(kind),
        }
    }
}

impl Body {
    pub(crate) fn of<T: ToSchema>() -> Self {
        Self::Document { name: T::name().into_owned(), collect: collect::<T> }
    }

    fn content(&self) -> Value {
        match self {
            Self::Document { name, .. } => {
                json!({ "application/json": { "schema": { "$ref": reference(name) } } })
            }
            Self::File(kind) if kind.starts_with("text/") => {
                json!({ *kind: { "schema": { "type": "string" } } })
            }
            // Every other file that is given is JSON of its own kind.
            Self::File(kind) => json!({ *kind: { "schema": { "type": "object" } } }),
        }
    }
}

fn collect<T: ToSchema>(schemas: &mut Schemas) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

fn reference(name: &str) -> String {
    format!("#/components/schemas/{name}")
}

/// Something that can be said beside the address.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    name: &'static str,
    place: &'static str,
    says: &'static str,
    schema: fn() -> Value,
}

impl Param {
    pub(crate) const CURSOR: Self = Self::query(
        "cursor",
        "`next` of the page before, with the same filters",
        || json!({ "type": "string" }),
    );
    pub(crate) const GOING_ON: Self = Self::query(
        "cursor",
        "`next` of the answer before, to go on with the same",
        || json!({ "type": "string" }),
    );
    pub(crate) const LIMIT: Self = Self::query(
        "limit",
        "At most how many",
        || json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": 50 }),
    );
    pub(crate) const STATUS: Self = Self::query(
        "status",
        "Only runs that stand there",
        || json!({ "type": "string", "enum": RunStatus::ALL }),
    );
    pub(crate) const RECORD: Self = Self::query("record", "Only runs about this record outside", || {
        json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9._/#@+=-]+:[A-Za-z0-9._:/#@+=-]+$",
            "maxLength": RECORD_BYTES_MAX,
        })
    });
    pub(crate) const SINCE: Self = Self::query(
        "since",
        "Only runs that were admitted at this time or later",
        || json!({ "type": "string", "format": "date-time" }),
    );
    pub(crate) const UNTIL: Self = Self::query(
        "until",
        "Only runs that were admitted before this time",
        || json!({ "type": "string", "format": "date-time" }),
    );
    pub(crate) const AFTER: Self = Self::query(
        "after",
        "Only entries after the one with this number",
        || json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
    );
    pub(crate) const MINE: Self =
        Self::query("mine", "Only requests that whoever asks may answer", || json!({ "type": "boolean" }));
    pub(crate) const LAST_EVENT_ID: Self = Self::query(
        "last_event_id",
        "The id of the envelope that was seen last; what came after it is told first",
        || json!({ "type": "string" }),
    );
    pub(crate) const IDEMPOTENCY_KEY: Self = Self {
        name: "Idempotency-Key",
        place: "header",
        says: "Names the request: the same key is the same run for ever",
        schema: || json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" }),
    };
    pub(crate) const TRACEPARENT: Self = Self {
        name: TraceContext::HEADER,
        place: "header",
        says: "The work that leads to the request, as W3C Trace Context writes it; the run belongs to it",
        schema: || json!({ "type": "string" }),
    };

    const fn query(name: &'static str, says: &'static str, schema: fn() -> Value) -> Self {
        Self { name, place: "query", says, schema }
    }

    fn described(&self) -> Value {
        json!({
            "name": self.name,
            "in": self.place,
            "description": self.says,
            "required": false,
            "schema": (self.schema)(),
        })
    }
}

/// The document, as it is served.
pub(crate) fn text<'r>(rows: impl Iterator<Item = &'r Row>) -> String {
    document(rows).to_string()
}

/// The document.
pub fn document<'r>(rows: impl Iterator<Item = &'r Row>) -> Value {
    let mut paths = json!({});
    let mut schemas = Schemas::new();
    collect::<Problem>(&mut schemas);
    for row in rows {
        let bodies = row.takes.iter().chain(row.gives.iter().map(|(_, _, body)| body));
        for body in bodies {
            if let Body::Document { collect, .. } = body {
                collect(&mut schemas);
            }
        }
        paths[format!("{PREFIX}{}", row.path)][row.method.as_str().to_lowercase()] = operation(row);
    }
    let schemas: serde_json::Map<String, Value> =
        schemas.into_iter().map(|(name, schema)| (name, unsigned(json!(schema)))).collect();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Countersign",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Runs, approvals and evidence of one tenant.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// A schema that says how large a number without a sign may be. What is derived calls it `int32`, which ends at half of
/// that.
fn unsigned(schema: Value) -> Value {
    match schema {
        Value::Object(mut fields) => {
            let is_count = fields.get("minimum").and_then(Value::as_u64) == Some(0);
            if is_count && fields.get("format").is_some_and(|format| format == "int32") {
                fields.remove("format");
                fields.entry("maximum").or_insert(u32::MAX.into());
            }
            fields.into_iter().map(|(name, schema)| (name, unsigned(schema))).collect()
        }
        Value::Array(schemas) => schemas.into_iter().map(unsigned).collect(),
        plain => plain,
    }
}

fn operation(row: &Row) -> Value {
    let named = row.ids().map(|id| {
        json!({ "name": id, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
    });
    let params: Vec<Value> = named.chain(row.params.iter().map(Param::described)).collect();
    let mut operation = json!({
        "operationId": row.name,
        "summary": row.summary,
        "parameters": params,
        "responses": responses(row),
        "security": [],
    });
    if let Some(role) = row.role {
        operation["security"] = json!([{ "bearer": [] }]);
        operation["description"] = format!("Takes the role {role}.").into();
    }
    if let Some(takes) = &row.takes {
        operation["requestBody"] = json!({ "required": true, "content": takes.content() });
    }
    operation
}

fn responses(row: &Row) -> Value {
    let mut responses = json!({});
    for (status, says, body) in &row.gives {
        responses[status.to_string()] = json!({ "description": says, "content": body.content() });
    }
    for (status, says) in problems(row) {
        let content = json!({ "application/problem+json": { "schema": { "$ref": reference("Problem") } } });
        responses[status.to_string()] = json!({ "description": says, "content": content });
    }
    responses
}

/// The noes that a route can give.
fn problems(row: &Row) -> Vec<(u16, &'static str)> {
    let mut problems = vec![(503, "the store did not answer; try again")];
    if row.role.is_some() {
        problems.extend([
            (400, "what was sent cannot be used"),
            (401, "nobody knows who asks"),
            (403, "whoever asks may not"),
        ]);
    }
    if row.ids().next().is_some() || ["startRun", "explainPolicy"].contains(&row.name) {
        problems.push((404, "there is no such thing, or it is somebody else's"));
    }
    if row.takes.is_some() || row.ids().next().is_some() {
        problems.push((409, "the rules say no"));
    }
    if row.takes.is_some() || row.method == Method::POST {
        problems.extend([(413, "the body is too large"), (415, "the body is not JSON")]);
    }
    problems
}

/// The document, for whoever asks.
#[expect(clippy::unused_async, reason = "a handler is async")]
pub(crate) async fn serve(document: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}
