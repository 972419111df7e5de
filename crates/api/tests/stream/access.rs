//! Access to streams.

use crate::env::{StreamEnv, key_of, quick, steps};
use crate::listen::response;

const WEBSOCKET: [(&str, &str); 4] = [
    ("Connection", "Upgrade"),
    ("Upgrade", "websocket"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

const EVENTS: [(&str, &str); 1] = [("Accept", "text/event-stream")];

#[tokio::test(flavor = "multi_thread")]
async fn foreign_run_looks_like_an_unknown_run() {
    let env = StreamEnv::open(quick()).await;
    let of_tenant = env.run("umbrella", "k", &steps(1)).await.run;
    let credential = format!("Bearer {}", key_of("acme"));
    let unknown: String = of_tenant.as_str().chars().rev().collect();
    for kind in [&WEBSOCKET[..], &EVENTS[..]] {
        for query in ["", "?last_event_id=0", "?last_event_id=nonsense"] {
            let headers = [kind, &[("Authorization", credential.as_str())]].concat();
            let ask = async |run: &str| response(&env, &format!("/runs/{run}/stream{query}"), &headers).await;
            let no = ask(&unknown).await;
            assert_eq!(no.0[0], "HTTP/1.1 404 Not Found");
            assert_eq!(ask(of_tenant.as_str()).await, no);
            assert_eq!(ask("%23").await, no);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn stream_needs_a_key_outside_the_url() {
    let env = StreamEnv::open(quick()).await;
    let run = env.run("acme", "k", &steps(1)).await.run;
    for path in ["/stream".to_owned(), format!("/runs/{run}/stream")] {
        for kind in [&WEBSOCKET[..], &EVENTS[..]] {
            let (head, _) = response(&env, &path, kind).await;
            assert_eq!(head[0], "HTTP/1.1 401 Unauthorized");
            let (head, _) = response(&env, &format!("{path}?token={}", key_of("acme")), kind).await;
            assert_eq!(head[0], "HTTP/1.1 400 Bad Request");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn foreign_page_opens_no_socket() {
    let env = StreamEnv::open(quick()).await;
    let credential = format!("Bearer {}", key_of("acme"));
    let here = format!("http://{}", env.at);
    for (origin, status) in [
        (here.as_str(), "HTTP/1.1 101 Switching Protocols"),
        ("http://elsewhere.example", "HTTP/1.1 403 Forbidden"),
        ("null", "HTTP/1.1 403 Forbidden"),
    ] {
        let headers =
            [&WEBSOCKET[..], &[("Authorization", credential.as_str()), ("Origin", origin)]].concat();
        assert_eq!(response(&env, "/stream", &headers).await.0[0], status, "{origin}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_stream_request_names_the_problem() {
    let env = StreamEnv::open(quick()).await;
    let run = env.run("acme", "k", &steps(1)).await.run;
    let credential = format!("Bearer {}", key_of("acme"));
    let key = ("Authorization", credential.as_str());
    for id in ["2", "-1", "nonsense"] {
        let path = format!("/runs/{run}/stream?last_event_id={id}");
        let (head, body) = response(&env, &path, &[key, EVENTS[0]]).await;
        assert_eq!(head[0], "HTTP/1.1 400 Bad Request", "{id}");
        assert!(body.contains("last_event_id"), "{body}");
    }
    let (head, _) = response(&env, "/stream", &[key, ("Accept", "application/json")]).await;
    assert_eq!(head[0], "HTTP/1.1 406 Not Acceptable");
    let (head, _) = response(&env, "/stream", &[key, ("Upgrade", "websocket")]).await;
    assert_eq!(head[0], "HTTP/1.1 400 Bad Request");
}
