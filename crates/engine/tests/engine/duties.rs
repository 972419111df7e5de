//! Separation of duties, and repeated attempts at risky actions, with an external system that records its requests.

use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_engine::VoteRequest;
use domain::tenant::Person;
use domain::{
    Cause, Channel, InboxEntry, Initiator, Millis, ParticipantRole, Role, RunKey, RunStatus, Timestamp,
};
use serde_json::json;
use testkit::{HttpStub, StubReply, TestClock, acme};

use crate::http_env::HttpEnv;

/// 2026-01-01 at noon UTC.
const NOON: Timestamp = Timestamp(1_767_268_800_000);

/// Longer than any delay between two attempts.
const PAUSE: Millis = Millis::mins(15);

/// An external system that answers with these statuses in turn, and then with 200.
fn http_env(statuses: &'static [u16]) -> HttpEnv {
    let sent = AtomicUsize::new(0);
    let external = HttpStub::start(move |_| {
        let status = statuses.get(sent.fetch_add(1, Ordering::SeqCst)).copied().unwrap_or(200);
        StubReply::json(status, "{}")
    });
    HttpEnv::new(testkit::engine().clock(TestClock::at(NOON)).signed(), external)
}

/// A step that sends `method`.
fn step(env: &HttpEnv, id: &str, method: &str, more: &str) -> String {
    let url = env.external.url(&format!("/{id}"));
    format!(
        "  - {{ id: {id}, tool: http.request, with: {{ method: {method}, url: '{url}', effect: native_key }}{more} }}\n"
    )
}

async fn start(env: &HttpEnv, steps: &str) -> RunKey {
    start_in(env, "prod", steps).await
}

async fn start_in(env: &HttpEnv, environment: &str, steps: &str) -> RunKey {
    env.start(&format!("workflow: w\nversion: 1\nenvironment: {environment}\nsteps:\n{steps}"), "k").await
}

/// Advances the run after the delay of its next attempt.
async fn advance_later(env: &HttpEnv, run: &RunKey) -> RunStatus {
    env.clock.advance(PAUSE);
    env.advance(run).await
}

/// Everyone who is needed approves.
async fn approve_all(env: &HttpEnv, run: &RunKey) {
    for person in ["grace", "ben"] {
        if env.status(run).await == RunStatus::WaitingApproval {
            env.approve(run, person).await.unwrap();
        }
    }
}

async fn vote_in_slack(env: &HttpEnv, run: &RunKey, person: &str) {
    let through = Channel::Slack { team: "T1".to_owned(), user: "U1".to_owned() };
    let vote = VoteRequest { through, ..testkit::vote(&env.approval(run).await, person) };
    env.vote(run, vote).await.unwrap();
}

/// Grace applies a workflow with this trigger.
async fn apply_as_grace(env: &HttpEnv, trigger: &str) {
    let source = format!(
        "workflow: applied\nversion: 1\nenvironment: prod\ntrigger: {trigger}\nsteps:\n{}",
        step(env, "a", "PUT", "")
    );
    env.handle("Grace").apply(&testkit::plan(&env.engine, &source)).await.unwrap();
}

/// A run that no user requested waits for an approval, which is not one of the user who applied its workflow.
async fn assert_applier_cannot_approve(env: &HttpEnv, run: &RunKey) {
    env.engine.admission().process_entry(run).await.unwrap();
    assert_eq!(env.record(run).await.trigger.requester, None);
    assert_eq!(env.advance(run).await, RunStatus::WaitingApproval);
    env.assert_excluded(run, "grace", ParticipantRole::Applier).await;
    assert_eq!(env.requests(), [""; 0]);
    env.approve(run, "ben").await.unwrap();
    assert_eq!(env.advance(run).await, RunStatus::Succeeded);
}

#[tokio::test]
async fn applier_cannot_approve_a_webhook_run() {
    let env = http_env(&[]);
    apply_as_grace(&env, "{ servicenow: { table: incident } }").await;
    let event = testkit::event("sn:1", json!({ "record": { "sys_id": "abc" } }));
    let accepted = env.engine.admission().accept(event).await.unwrap();
    assert_applier_cannot_approve(&env, &accepted.run).await;
}

