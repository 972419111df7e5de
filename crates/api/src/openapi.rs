//! The `OpenAPI` 3.1 document, generated from the table of routes and the types.

use std::collections::BTreeSet;
use std::fmt;

use axum::http::{Method, header};
use axum::response::{IntoResponse, Response};
use domain::audit::AdminChange;
use domain::record_name::RECORD_BYTES_MAX;
use domain::{RunStatus, TraceContext};
use serde_json::{Value, json};
use utoipa::ToSchema;
use utoipa::openapi::{RefOr, Schema};

use crate::routes::RouteInfo;
use api_types::Problem;
use api_types::{LIMIT_MAX, PREFIX};

type Schemas = Vec<(String, RefOr<Schema>)>;

/// A request or response body.
#[derive(Clone)]
pub(crate) enum Body {
    /// A JSON document of one of our types.
    Document { name: String, collect: fn(&mut Schemas) },
    /// A file with this content type.
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
    pub(crate) fn json<T: ToSchema>() -> Self {
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
            // A client must keep the bytes of evidence: its signature covers them.
            Self::File(kind) => json!({ *kind: { "schema": { "type": "string", "format": "binary" } } }),
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

/// A query parameter or a header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Param {
    name: &'static str,
    location: &'static str,
    description: &'static str,
    schema: fn() -> Value,
}

impl Param {
    pub(crate) const CURSOR: Self = Self::query(
        "cursor",
        "`next` of the previous page, with the same filters",
        || json!({ "type": "string" }),
    );
    pub(crate) const CONTINUE: Self = Self::query(
        "cursor",
        "`next` of the previous response, to continue the operation",
        || json!({ "type": "string" }),
    );
    pub(crate) const LIMIT: Self = Self::query(
        "limit",
        "The maximum number of entries",
        || json!({ "type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": 50 }),
    );
    pub(crate) const STATUS: Self = Self::query(
        "status",
        "Only runs with this status",
        || json!({ "type": "string", "enum": RunStatus::ALL }),
    );
    pub(crate) const RECORD: Self = Self::query("record", "Only runs with this external record", || {
        json!({
            "type": "string",
            "pattern": "^[A-Za-z0-9._/#@+=-]+:[A-Za-z0-9._:/#@+=-]+$",
            "maxLength": RECORD_BYTES_MAX,
        })
    });
    pub(crate) const WORKSPACE: Self = Self::query(
        "workspace",
        "Only runs of this workspace",
        || json!({ "type": "string", "maxLength": 128 }),
    );
    pub(crate) const SINCE: Self = Self::query(
        "since",
        "Only runs that started at this time or later",
        || json!({ "type": "string", "format": "date-time" }),
    );
    pub(crate) const UNTIL: Self = Self::query(
        "until",
        "Only runs that started before this time",
        || json!({ "type": "string", "format": "date-time" }),
    );
    pub(crate) const AFTER: Self = Self::query(
        "after",
        "Only events after the one with this number",
        || json!({ "type": "integer", "minimum": 0, "maximum": u32::MAX }),
    );
    pub(crate) const KIND: Self = Self::query(
        "kind",
        "Only changes of this kind",
        || json!({ "type": "string", "enum": AdminChange::KINDS }),
    );
    pub(crate) const MINE: Self =
        Self::query("mine", "Only approvals that the caller may decide", || json!({ "type": "boolean" }));
    pub(crate) const LAST_EVENT_ID: Self = Self::query(
        "last_event_id",
        "The id of the last received envelope; the stream resumes after it",
        || json!({ "type": "string" }),
    );
    pub(crate) const IDEMPOTENCY_KEY: Self = Self {
        name: "Idempotency-Key",
        location: "header",
        description: "Identifies the request: the same key always refers to the same run",
        schema: || json!({ "type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[!-~]+$" }),
    };
    pub(crate) const TRACEPARENT: Self = Self {
        name: TraceContext::HEADER,
        location: "header",
        description: "The W3C trace context of the caller; the run joins this trace",
        schema: || json!({ "type": "string" }),
    };

    const fn query(name: &'static str, description: &'static str, schema: fn() -> Value) -> Self {
        Self { name, location: "query", description, schema }
    }

    fn to_json(self) -> Value {
        json!({
            "name": self.name,
            "in": self.location,
            "description": self.description,
            "required": false,
            "schema": (self.schema)(),
        })
    }
}

/// The document as text.
pub(crate) fn text<'r>(rows: impl Iterator<Item = &'r RouteInfo>) -> String {
    document(rows).to_string()
}

/// The `OpenAPI` document.
pub fn document<'r>(rows: impl Iterator<Item = &'r RouteInfo>) -> Value {
    let mut paths = json!({});
    let mut tags = BTreeSet::new();
    let mut schemas = Schemas::new();
    collect::<Problem>(&mut schemas);
    for row in rows {
        tags.insert(tag(row));
        let bodies = row.request.iter().chain(row.responses.iter().map(|(_, _, body)| body));
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
        "servers": [{ "url": "/", "description": "The server of this document" }],
        "tags": tags.iter().map(|tag| json!({ "name": tag })).collect::<Value>(),
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": { "bearer": { "type": "http", "scheme": "bearer" } },
        },
    })
}

/// Adds the maximum of an unsigned number. The derived schema has the format `int32`, whose maximum is half of it.
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

fn operation(row: &RouteInfo) -> Value {
    let named = row.ids().map(|id| {
        json!({ "name": id, "in": "path", "required": true, "schema": { "type": "string", "minLength": 1 } })
    });
    let params: Vec<Value> = named.chain(row.params.iter().copied().map(Param::to_json)).collect();
    let mut operation = json!({
        "operationId": row.name,
        "tags": [tag(row)],
        "summary": row.summary,
        "parameters": params,
        "responses": responses(row),
        "security": [],
    });
    if let Some(role) = row.role {
        operation["security"] = json!([{ "bearer": [] }]);
        operation["description"] = format!("Requires the role {role}.").into();
    }
    if let Some(body) = &row.request {
        operation["requestBody"] = json!({ "required": true, "content": body.content() });
    }
    operation
}

/// The group of a route: the first segment of its path.
fn tag(row: &RouteInfo) -> &'static str {
    row.path.trim_start_matches('/').split('/').next().unwrap_or_default()
}

fn responses(row: &RouteInfo) -> Value {
    let mut responses = json!({});
    for (status, description, body) in &row.responses {
        responses[status.to_string()] = json!({ "description": description, "content": body.content() });
    }
    for (status, description) in problems(row) {
        let content = json!({ "application/problem+json": { "schema": { "$ref": reference("Problem") } } });
        responses[status.to_string()] = json!({ "description": description, "content": content });
    }
    responses
}

/// The error responses of a route.
fn problems(row: &RouteInfo) -> Vec<(u16, &'static str)> {
    let mut problems = vec![(503, "The store did not respond; try again")];
    if row.role.is_some() {
        problems.extend([
            (400, "The request is invalid"),
            (401, "The credential is missing or not valid"),
            (403, "The caller lacks the required role"),
        ]);
    }
    if row.ids().next().is_some() || ["startRun", "explainPolicy"].contains(&row.name) {
        problems.push((404, "The resource does not exist, or it belongs to another tenant"));
    }
    if row.request.is_some() || row.ids().next().is_some() {
        problems.push((409, "The current state does not allow the request"));
    }
    if row.request.is_some() || row.method == Method::POST {
        problems.extend([(413, "The body is too large"), (415, "The body is not JSON")]);
    }
    problems
}

#[expect(clippy::unused_async, reason = "a handler is async")]
pub(crate) async fn serve(document: String) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], document).into_response()
}
