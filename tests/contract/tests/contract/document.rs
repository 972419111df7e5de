//! The document that describes the API, and what the API does.

use api::{openapi, rows};
use axum::http::Method;
use countersign_contract::{House, Place, body_for};
use domain::Role;
use serde_json::{Value, json};
use store::SqliteStore;

#[tokio::test]
async fn the_document_is_served_to_anybody_and_names_every_route() {
    let house = House::new().await;
    let served = house.get("", "/openapi.json").await.json();
    let rows = rows::<SqliteStore>();
    assert_eq!(served, openapi::document(rows.iter()));
    assert_eq!(served["openapi"], "3.1.0");
    let mut named = 0;
    for (_, item) in served["paths"].as_object().unwrap() {
        named += item.as_object().unwrap().len();
    }
    assert_eq!(named, rows.len(), "two rows share an address and a method");
    for row in &rows {
        let operation = &served["paths"][format!("/api/v1{}", row.path)][row.method.as_str().to_lowercase()];
        assert_eq!(operation["operationId"], row.name);
        assert_eq!(operation["security"].as_array().unwrap().is_empty(), row.role.is_none(), "{}", row.name);
    }
}

#[tokio::test]
async fn every_reference_in_the_document_leads_somewhere() {
    let document = openapi::document(rows::<SqliteStore>().iter());
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

/// Whatever a route answers, the document knows the status and the kind of it.
#[tokio::test]
async fn a_number_is_taken_as_far_as_the_document_says() {
    let document = openapi::document(rows::<SqliteStore>().iter());
    let says = &document["components"]["schemas"]["Caps"]["properties"]["max_writes_per_run"];
    assert_eq!((&says["minimum"], &says["maximum"]), (&json!(0), &json!(u32::MAX)), "{says}");
    let house = House::new().await;
    for (number, status) in [(u64::from(u32::MAX), 200), (u64::from(u32::MAX) + 1, 400)] {
        let body = json!({ "caps": { "max_writes_per_run": number }, "people": {}, "groups": {} });
        let reply = house.json(&Method::PUT, house.acme.key(Role::Admin), "/tenant", &body).await;
        assert_eq!(reply.status, status, "{}", reply.text());
    }
}

#[tokio::test]
async fn every_answer_is_one_that_the_document_names() {
    let document = openapi::document(rows::<SqliteStore>().iter());
    let house = House::new().await;
    for row in rows::<SqliteStore>() {
        let operation =
            &document["paths"][format!("/api/v1{}", row.path)][row.method.as_str().to_lowercase()];
        for place in [Place::Own, Place::Unknown] {
            let path = place.in_path(row.path, row.name, &house.acme);
            let key = row.role.map_or("", |_| house.acme.key(Role::Admin));
            let reply = house.json(&row.method, key, &path, &body_for(row.name).unwrap_or_default()).await;
            let response = &operation["responses"][reply.status.to_string()];
            assert!(response.is_object(), "{} answers {}: {}", row.name, reply.status, reply.text());
            let kind = reply.header("content-type");
            assert!(response["content"][kind].is_object(), "{} answers {kind}", row.name);
        }
    }
}

/// A page that people read, and the code that they look for in it.
#[test]
fn the_page_about_the_api_has_every_code_with_its_meaning() {
    let page = include_str!("../../../../docs/api.md");
    let told: Vec<&str> =
        page.lines().filter(|line| line.starts_with("| `") && line.contains("` | ")).collect();
    let codes: Vec<String> =
        api::problem::CODES.iter().map(|(code, means)| format!("| `{code}` | {means} |")).collect();
    assert_eq!(told, codes);
    for code in domain::Code::ALL {
        assert!(codes.iter().any(|row| row.starts_with(&format!("| `{code}` |"))), "{code}");
    }
}
