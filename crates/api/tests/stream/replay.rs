//! The stream of one run.

use std::time::Duration;

use countersign_api::stream::StreamSettings;
use domain::{RunStatus, TraceContext};
use store::trace;

use crate::env::{StreamEnv, gate, nudged_only, quick, steps};
use crate::listen::{Events, Received, Socket, ids, types};

#[tokio::test(flavor = "multi_thread")]
async fn finished_run_resumes_from_every_id() {
    let beats = StreamSettings { heartbeat_every: Duration::from_millis(50), ..quick() };
    let env = StreamEnv::open(beats).await;
    let run = env.run("acme", "k", &steps(5)).await.run;
    let path = format!("/runs/{run}/stream");

    let all = Socket::open(&env, &path).await.until("session.completed").await;

    let whole = ["0", "1", "1.1", "2", "2.1", "3", "3.1", "4", "4.1", "5", "5.1", "5.2"];
    assert_eq!(ids(&all), whole);
    for (at, seen) in ids(&all).into_iter().enumerate() {
        let mut listener = Socket::open(&env, &format!("{path}?last_event_id={seen}")).await;
        for envelope in &all[at + 1..] {
            assert_eq!(listener.receive().await, Received::Envelope(envelope.clone()), "after {seen}");
        }
        assert_eq!(listener.receive().await, Received::Heartbeat, "no envelope follows the last");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reconnecting_listener_misses_nothing() {
    let env = StreamEnv::open(quick()).await;
    let work = [gate("a"), steps(3), gate("b")].concat();
    let run = env.start("acme", "k", &work).await;
    let path = format!("/runs/{}/stream", run.run);

    let mut received = Vec::new();
    let mut from = path.clone();
    while types(&received).last() != Some(&"session.completed") {
        let envelope = Socket::open(&env, &from).await.envelope().await;
        if envelope["event"] == "approval.requested" {
            env.approve(&run).await;
        }
        from = format!("{path}?last_event_id={}", envelope["id"].as_str().unwrap());
        received.push(envelope);
    }

    assert_eq!(received, Socket::open(&env, &path).await.until("session.completed").await);
    let entries: Vec<u64> =
        received.iter().map(|envelope| envelope["payload"]["event"]["n"].as_u64().unwrap()).collect();
    let counted = env.record(&run).await.events;
    let mut once = entries.clone();
    once.dedup();
    assert_eq!(once, (0..u64::from(counted)).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_chain_is_sent_completely() {
    // More events than are read at once, and more than a hub buffers.
    const RESUMES: usize = 150;
    let env = StreamEnv::open(quick()).await;
    let run = env.start("acme", "k", &gate("a")).await;
    env.until(&run, RunStatus::WaitingApproval).await;
    let path = format!("/runs/{}/stream", run.run);
    let mut early = Socket::open(&env, &path).await;
    let by = domain::Initiator::new(domain::Cause::User, "ada");

    for _ in 0..RESUMES {
        env.engine.tenant_handle(&run.tenant, &by).pause(&run.run, "hold").await.unwrap();
        env.engine.tenant_handle(&run.tenant, &by).resume(&run.run, "go on").await.unwrap();
    }
    env.engine.tenant_handle(&run.tenant, &by).pause(&run.run, "enough").await.unwrap();
    env.engine.tenant_handle(&run.tenant, &by).cancel(&run.run, "enough").await.unwrap();

    let all = early.until("countersign.run.canceled").await;
    assert!(all.len() > 2 * RESUMES);
    let late = Socket::open(&env, &path).await.until("countersign.run.canceled").await;
    assert_eq!(ids(&all), ids(&late));
}

#[tokio::test(flavor = "multi_thread")]
async fn sse_and_websocket_send_the_same_envelopes() {
    let env = StreamEnv::open(quick()).await;
    let run = env.start("acme", "k", &[steps(2), gate("a"), gate("b")].concat()).await;
    let path = format!("/runs/{}/stream", run.run);
    let mut socket = Socket::open(&env, &path).await;
    let mut events = Events::open(&env, &path).await;

    let mut over_socket = Vec::new();
    for end in ["approval.requested", "approval.requested", "session.completed"] {
        over_socket.extend(socket.until(end).await);
        if end == "approval.requested" {
            env.approve(&run).await;
        }
    }

    assert_eq!(over_socket, events.until("session.completed").await);
    let behind = format!("{path}?last_event_id={}", ids(&over_socket)[2]);
    assert_eq!(over_socket[3..], Events::open(&env, &behind).await.until("session.completed").await);
}

#[tokio::test(flavor = "multi_thread")]
async fn last_event_id_header_takes_precedence() {
    let env = StreamEnv::open(quick()).await;
    let run = env.run("acme", "k", &steps(4)).await.run;
    let path = format!("/runs/{run}/stream?last_event_id=0");
    let mut back = Events::open_with(&env, &path, "Last-Event-ID: 3\r\n").await;
    assert_eq!(ids(&back.until("session.completed").await), ["3.1", "4", "4.1", "4.2"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn envelope_names_event_step_and_worker() {
    let env = StreamEnv::open(quick()).await;
    let run = env.run("acme", "k", &steps(1)).await;

    let all = Socket::open(&env, &format!("/runs/{}/stream", run.run)).await.until("session.completed").await;

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
    assert_eq!(done["payload"]["text"], "s0: completed by w");
    assert_eq!(done["payload"]["event"]["kind"], "step_succeeded");
    assert!(done["at"].as_str().unwrap().ends_with('Z'));
    assert!(all[0].get("step").is_none() && all[3].get("step").is_none());
    assert!(all[0].get("step_number").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn envelope_has_the_trace_context_of_the_caller() {
    let env = StreamEnv::open(quick()).await;
    let sent: TraceContext = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".parse().unwrap();
    let run = trace::with_context(sent, env.run("acme", "k", &steps(1))).await;

    let all = Socket::open(&env, &format!("/runs/{}/stream", run.run)).await.until("session.completed").await;

    assert!(all.iter().all(|envelope| envelope["meta"]["traceparent"] == sent.to_string()), "{all:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn listeners_of_a_run_share_one_poll() {
    let env = StreamEnv::open(nudged_only()).await;
    let run = env.start("acme", "k", &gate("a")).await;
    env.until(&run, RunStatus::WaitingApproval).await;
    let path = format!("/runs/{}/stream", run.run);
    let mut listeners = Vec::new();
    for _ in 0..20 {
        let mut listener = Socket::open(&env, &path).await;
        listener.until("approval.requested").await;
        listeners.push(listener);
    }

    env.approve(&run).await;
    env.until(&run, RunStatus::Succeeded).await;
    env.streams.nudge();

    for mut listener in listeners {
        let received = listener.until("session.completed").await;
        assert_eq!(types(&received), ["approval.resolved", "execution.step.completed", "session.completed"]);
    }
}