#[tokio::test]
async fn applier_cannot_approve_a_scheduled_run() {
    let env = http_env(&[]);
    apply_as_grace(&env, "{ schedule: { cron: '30 12 * * *', time_zone: UTC } }").await;
    env.clock.advance(Millis::mins(31));
    let sweep = Initiator::new(Cause::System, "sweep");
    assert_eq!(env.engine.operations().sweep(&sweep).await.unwrap().scheduled, 1);
    let run = InboxEntry::run_of(&acme(), &"scheduler:applied:2026-01-01T12:30Z".parse().unwrap());
    assert_applier_cannot_approve(&env, &run).await;
}

/// Mallory rejects the second action. That starts the rollback of the first one, which she then wants to approve.
#[tokio::test]
async fn rejecter_cannot_approve_the_rollback() {
    let env = http_env(&[]);
    let url = env.external.url("/a/close");
    let rollback = format!(
        ", rollback: {{ tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }} }}"
    );
    let run = start(&env, &(step(&env, "a", "PUT", &rollback) + &step(&env, "b", "PUT", ""))).await;
    advance_later(&env, &run).await;
    approve_all(&env, &run).await;
    assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);
    env.reject(&run, "mallory", "").await.unwrap();
    assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);

    env.assert_excluded(&run, "mallory", ParticipantRole::Rejecter).await;
    assert_eq!(env.external.requests().len(), 1);

    approve_all(&env, &run).await;
    assert_eq!(advance_later(&env, &run).await, RunStatus::FailedTerminal);
    assert_eq!(env.external.requests().len(), 2);
    env.engine.operations().build_evidence(&run).await.unwrap();
    let verified = env.evidence(&run).await;
    let mallory = "mallory".parse().unwrap();
    let roles = verified.bundle().approvals.iter().filter_map(|approval| approval.excluded.role_of(&mallory));
    assert_eq!(roles.collect::<Vec<_>>(), [ParticipantRole::Rejecter]);
}

/// The approvers of an undo see that an earlier undo, or the rollback of the run itself, was rejected.
#[tokio::test]
async fn rejection_hidden_on_second_undo() {
    let rollback = |env: &HttpEnv| {
        let url = env.external.url("/a/close");
        format!(
            ", rollback: {{ tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }} }}"
        )
    };
    let assert_rejected = async |env: &HttpEnv, undo: &RunKey| {
        assert_eq!(advance_later(env, undo).await, RunStatus::WaitingApproval);
        let asked = env.approval(undo).await;
        assert_eq!(asked.rejected.map(|rejection| rejection.by.to_string()).as_deref(), Some("mallory"));
    };
    let undo = async |env: &HttpEnv, run: &RunKey| env.handle("ada").undo(&run.run).await.unwrap().run;

    let env = http_env(&[]);
    let run = start(&env, &step(&env, "a", "PUT", &rollback(&env))).await;
    advance_later(&env, &run).await;
    approve_all(&env, &run).await;
    assert_eq!(advance_later(&env, &run).await, RunStatus::Succeeded);
    let first = undo(&env, &run).await;
    assert_eq!(advance_later(&env, &first).await, RunStatus::WaitingApproval);
    env.reject(&first, "mallory", "").await.unwrap();
    assert_eq!(advance_later(&env, &first).await, RunStatus::FailedTerminal);
    let second = undo(&env, &run).await;
    assert_ne!(first, second);
    assert_rejected(&env, &second).await;

    let env = http_env(&[]);
    let run = start(&env, &(step(&env, "a", "PUT", &rollback(&env)) + &step(&env, "b", "PUT", ""))).await;
    advance_later(&env, &run).await;
    approve_all(&env, &run).await;
    advance_later(&env, &run).await;
    env.reject(&run, "grace", "").await.unwrap();
    assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);
    env.reject(&run, "mallory", "").await.unwrap();
    assert_eq!(advance_later(&env, &run).await, RunStatus::Paused);
    env.handle("ada").cancel(&run.run, "stop").await.unwrap();
    assert_rejected(&env, &undo(&env, &run).await).await;
}

