//! One run, from wherever a listener stood.

use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::{RunStatus, TraceContext};
use store::{Ledger as _, trace};

use crate::listen::{Events, Heard, Socket, ids, types};
use crate::scene::{Scene, gate, only_nudged, quick, steps};

#[tokio::test(flavor = "multi_thread")]
async fn a_finished_run_is_told_from_every_place_without_gap_or_repeat() {
    let beats = StreamSettings { beat_every: Duration::from_millis(50), ..quick() };
    let scene = Scene::open(beats).await;
    let run = scene.run("acme", "k", &steps(5)).await.run;
    let path = format!("/runs/{run}/stream");

    let all = Socket::open(&scene, &path).await.until("session.completed").await;

    let whole = ["0", "1", "1.1", "2", "2.1", "3", "3.1", "4", "4.1", "5", "5.1", "5.2"];
    assert_eq!(ids(&all), whole);
    for (at, seen) in ids(&all).into_iter().enumerate() {
        let mut listener = Socket::open(&scene, &format!("{path}?last_event_id={seen}")).await;
        for envelope in &all[at + 1..] {
            assert_eq!(listener.hear().await, Heard::Envelope(envelope.clone()), "behind {seen}");
        }
        assert_eq!(listener.hear().await, Heard::Beat, "nothing comes behind the last");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_leaves_after_every_envelope_misses_nothing_of_a_run_under_way() {
    let scene = Scene::open(quick()).await;
    let work = [gate("a"), steps(3), gate("b")].concat();
    let run = scene.start("acme", "k", &work).await;
    let path = format!("/runs/{}/stream", run.run);

    let mut heard = Vec::new();
    let mut from = path.clone();
    while types(&heard).last() != Some(&"session.completed") {
        let envelope = Socket::open(&scene, &from).await.envelope().await;
        if envelope["event"] == "approval.requested" {
            scene.approve(&run).await;
        }
        from = format!("{path}?last_event_id={}", envelope["id"].as_str().unwrap());
        heard.push(envelope);
    }

    assert_eq!(heard, Socket::open(&scene, &path).await.until("session.completed").await);
    let entries: Vec<u64> =
        heard.iter().map(|envelope| envelope["payload"]["event"]["n"].as_u64().unwrap()).collect();
    let counted = scene.engine.store().load(&run).await.unwrap().unwrap().events;
    let mut once = entries.clone();
    once.dedup();
    assert_eq!(once, (0..u64::from(counted)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_chain_is_told_whole_to_whoever_comes_late_and_to_whoever_was_there() {
    // More entries than are read at once, and more than a hub keeps.
    const RESUMES: usize = 150;
    let scene = Scene::open(quick()).await;
    let run = scene.start("acme", "k", &gate("a")).await;
    scene.until(&run, RunStatus::WaitingApproval).await;
    let path = format!("/runs/{}/stream", run.run);
    let mut early = Socket::open(&scene, &path).await;
    let by = domain::Initiator::new(domain::Cause::User, "ada");

    for _ in 0..RESUMES {
        scene.engine.pause(&run, &by, "hold").await.unwrap();
        scene.engine.resume(&run, &by, "go on").await.unwrap();
    }
    scene.engine.pause(&run, &by, "enough").await.unwrap();
    scene.engine.cancel(&run, &by, "enough").await.unwrap();

    let all = early.until("countersign.run.canceled").await;
    assert!(all.len() > 2 * RESUMES);
    let late = Socket::open(&scene, &path).await.until("countersign.run.canceled").await;
    assert_eq!(ids(&all), ids(&late));
}

#[tokio::test(flavor = "multi_thread")]
async fn server_sent_events_are_the_same_envelopes_in_the_same_order() {
    let scene = Scene::open(quick()).await;
    let run = scene.start("acme", "k", &[steps(2), gate("a"), gate("b")].concat()).await;
    let path = format!("/runs/{}/stream", run.run);
    let mut socket = Socket::open(&scene, &path).await;
    let mut events = Events::open(&scene, &path).await;

    let mut over_socket = Vec::new();
    for end in ["approval.requested", "approval.requested", "session.completed"] {
        over_socket.extend(socket.until(end).await);
        if end == "approval.requested" {
            scene.approve(&run).await;
        }
    }

    assert_eq!(over_socket, events.until("session.completed").await);
    let behind = format!("{path}?last_event_id={}", ids(&over_socket)[2]);
    assert_eq!(over_socket[3..], Events::open(&scene, &behind).await.until("session.completed").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_comes_back_by_itself_goes_on_from_what_it_saw_and_not_from_its_address() {
    let scene = Scene::open(quick()).await;
    let run = scene.run("acme", "k", &steps(4)).await.run;
    let path = format!("/runs/{run}/stream?last_event_id=0");
    let mut back = Events::open_with(&scene, &path, "Last-Event-ID: 3\r\n").await;
    assert_eq!(ids(&back.until("session.completed").await), ["3.1", "4", "4.1", "4.2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_says_what_happened_where_and_who_did_it() {
    let scene = Scene::open(quick()).await;
    let run = scene.run("acme", "k", &steps(1)).await;

    let all =
        Socket::open(&scene, &format!("/runs/{}/stream", run.run)).await.until("session.completed").await;

    let whole = ["session.created", "execution.step.output", "execution.step.completed", "session.completed"];
    assert_eq!(types(&all), whole);
    let done = &all[2];
    assert_eq!((&all[1]["step"], &all[1]["payload"]), (&done["step"], &done["payload"]));
    assert_eq!(done["v"], 1);
    assert_eq!(done["run"], run.run.as_str());
    assert_eq!((&done["workflow"], &done["step"]), (&"w".into(), &"s0".into()));
    assert_eq!(done["meta"]["worker"], "w");
    assert_eq!((&done["step_number"], &done["meta"]["environment"]), (&1.into(), &"prod".into()));
    assert_eq!(done["meta"]["traceparent"], TraceContext::of_run(&run).to_string());
    assert_eq!(done["payload"]["text"], "s0: done by w");
    assert_eq!(done["payload"]["event"]["kind"], "step_succeeded");
    assert!(done["at"].as_str().unwrap().ends_with('Z'));
    assert!(all[0].get("step").is_none() && all[3].get("step").is_none());
    assert!(all[0].get("step_number").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_envelope_names_the_work_outside_that_led_to_the_run() {
    let scene = Scene::open(quick()).await;
    let told: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let run = trace::within(told, scene.run("acme", "k", &steps(1))).await;

    let all =
        Socket::open(&scene, &format!("/runs/{}/stream", run.run)).await.until("session.completed").await;

    assert!(all.iter().all(|envelope| envelope["meta"]["traceparent"] == told.to_string()), "{all:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_who_listen_to_a_run_hear_it_from_one_look() {
    let scene = Scene::open(only_nudged()).await;
    let run = scene.start("acme", "k", &gate("a")).await;
    scene.until(&run, RunStatus::WaitingApproval).await;
    let path = format!("/runs/{}/stream", run.run);
    let mut listeners = Vec::new();
    for _ in 0..20 {
        let mut listener = Socket::open(&scene, &path).await;
        listener.until("approval.requested").await;
        listeners.push(listener);
    }

    scene.approve(&run).await;
    scene.until(&run, RunStatus::Succeeded).await;
    scene.streams.nudge();

    for mut listener in listeners {
        let heard = listener.until("session.completed").await;
        assert_eq!(types(&heard), ["approval.resolved", "execution.step.completed", "session.completed"]);
    }
}
