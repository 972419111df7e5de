//! The `OpenAPI` document, compared with the API.

use api::{openapi, route_table};
use axum::http::Method;
use countersign_contract::{ContractEnv, PathValue, body_for};
use domain::Role;
use serde_json::{Value, json};
use store::SqliteStore;

#[tokio::test]
async fn document_is_public_and_lists_every_route() {
    let env = ContractEnv::new().await;
    let served = env.get("", "/openapi.json").await.json();
    let rows = route_table::<SqliteStore>();
    assert_eq!(served, openapi::document(rows.iter()));
    assert_eq!(served["openapi"], "3.1.0");
    assert_eq!(served["servers"][0]["url"], "/");
    let evidence = &served["paths"]["/api/v1/runs/{run}/evidence"]["get"]["responses"]["200"]["content"];
    let schema = json!({ "type": "string", "format": "binary" });
    assert_eq!(evidence["application/vnd.dsse+json"]["schema"], schema, "a client keeps the signed bytes");
    let mut named = 0;
    for (_, item) in served["paths"].as_object().unwrap() {
        named += item.as_object().unwrap().len();
    }
    assert_eq!(named, rows.len(), "two routes share a path and a method");
    for row in &rows {
        let operation = &served["paths"][format!("/api/v1{}", row.path)][row.method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], row.name);
        let tag = row.path.split('/').nth(1).unwrap();
        assert_eq!(operation["tags"], json!([tag]), "{}", row.name);
        assert!(served["tags"].as_array().unwrap().contains(&json!({ "name": tag })), "{tag}");
        assert_eq!(operation["security"].as_array().unwrap().is_empty(), row.role.is_none(), "{}", row.name);
    }
}

#[tokio::test]
async fn document_references_resolve() {
    let document = openapi::document(route_table::<SqliteStore>().iter());
    let mut references = Vec::new();
    collect(&document, &mut references);
    assert!(references.len() > 40);
    for reference in references {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(document.pointer(pointer).is_some(), "{reference}");
    }
}

fn collect(value: &Value, references: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            references.extend(fields.get("$ref").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|field| collect(field, references));
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, references)),
        _ => {}
    }
}

#[tokio::test]
async fn documented_maximum_is_accepted() {
    let document = openapi::document(route_table::<SqliteStore>().iter());
    let schema = &document["components"]["schemas"]["Caps"]["properties"]["max_writes_per_run"];
    assert_eq!((&schema["minimum"], &schema["maximum"]), (&json!(0), &json!(u32::MAX)), "{schema}");
    let env = ContractEnv::new().await;
    for (number, status) in [(u64::from(u32::MAX), 200), (u64::from(u32::MAX) + 1, 400)] {
        let body = json!({ "caps": { "max_writes_per_run": number }, "people": {}, "groups": {} });
        let reply = env.json(&Method::PUT, env.acme.key(Role::Admin), "/tenant", &body).await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
}

#[tokio::test]
async fn every_response_is_documented() {
    let document = openapi::document(route_table::<SqliteStore>().iter());
    let env = ContractEnv::new().await;
    for row in route_table::<SqliteStore>() {
        let operation =
            &document["paths"][format!("/api/v1{}", row.path)][row.method.as_str().to_lowercase()];
        for value in [PathValue::Own, PathValue::Unknown] {
            let path = value.in_path(row.path, row.name, &env.acme);
            let key = row.role.map_or("", |_| env.acme.key(Role::Admin));
            let reply = env.json(&row.method, key, &path, &body_for(row.name).unwrap_or_default()).await;
            let response = &operation["responses"][reply.status.to_string()];
            assert!(response.is_object(), "{} returns {}: {}", row.name, reply.status, reply.text());
            let kind = reply.header("content-type");
            assert!(response["content"][kind].is_object(), "{} returns {kind}", row.name);
        }
    }
}

#[test]
fn api_page_lists_every_error_code() {
    let page = include_str!("../../../../docs/api.md");
    let listed: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| `") && line.contains("` | ")).collect();
    let codes: Vec<String> =
        api::problem::CODES.iter().map(|(code, means)| format!("| `{code}` | {means} |")).collect();
    assert_eq!(listed, codes);
    for &code in domain::Code::ALL {
        assert!(codes.iter().any(|row| row.starts_with(&format!("| `{code}` |"))), "{code}");
    }
}
