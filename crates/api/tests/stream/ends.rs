//! How streams end, and who is let go.

use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::RunStatus;

use crate::listen::{Events, Heard, Socket, answer};
use crate::scene::{Scene, eventually, key_of, only_nudged, quick, steps};

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_does_not_read_is_let_go_while_the_others_go_on() {
    const RUNS: usize = 40;
    let scene = Scene::open(StreamSettings { stall_max: Duration::from_secs(1), ..quick() }).await;
    let mut slow = Socket::open(&scene, "/stream").await;
    let opened = slow.until("stream.opened").await;
    let from = format!("/stream?last_event_id={}", opened[0]["id"].as_str().unwrap());
    let mut quick = Socket::open(&scene, &from).await;
    assert_eq!(scene.streams.listeners(), 2);
    let quick = tokio::spawn(async move {
        let mut heard = Vec::new();
        for _ in 0..RUNS {
            heard.extend(quick.until("session.completed").await);
        }
        // Whoever leaves is not counted, and this one is to stay.
        (quick, heard)
    });

    for n in 0..RUNS {
        scene.start("acme", &format!("k:{n}"), &steps(4)).await;
    }
    let (_quick, others) = quick.await.unwrap();
    eventually(async || scene.streams.listeners() == 1).await;

    // What was on the way is still read; then it is over.
    let mut read = Vec::new();
    let end = loop {
        match slow.hear().await {
            Heard::Envelope(envelope) => read.push(envelope),
            Heard::Beat => {}
            Heard::End(code) => break code,
        }
    };
    assert!(end.is_none_or(|code| code == 1013), "{end:?}");
    assert!(read.len() < others.len());
    assert_eq!(read, others[..read.len()]);
    let last = read.last().unwrap_or(&opened[0])["id"].as_str().unwrap();
    let mut back = Socket::open(&scene, &format!("/stream?last_event_id={last}")).await;
    for envelope in &others[read.len()..] {
        assert_eq!(back.envelope().await, *envelope);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_further_behind_than_is_remembered_is_told_to_come_back() {
    let scene = Scene::open(StreamSettings { lines_max: 8, ..only_nudged() }).await;
    let mut socket = Socket::open(&scene, "/stream").await;
    socket.until("stream.opened").await;
    let mut events = Events::open(&scene, "/stream").await;
    events.until("stream.opened").await;

    scene.run("acme", "k", &steps(40)).await;
    scene.streams.nudge();

    assert_eq!(socket.hear().await, Heard::End(Some(1013)));
    assert_eq!(events.hear().await, Heard::End(None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_taken_back_ends_its_streams() {
    let scene = Scene::open(StreamSettings { beat_every: Duration::from_millis(50), ..quick() }).await;
    let mut socket = Socket::open(&scene, "/stream").await;
    socket.until("stream.opened").await;
    let mut events = Events::open(&scene, "/stream").await;
    events.until("stream.opened").await;
    assert_eq!(socket.hear().await, Heard::Beat);

    scene.take_the_key_back("acme").await;

    let (mut by_socket, mut by_events) = (Heard::Beat, Heard::Beat);
    while by_socket == Heard::Beat {
        by_socket = socket.hear().await;
    }
    while by_events == Heard::Beat {
        by_events = events.hear().await;
    }
    assert_eq!((by_socket, by_events), (Heard::End(Some(1008)), Heard::End(None)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_leaves_says_so() {
    let scene = Scene::open(quick()).await;
    let mut socket = Socket::open(&scene, "/stream").await;
    socket.until("stream.opened").await;

    scene.streams.close();

    assert_eq!(socket.hear().await, Heard::End(Some(1001)));
    eventually(async || scene.streams.listeners() == 0).await;
    let credential = format!("Bearer {}", key_of("acme"));
    let (head, _) = answer(&scene, "/stream", &[("Authorization", &credential)]).await;
    assert_eq!(head[0], "HTTP/1.1 503 Service Unavailable");
}

#[tokio::test(flavor = "multi_thread")]
async fn there_is_room_for_so_many_listeners_of_a_tenant_and_no_more() {
    let scene = Scene::open(StreamSettings { listeners_max: 2, ..quick() }).await;
    let run = scene.run("acme", "k", &steps(1)).await;
    scene.until(&run, RunStatus::Succeeded).await;
    let of_run = format!("/runs/{}/stream", run.run);
    let one = Socket::open(&scene, "/stream").await;
    let _two = Socket::open(&scene, &of_run).await;
    let credential = format!("Bearer {}", key_of("acme"));
    let asks = [("Authorization", credential.as_str()), ("Accept", "text/event-stream")];

    for path in ["/stream", &of_run] {
        let (head, body) = answer(&scene, path, &asks).await;
        assert_eq!(head[0], "HTTP/1.1 503 Service Unavailable");
        assert!(
            body.contains("TOO_MANY_LISTENERS") && head.iter().any(|line| line.starts_with("retry-after:"))
        );
    }

    drop(one);
    eventually(async || scene.streams.listeners() == 1).await;
    Socket::open(&scene, "/stream").await;
}