/// The external system refuses the first requests. An approval covers one of them.
#[tokio::test]
async fn each_attempt_at_a_risky_action_needs_an_approval() {
    for (method, blast_radius, asks_again) in [
        ("PUT", "low", false),
        ("PUT", "medium", true),
        ("PUT", "high", true),
        ("DELETE", "low", true),
        ("DELETE", "high", true),
    ] {
        let env = http_env(&[429, 429]);
        let more = format!(", retry: {{ attempts: 5 }}, blast_radius: {blast_radius}");
        let run = start(&env, &step(&env, "a", method, &more)).await;
        assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);
        approve_all(&env, &run).await;
        let mut requests = 1;
        loop {
            let status = advance_later(&env, &run).await;
            assert!(env.external.requests().len() <= requests, "{method}, {blast_radius}");
            match status {
                RunStatus::Succeeded => break,
                RunStatus::WaitingApproval => {
                    approve_all(&env, &run).await;
                    requests += 1;
                }
                _ if !asks_again => requests += 1,
                _ => {}
            }
        }
        assert_eq!(env.external.requests().len(), 3, "{method}, {blast_radius}");
        assert_eq!(
            env.approvals(&run).await.len(),
            if asks_again { 3 } else { 1 },
            "{method}, {blast_radius}"
        );
    }
}

/// A reply is lost. The same effect continues, unless it destroys data: then a person decides.
#[tokio::test]
async fn lost_reply_of_a_destructive_action_is_not_repeated() {
    for (method, status, requests) in [("PUT", RunStatus::Succeeded, 2), ("DELETE", RunStatus::Paused, 1)] {
        let env = http_env(&[503]);
        let run = start(&env, &step(&env, "a", method, ", retry: { attempts: 5 }, blast_radius: high")).await;
        advance_later(&env, &run).await;
        approve_all(&env, &run).await;
        advance_later(&env, &run).await;
        assert_eq!(advance_later(&env, &run).await, status, "{method}");
        assert_eq!(
            (env.external.requests().len(), env.approvals(&run).await.len()),
            (requests, 1),
            "{method}"
        );
        if status == RunStatus::Paused {
            env.handle("ada").resume(&run.run, "looked").await.unwrap();
            assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);
            approve_all(&env, &run).await;
            assert_eq!(advance_later(&env, &run).await, RunStatus::Succeeded);
        }
    }
}

/// Policy allows the action without an approval. A lost reply is no reason to require one: the same key is the same
/// effect.
#[tokio::test]
async fn lost_reply_of_an_allowed_action_is_repeated() {
    let env = http_env(&[503]);
    let run = start_in(&env, "dev", &step(&env, "a", "PUT", ", retry: { attempts: 5 }")).await;
    assert_eq!(advance_later(&env, &run).await, RunStatus::FailedRetryable);
    assert_eq!(advance_later(&env, &run).await, RunStatus::Succeeded);
    assert_eq!((env.external.requests().len(), env.approvals(&run).await.len()), (2, 0));
}

/// Grace approves in Slack, and loses the role there before a worker uses her approval.
#[tokio::test]
async fn approval_in_slack_ends_with_the_role() {
    let env = http_env(&[]);
    let person =
        |roles: &[Role]| Person { slack_roles: roles.iter().copied().collect(), ..Person::default() };
    env.update_tenant(&acme(), |tenant| {
        tenant.people.insert("ada".parse().unwrap(), person(&[]));
        tenant.people.insert("ben".parse().unwrap(), person(&[Role::Approver]));
        tenant.people.insert("grace".parse().unwrap(), person(&[Role::Approver]));
    })
    .await;
    let run = start(&env, &step(&env, "a", "PUT", "")).await;
    assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);
    vote_in_slack(&env, &run, "grace").await;
    env.update_tenant(&acme(), |tenant| {
        tenant.people.insert("grace".parse().unwrap(), person(&[Role::Operator]));
    })
    .await;

    assert_eq!(advance_later(&env, &run).await, RunStatus::WaitingApproval);
    assert_eq!((env.external.requests().len(), env.approvals(&run).await.len()), (0, 2));
    vote_in_slack(&env, &run, "ben").await;
    assert_eq!(advance_later(&env, &run).await, RunStatus::Succeeded);
}
