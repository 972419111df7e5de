//! The ends of streams.

use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::RunStatus;

use crate::env::{StreamEnv, eventually, key_of, nudged_only, quick, steps};
use crate::listen::{Events, Received, Socket, response};

#[tokio::test(flavor = "multi_thread")]
async fn slow_listener_is_closed_and_others_continue() {
    const RUNS: usize = 40;
    let env = StreamEnv::open(StreamSettings { stall_max: Duration::from_secs(1), ..quick() }).await;
    let mut slow = Socket::open(&env, "/stream").await;
    let opened = slow.until("stream.opened").await;
    let from = format!("/stream?last_event_id={}", opened[0]["id"].as_str().unwrap());
    let mut quick = Socket::open(&env, &from).await;
    assert_eq!(env.streams.listeners(), 2);
    let quick = tokio::spawn(async move {
        let mut received = Vec::new();
        for _ in 0..RUNS {
            received.extend(quick.until("session.completed").await);
        }
        // Keep the listener connected, so that it is counted.
        (quick, received)
    });

    for n in 0..RUNS {
        env.start("acme", &format!("k:{n}"), &steps(4)).await;
    }
    let (_quick, others) = quick.await.unwrap();
    eventually(async || env.streams.listeners() == 1).await;

    // Messages in transit are still read before the end.
    let mut read = Vec::new();
    let end = loop {
        match slow.receive().await {
            Received::Envelope(envelope) => read.push(envelope),
            Received::Heartbeat => {}
            Received::End(code) => break code,
        }
    };
    assert!(end.is_none_or(|code| code == 1013), "{end:?}");
    assert!(read.len() < others.len());
    assert_eq!(read, others[..read.len()]);
    let last = read.last().unwrap_or(&opened[0])["id"].as_str().unwrap();
    let mut back = Socket::open(&env, &format!("/stream?last_event_id={last}")).await;
    for envelope in &others[read.len()..] {
        assert_eq!(back.envelope().await, *envelope);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn listener_behind_the_buffer_is_closed() {
    let env = StreamEnv::open(StreamSettings { envelopes_max: 8, ..nudged_only() }).await;
    let mut socket = Socket::open(&env, "/stream").await;
    socket.until("stream.opened").await;
    let mut events = Events::open(&env, "/stream").await;
    events.until("stream.opened").await;

    env.run("acme", "k", &steps(40)).await;
    env.streams.nudge();

    assert_eq!(socket.receive().await, Received::End(Some(1013)));
    assert_eq!(events.receive().await, Received::End(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn revoked_key_ends_its_streams() {
    let env = StreamEnv::open(StreamSettings { heartbeat_every: Duration::from_millis(50), ..quick() }).await;
    let mut socket = Socket::open(&env, "/stream").await;
    socket.until("stream.opened").await;
    let mut events = Events::open(&env, "/stream").await;
    events.until("stream.opened").await;
    assert_eq!(socket.receive().await, Received::Heartbeat);

    env.revoke_key("acme").await;

    let (mut by_socket, mut by_events) = (Received::Heartbeat, Received::Heartbeat);
    while by_socket == Received::Heartbeat {
        by_socket = socket.receive().await;
    }
    while by_events == Received::Heartbeat {
        by_events = events.receive().await;
    }
    assert_eq!((by_socket, by_events), (Received::End(Some(1008)), Received::End(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn shutdown_closes_streams() {
    let env = StreamEnv::open(quick()).await;
    let mut socket = Socket::open(&env, "/stream").await;
    socket.until("stream.opened").await;

    env.streams.close();

    assert_eq!(socket.receive().await, Received::End(Some(1001)));
    eventually(async || env.streams.listeners() == 0).await;
    let credential = format!("Bearer {}", key_of("acme"));
    let (head, _) = response(&env, "/stream", &[("Authorization", &credential)]).await;
    assert_eq!(head[0], "HTTP/1.1 503 Service Unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_of_a_tenant_are_bounded() {
    let env = StreamEnv::open(StreamSettings { listeners_max: 2, ..quick() }).await;
    let run = env.run("acme", "k", &steps(1)).await;
    env.until(&run, RunStatus::Succeeded).await;
    let of_run = format!("/runs/{}/stream", run.run);
    let one = Socket::open(&env, "/stream").await;
    let _two = Socket::open(&env, &of_run).await;
    let credential = format!("Bearer {}", key_of("acme"));
    let asks = [("Authorization", credential.as_str()), ("Accept", "text/event-stream")];

    for path in ["/stream", &of_run] {
        let (head, body) = response(&env, path, &asks).await;
        assert_eq!(head[0], "HTTP/1.1 503 Service Unavailable");
        assert!(
            body.contains("TOO_MANY_LISTENERS") && head.iter().any(|line| line.starts_with("retry-after:"))
        );
    }

    drop(one);
    eventually(async || env.streams.listeners() == 1).await;
    Socket::open(&env, "/stream").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_of_all_tenants_are_bounded() {
    let limits = StreamSettings { listeners_max: 2, listeners_total_max: 2, ..quick() };
    let env = StreamEnv::open(limits).await;
    let one = Socket::open(&env, "/stream").await;
    let _two = Socket::open(&env, "/stream").await;
    let credential = format!("Bearer {}", key_of("umbrella"));
    let of_umbrella = [("Authorization", credential.as_str()), ("Accept", "text/event-stream")];

    let (head, body) = response(&env, "/stream", &of_umbrella).await;
    assert_eq!(head[0], "HTTP/1.1 503 Service Unavailable");
    assert!(body.contains("the server has reached its maximum of open streams"), "{body}");

    drop(one);
    eventually(async || env.streams.listeners() == 1).await;
    Socket::open(&env, "/stream").await;
}
