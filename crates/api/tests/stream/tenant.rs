//! All runs of a tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::{RunKey, RunStatus};
use serde_json::Value;
use store::{Ledger as _, RunQuery};
use tokio::time::timeout;

use crate::listen::{Events, Heard, Socket, ids, types};
use crate::scene::{Scene, eventually, eventually_some, gate, only_nudged, quick, steps};

/// How soon an approval must be seen.
const SOON: Duration = Duration::from_secs(2);

/// However often it is nudged, a server looks at the store every 20 ms at most.
const LONGER_THAN_A_REST: Duration = Duration::from_millis(50);

/// The envelopes of so many runs that end well, in the order they came.
async fn until_ended(listener: &mut Socket, runs: usize) -> Vec<Value> {
    let mut heard = Vec::new();
    let mut ended = 0;
    while ended < runs {
        heard.push(listener.envelope().await);
        ended += usize::from(heard.last().unwrap()["event"] == "session.completed");
    }
    heard
}

/// The types of event of each run, in the order they came.
fn by_run(envelopes: &[Value]) -> BTreeMap<&str, Vec<&str>> {
    let mut runs: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for envelope in envelopes {
        runs.entry(envelope["run"].as_str().unwrap()).or_default().push(envelope["event"].as_str().unwrap());
    }
    runs
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_seen_within_two_seconds() {
    let scene = Scene::open(StreamSettings::default()).await;
    let mut of_tenant = Socket::open(&scene, "/stream").await;
    of_tenant.until("stream.opened").await;
    let mut events = Events::open(&scene, "/stream").await;
    events.until("stream.opened").await;

    let run = scene.start("acme", "k", &gate("ask")).await;
    let mut of_run = Socket::open(&scene, &format!("/runs/{}/stream", run.run)).await;
    scene.until(&run, RunStatus::WaitingApproval).await;
    let seen = async {
        tokio::join!(
            of_run.until("approval.requested"),
            of_tenant.until("approval.requested"),
            events.until("approval.requested")
        )
    };
    timeout(SOON, seen).await.unwrap();

    scene.approve(&run).await;
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
async fn runs_that_begin_and_end_between_two_looks_are_seen() {
    let scene = Scene::open(only_nudged()).await;
    // Some were there before, and are not told again.
    for n in 0..30 {
        scene.run("acme", &format!("before:{n}"), &steps(1)).await;
    }
    let mut listener = Socket::open(&scene, "/stream").await;
    listener.until("stream.opened").await;

    // Fewer than a page, more than one, a few again.
    let mut begun = 0;
    for count in [3, 230, 20] {
        let mut runs = Vec::new();
        for n in begun..begun + count {
            runs.push(scene.start("acme", &format!("k:{n}"), &steps(2)).await);
        }
        begun += count;
        for run in &runs {
            scene.until(run, RunStatus::Succeeded).await;
        }
        scene.streams.nudge();
        let heard = until_ended(&mut listener, count).await;
        let step = ["execution.step.output", "execution.step.completed"];
        let whole = [&["session.created"][..], &step, &step, &["session.completed"]].concat();
        let told = by_run(&heard);
        assert_eq!(
            told.keys().copied().collect::<BTreeSet<_>>(),
            runs.iter().map(|run| run.run.as_str()).collect()
        );
        assert!(told.values().all(|types| *types == whole), "{told:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn old_runs_that_go_on_are_told_from_where_they_stood() {
    let scene = Scene::open(only_nudged()).await;
    let old = scene.start("acme", "old", &gate("a")).await;
    scene.until(&old, RunStatus::WaitingApproval).await;
    // It stands far behind the newest.
    for n in 0..120 {
        scene.start("acme", &format!("k:{n}"), &steps(1)).await;
    }
    let last = scene.run("acme", "last", &steps(1)).await;
    scene.until(&last, RunStatus::Succeeded).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    listener.until("stream.opened").await;

    scene.approve(&old).await;
    scene.until(&old, RunStatus::Succeeded).await;
    scene.streams.nudge();

    let mut heard = Vec::new();
    while types(&heard).last() != Some(&"session.completed") {
        let envelope = listener.envelope().await;
        if envelope["run"] == old.run.as_str() {
            heard.push(envelope);
        }
    }
    assert_eq!(types(&heard), ["approval.resolved", "execution.step.completed", "session.completed"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_comes_back_goes_on_from_every_place_without_gap_or_repeat() {
    let scene = Scene::open(quick()).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    let opened = listener.until("stream.opened").await;
    for n in 0..4 {
        scene.start("acme", &format!("k:{n}"), &steps(3)).await;
    }
    let heard = until_ended(&mut listener, 4).await;
    let once: BTreeSet<&str> = ids(&heard).into_iter().collect();
    assert_eq!(once.len(), heard.len());

    for (at, seen) in ids(&opened).into_iter().chain(ids(&heard)).enumerate() {
        let mut listener = Socket::open(&scene, &format!("/stream?last_event_id={seen}")).await;
        for envelope in &heard[at..] {
            assert_eq!(listener.hear().await, Heard::Envelope(envelope.clone()), "behind {seen}");
        }
    }
    let behind = format!("/stream?last_event_id={}", ids(&opened)[0]);
    let mut events = Events::open(&scene, &behind).await;
    for envelope in &heard {
        assert_eq!(events.hear().await, Heard::Envelope(envelope.clone()));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_with_an_id_that_is_forgotten_or_foreign_is_told_to_look_again_and_hears_what_follows()
{
    let scene = Scene::open(StreamSettings { lines_max: 8, ..quick() }).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    let first = ids(&listener.until("stream.opened").await)[0].to_owned();
    for n in 0..4 {
        scene.start("acme", &format!("k:{n}"), &steps(1)).await;
        until_ended(&mut listener, 1).await;
    }

    for id in [first.as_str(), "0000000000000000-3", "7", "nonsense"] {
        let mut back = Socket::open(&scene, &format!("/stream?last_event_id={id}")).await;
        let resync = back.envelope().await;
        assert_eq!(resync["event"], "stream.resync", "{id}");

        let run = scene.start("acme", &format!("after:{id}"), &steps(1)).await;
        let heard = until_ended(&mut back, 1).await;
        assert_eq!(by_run(&heard).keys().copied().collect::<Vec<_>>(), [run.run.as_str()]);
        let again = format!("/stream?last_event_id={}", resync["id"].as_str().unwrap());
        assert_eq!(until_ended(&mut Socket::open(&scene, &again).await, 1).await, heard);
    }
}

/// The numbers that the entries told of `run` have in its chain.
fn entries_of(envelopes: &[Value], run: &RunKey) -> Vec<u64> {
    let of_run = envelopes.iter().filter(|envelope| envelope["run"] == run.run.as_str());
    let mut entries: Vec<u64> = of_run.map(|told| told["payload"]["event"]["n"].as_u64().unwrap()).collect();
    entries.dedup();
    entries
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_fell_behind_what_is_remembered_is_told_so_and_a_list_and_what_follows_are_all_there_is() {
    let scene = Scene::open(StreamSettings { lines_max: 8, ..only_nudged() }).await;
    let mut slow = Socket::open(&scene, "/stream").await;
    let mut seen = ids(&slow.until("stream.opened").await)[0].to_owned();
    // More happens between two looks than is remembered: a run that goes on later, and one that is over.
    let waits = scene.start("acme", "waits", &format!("{}{}", gate("ask"), steps(2))).await;
    scene.until(&waits, RunStatus::WaitingApproval).await;
    let over = scene.run("acme", "over", &steps(20)).await;
    scene.streams.nudge();
    let end = loop {
        match slow.hear().await {
            Heard::Envelope(envelope) => seen = ids(&[envelope])[0].to_owned(),
            Heard::Beat => {}
            Heard::End(code) => break code,
        }
    };
    assert_eq!(end, Some(1013));

    let mut back = Socket::open(&scene, &format!("/stream?last_event_id={seen}")).await;
    let mut by_header = Events::open_with(&scene, "/stream", &format!("Last-Event-ID: {seen}\r\n")).await;
    assert_eq!(back.envelope().await["event"], "stream.resync");
    assert_eq!(types(&by_header.until("stream.resync").await), ["stream.resync"]);
    // What it does upon that.
    let page = scene.engine.store().runs(&waits.tenant, RunQuery::newest(10)).await.unwrap();
    let listed: BTreeMap<&str, u64> =
        page.runs.iter().map(|run| (run.key.run.as_str(), u64::from(run.events))).collect();
    assert!(listed.contains_key(over.run.as_str()));

    scene.approve(&waits).await;
    scene.until(&waits, RunStatus::Succeeded).await;
    scene.streams.nudge();
    let events = u64::from(scene.engine.store().load(&waits).await.unwrap().unwrap().events);
    let unlisted: Vec<u64> = (listed[waits.run.as_str()]..events).collect();
    assert!(!unlisted.is_empty());
    for heard in [until_ended(&mut back, 1).await, by_header.until("session.completed").await] {
        assert_eq!(entries_of(&heard, &waits), unlisted, "without gap or repeat behind the list");
        assert!(entries_of(&heard, &over).is_empty(), "what the list has shown is not told again");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn from_every_place_a_listener_goes_on_whole_or_is_told_that_it_cannot() {
    const REMEMBERED: usize = 8;
    let scene = Scene::open(StreamSettings { lines_max: REMEMBERED, ..quick() }).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    let mut heard = listener.until("stream.opened").await;
    for n in 0..4 {
        scene.start("acme", &format!("k:{n}"), &steps(2)).await;
        heard.extend(until_ended(&mut listener, 1).await);
    }
    assert!(heard.len() > 2 * REMEMBERED);

    for (at, seen) in ids(&heard).into_iter().enumerate() {
        let mut back = Socket::open(&scene, &format!("/stream?last_event_id={seen}")).await;
        let missed = &heard[at + 1..];
        if missed.len() > REMEMBERED {
            let told = back.envelope().await;
            assert_eq!(told["event"], "stream.resync", "behind {seen}");
            assert_eq!(told["id"], heard.last().unwrap()["id"]);
        } else {
            for envelope in missed {
                assert_eq!(back.envelope().await, *envelope, "behind {seen}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_back_when_the_server_has_forgotten_is_told_so_and_not_left_with_a_gap() {
    let scene = Scene::open(StreamSettings { linger: Duration::ZERO, ..only_nudged() }).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    let seen = ids(&listener.until("stream.opened").await)[0].to_owned();
    let missed = scene.run("acme", "missed", &steps(1)).await;
    drop(listener);

    // The server forgets when it looks next and nobody is there; whoever comes before that is still told everything.
    let resync = eventually_some(async || {
        eventually(async || scene.streams.listeners() == 0).await;
        scene.streams.nudge();
        tokio::time::sleep(LONGER_THAN_A_REST).await;
        let mut back = Socket::open(&scene, &format!("/stream?last_event_id={seen}")).await;
        scene.streams.nudge();
        let told = back.envelope().await;
        if told["event"] == "stream.resync" {
            return Some((back, told));
        }
        assert_eq!(told["event"], "session.created");
        assert_eq!(told["run"], missed.run.as_str());
        None
    });
    let (mut back, told) = resync.await;
    assert_ne!(told["id"], seen.as_str());

    let next = scene.run("acme", "next", &steps(1)).await;
    scene.streams.nudge();
    let heard = until_ended(&mut back, 1).await;
    assert_eq!(by_run(&heard).keys().copied().collect::<Vec<_>>(), [next.run.as_str()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_hears_of_no_run_but_its_own() {
    let scene = Scene::open(quick()).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    listener.until("stream.opened").await;

    scene.run("umbrella", "of_tenant", &steps(1)).await;
    let ours = scene.start("acme", "ours", &steps(1)).await;

    let heard = until_ended(&mut listener, 1).await;
    assert_eq!(by_run(&heard).keys().copied().collect::<Vec<_>>(), [ours.run.as_str()]);
}
