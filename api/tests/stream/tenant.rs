//! All runs of a tenant.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::RunStatus;
use serde_json::Value;
use tokio::time::timeout;

use crate::listen::{Events, Heard, Socket, ids, types};
use crate::scene::{Scene, gate, only_nudged, quick, steps};

/// How soon an approval must be seen.
const SOON: Duration = Duration::from_secs(2);

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
        let whole =
            ["session.created", "execution.step.completed", "execution.step.completed", "session.completed"];
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

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_hears_of_no_run_but_its_own() {
    let scene = Scene::open(quick()).await;
    let mut listener = Socket::open(&scene, "/stream").await;
    listener.until("stream.opened").await;

    scene.run("umbrella", "theirs", &steps(1)).await;
    let ours = scene.start("acme", "ours", &steps(1)).await;

    let heard = until_ended(&mut listener, 1).await;
    assert_eq!(by_run(&heard).keys().copied().collect::<Vec<_>>(), [ours.run.as_str()]);
}
