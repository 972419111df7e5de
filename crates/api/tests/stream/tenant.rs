//! The stream of all runs of a tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::{RunKey, RunStatus};
use serde_json::Value;
use store::{Ledger as _, RunQuery};
use tokio::time::timeout;

use crate::env::{StreamEnv, eventually, eventually_some, gate, nudged_only, quick, steps};
use crate::listen::{Events, Received, Socket, ids, types};

/// An approval must be visible within this time.
const SOON: Duration = Duration::from_secs(2);

/// A server polls the store at most every 20 ms, regardless of nudges.
const LONGER_THAN_A_POLL: Duration = Duration::from_millis(50);

/// The envelopes up to the end of `runs` runs, in the order of arrival.
async fn until_ended(listener: &mut Socket, runs: usize) -> Vec<Value> {
    let mut received = Vec::new();
    let mut ended = 0;
    while ended < runs {
        received.push(listener.envelope().await);
        ended += usize::from(received.last().unwrap()["event"] == "session.completed");
    }
    received
}

/// The event types of each run, in the order of arrival.
fn types_by_run(envelopes: &[Value]) -> BTreeMap<&str, Vec<&str>> {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for envelope in envelopes {
        runs.entry(envelope["run"].as_str().unwrap()).or_default().push(envelope["event"].as_str().unwrap());
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn approval_is_visible_within_two_seconds() {
    let env = StreamEnv::open(StreamSettings::default()).await;
    let mut of_tenant = Socket::open(&env, "/stream").await;
    of_tenant.until("stream.opened").await;
    let mut events = Events::open(&env, "/stream").await;
    events.until("stream.opened").await;

    let run = env.start("acme", "k", &gate("ask")).await;
    let mut of_run = Socket::open(&env, &format!("/runs/{}/stream", run.run)).await;
    env.until(&run, RunStatus::WaitingApproval).await;
    let seen = async {
        tokio::join!(
            of_run.until("approval.requested"),
            of_tenant.until("approval.requested"),
            events.until("approval.requested")
        )
    };
    timeout(SOON, seen).await.unwrap();

    env.approve(&run).await;
    let seen = async {
        tokio::join!(
            of_run.until("approval.resolved"),
            of_tenant.until("approval.resolved"),
            events.until("approval.resolved")
        )
    };
    timeout(SOON, seen).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_between_two_polls_are_not_missed() {
    let env = StreamEnv::open(nudged_only()).await;
    // Runs from before are not sent.
    for n in 0..30 {
        env.run("acme", &format!("before:{n}"), &steps(1)).await;
    }
    let mut listener = Socket::open(&env, "/stream").await;
    listener.until("stream.opened").await;

    // Less than a page, more than a page, and a few.
    let mut started = 0;
    for count in [3, 230, 20] {
        let mut runs = Vec::new();
        for n in started..started + count {
            runs.push(env.start("acme", &format!("k:{n}"), &steps(2)).await);
        }
        started += count;
        for run in &runs {
            env.until(run, RunStatus::Succeeded).await;
        }
        env.streams.nudge();
        let received = until_ended(&mut listener, count).await;
        let step = ["execution.step.output", "execution.step.completed"];
        let whole = [&["session.created"][..], &step, &step, &["session.completed"]].concat();
        let sent = types_by_run(&received);
        assert_eq!(
            sent.keys().copied().collect::<BTreeSet<_>>(),
            runs.iter().map(|run| run.run.as_str()).collect()
        );
        assert!(sent.values().all(|types| *types == whole), "{sent:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_run_is_streamed_from_its_new_events() {
    let env = StreamEnv::open(nudged_only()).await;
    let old = env.start("acme", "old", &gate("a")).await;
    env.until(&old, RunStatus::WaitingApproval).await;
    // The run is far behind the newest.
    for n in 0..120 {
        env.start("acme", &format!("k:{n}"), &steps(1)).await;
    }
    let last = env.run("acme", "last", &steps(1)).await;
    env.until(&last, RunStatus::Succeeded).await;
    let mut listener = Socket::open(&env, "/stream").await;
    listener.until("stream.opened").await;

    env.approve(&old).await;
    env.until(&old, RunStatus::Succeeded).await;
    env.streams.nudge();

    let mut received = Vec::new();
    while types(&received).last() != Some(&"session.completed") {
        let envelope = listener.envelope().await;
        if envelope["run"] == old.run.as_str() {
            received.push(envelope);
        }
    }
    assert_eq!(types(&received), ["approval.resolved", "execution.step.completed", "session.completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_stream_resumes_from_every_id() {
    let env = StreamEnv::open(quick()).await;
    let mut listener = Socket::open(&env, "/stream").await;
    let opened = listener.until("stream.opened").await;
    for n in 0..4 {
        env.start("acme", &format!("k:{n}"), &steps(3)).await;
    }
    let received = until_ended(&mut listener, 4).await;
    let once: BTreeSet<&str> = ids(&received).into_iter().collect();
    assert_eq!(once.len(), received.len());

    for (at, seen) in ids(&opened).into_iter().chain(ids(&received)).enumerate() {
        let mut listener = Socket::open(&env, &format!("/stream?last_event_id={seen}")).await;
        for envelope in &received[at..] {
            assert_eq!(listener.receive().await, Received::Envelope(envelope.clone()), "after {seen}");
        }
    }
    let behind = format!("/stream?last_event_id={}", ids(&opened)[0]);
    let mut events = Events::open(&env, &behind).await;
    for envelope in &received {
        assert_eq!(events.receive().await, Received::Envelope(envelope.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_id_gets_a_resync() {
    let env = StreamEnv::open(StreamSettings { envelopes_max: 8, ..quick() }).await;
    let mut listener = Socket::open(&env, "/stream").await;
    let first = ids(&listener.until("stream.opened").await)[0].to_owned();
    for n in 0..4 {
        env.start("acme", &format!("k:{n}"), &steps(1)).await;
        until_ended(&mut listener, 1).await;
    }

    for id in [first.as_str(), "0000000000000000-3", "7", "nonsense"] {
        let mut back = Socket::open(&env, &format!("/stream?last_event_id={id}")).await;
        let resync = back.envelope().await;
        assert_eq!(resync["event"], "stream.resync", "{id}");

        let run = env.start("acme", &format!("after:{id}"), &steps(1)).await;
        let received = until_ended(&mut back, 1).await;
        assert_eq!(types_by_run(&received).keys().copied().collect::<Vec<_>>(), [run.run.as_str()]);
        let again = format!("/stream?last_event_id={}", resync["id"].as_str().unwrap());
        assert_eq!(until_ended(&mut Socket::open(&env, &again).await, 1).await, received);
    }
}

/// The numbers of the events of `run` that were sent.
fn entries_of(envelopes: &[Value], run: &RunKey) -> Vec<u64> {
    let of_run = envelopes.iter().filter(|envelope| envelope["run"] == run.run.as_str());
    let mut entries: Vec<u64> = of_run.map(|sent| sent["payload"]["event"]["n"].as_u64().unwrap()).collect();
    entries.dedup();
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn resync_and_list_leave_no_gap() {
    let env = StreamEnv::open(StreamSettings { envelopes_max: 8, ..nudged_only() }).await;
    let mut slow = Socket::open(&env, "/stream").await;
    let mut seen = ids(&slow.until("stream.opened").await)[0].to_owned();
    // More happens between two polls than fits into the buffer: one run that continues later, and one that has finished.
    let waits = env.start("acme", "waits", &format!("{}{}", gate("ask"), steps(2))).await;
    env.until(&waits, RunStatus::WaitingApproval).await;
    let over = env.run("acme", "over", &steps(20)).await;
    env.streams.nudge();
    let end = loop {
        match slow.receive().await {
            Received::Envelope(envelope) => seen = ids(&[envelope])[0].to_owned(),
            Received::Heartbeat => {}
            Received::End(code) => break code,
        }
    };
    assert_eq!(end, Some(1013));

    let mut back = Socket::open(&env, &format!("/stream?last_event_id={seen}")).await;
    let mut by_header = Events::open_with(&env, "/stream", &format!("Last-Event-ID: {seen}\r\n")).await;
    assert_eq!(back.envelope().await["event"], "stream.resync");
    assert_eq!(types(&by_header.until("stream.resync").await), ["stream.resync"]);
    // The client lists the runs.
    let page = env.store().runs(&waits.tenant, RunQuery::newest(10)).await.unwrap();
    let listed: BTreeMap<&str, u64> =
        page.runs.iter().map(|run| (run.key.run.as_str(), u64::from(run.events))).collect();
    assert!(listed.contains_key(over.run.as_str()));

    env.approve(&waits).await;
    env.until(&waits, RunStatus::Succeeded).await;
    env.streams.nudge();
    let events = u64::from(env.record(&waits).await.events);
    let unlisted: Vec<u64> = (listed[waits.run.as_str()]..events).collect();
    assert!(!unlisted.is_empty());
    for received in [until_ended(&mut back, 1).await, by_header.until("session.completed").await] {
        assert_eq!(entries_of(&received, &waits), unlisted, "without gap or duplicate after the list");
        assert!(entries_of(&received, &over).is_empty(), "listed events are not sent again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_id_resumes_or_gets_a_resync() {
    const REMEMBERED: usize = 8;
    let env = StreamEnv::open(StreamSettings { envelopes_max: REMEMBERED, ..quick() }).await;
    let mut listener = Socket::open(&env, "/stream").await;
    let mut received = listener.until("stream.opened").await;
    for n in 0..4 {
        env.start("acme", &format!("k:{n}"), &steps(2)).await;
        received.extend(until_ended(&mut listener, 1).await);
    }
    assert!(received.len() > 2 * REMEMBERED);

    for (at, seen) in ids(&received).into_iter().enumerate() {
        let mut back = Socket::open(&env, &format!("/stream?last_event_id={seen}")).await;
        let missed = &received[at + 1..];
        if missed.len() > REMEMBERED {
            let sent = back.envelope().await;
            assert_eq!(sent["event"], "stream.resync", "after {seen}");
            assert_eq!(sent["id"], received.last().unwrap()["id"]);
        } else {
            for envelope in missed {
                assert_eq!(back.envelope().await, *envelope, "after {seen}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn closed_hub_gets_a_resync() {
    let env = StreamEnv::open(StreamSettings { linger: Duration::ZERO, ..nudged_only() }).await;
    let mut listener = Socket::open(&env, "/stream").await;
    let seen = ids(&listener.until("stream.opened").await)[0].to_owned();
    let missed = env.run("acme", "missed", &steps(1)).await;
    drop(listener);

    // The hub closes at the next poll without listeners; a listener that reconnects earlier resumes.
    let resync = eventually_some(async || {
        eventually(async || env.streams.listeners() == 0).await;
        env.streams.nudge();
        tokio::time::sleep(LONGER_THAN_A_POLL).await;
        let mut back = Socket::open(&env, &format!("/stream?last_event_id={seen}")).await;
        env.streams.nudge();
        let sent = back.envelope().await;
        if sent["event"] == "stream.resync" {
            return Some((back, sent));
        }
        assert_eq!(sent["event"], "session.created");
        assert_eq!(sent["run"], missed.run.as_str());
        None
    });
    let (mut back, sent) = resync.await;
    assert_ne!(sent["id"], seen.as_str());

    let next = env.run("acme", "next", &steps(1)).await;
    env.streams.nudge();
    let received = until_ended(&mut back, 1).await;
    assert_eq!(types_by_run(&received).keys().copied().collect::<Vec<_>>(), [next.run.as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn tenant_stream_has_only_own_runs() {
    let env = StreamEnv::open(quick()).await;
    let mut listener = Socket::open(&env, "/stream").await;
    listener.until("stream.opened").await;

    env.run("umbrella", "of_tenant", &steps(1)).await;
    let ours = env.start("acme", "ours", &steps(1)).await;

    let received = until_ended(&mut listener, 1).await;
    assert_eq!(types_by_run(&received).keys().copied().collect::<Vec<_>>(), [ours.run.as_str()]);
}
