//! Separation of duties, and repeated attempts at risky actions, with an external system that records its requests.

use std::sync::atomic::{AtomicUsize, Ordering};

use connectors::HostAllowList;
use countersign_engine::{Engine, EngineError, VoteRequest};
use domain::refusal::NotApprover;
use domain::tenant::Person;
use domain::{
    Cause, Channel, InboxEntry, Initiator, Millis, ParticipantRole, Refusal, Role, RunKey, RunStatus, Tenant,
    Timestamp,
};
use serde_json::json;
use store::{Governance as _, SqliteStore};
use testkit::{HttpStub, StubReply, TestClock, acme};

/// 2026-01-01 at noon UTC.
const NOON: Timestamp = Timestamp(1_767_268_800_000);

/// Longer than any delay between two attempts.
const PAUSE: Millis = Millis::mins(15);

struct TestEnv {
    engine: Engine<SqliteStore>,
    clock: TestClock,
    external: HttpStub,
}

impl TestEnv {
    /// The external system answers with these statuses in turn, and then with 200.
    fn new(statuses: &'static [u16]) -> Self {
        let sent = AtomicUsize::new(0);
        let external = HttpStub::start(move |_| {
            let status = statuses.get(sent.fetch_add(1, Ordering::SeqCst)).copied().unwrap_or(200);
            StubReply::json(status, "{}")
        });
        let allow = HostAllowList { hosts: vec!["127.0.0.1".parse().unwrap()] };
        let tools = connectors::standard_tools(allow);
        let clock = TestClock::at(NOON);
        let engine = testkit::engine().tools(tools).clock(clock.clone()).signed().build();
        Self { engine, clock, external }
    }

    /// The fields of a step that sends `method`.
    fn step(&self, id: &str, method: &str, more: &str) -> String {
        let url = self.external.url(&format!("/{id}"));
        format!(
            "  - {{ id: {id}, tool: http.request, with: {{ method: {method}, url: '{url}', effect: native_key }}{more} }}\n"
        )
    }

    async fn start(&self, steps: &str) -> RunKey {
        self.start_in("prod", steps).await
    }

    async fn start_in(&self, environment: &str, steps: &str) -> RunKey {
        let source = format!("workflow: w\nversion: 1\nenvironment: {environment}\nsteps:\n{steps}");
        testkit::start(&self.engine, &source, "k").await
    }

    /// Advances the run after the delay of its next attempt.
    async fn advance(&self, run: &RunKey) -> RunStatus {
        self.clock.advance(PAUSE);
        testkit::advance(&self.engine, run).await
    }

    /// Everyone who is needed approves.
    async fn approve(&self, run: &RunKey) {
        for person in ["grace", "ben"] {
            if testkit::status(&self.engine, run).await == RunStatus::WaitingApproval {
                testkit::approve(&self.engine, run, person).await.unwrap();
            }
        }
    }

    async fn asked(&self, run: &RunKey) -> usize {
        testkit::approvals(&self.engine, run).await.len()
    }

    async fn assert_excluded(&self, run: &RunKey, person: &str, role: ParticipantRole) {
        let refused = testkit::approve(&self.engine, run, person).await;
        let Err(EngineError::Refused(Refusal::NotApprover { why, .. })) = refused else {
            panic!("{person}: {refused:?}")
        };
        assert_eq!(why, NotApprover::Participant(role), "{person}");
    }

    async fn vote(&self, run: &RunKey, person: &str, approve: bool, through: Channel) {
        let asked = testkit::approvals(&self.engine, run).await.pop().unwrap();
        let vote = VoteRequest { approve, through, ..testkit::vote(&asked, person) };
        Box::pin(self.engine.governance().record_vote(&run.tenant, vote)).await.unwrap();
    }

    /// Grace applies a workflow with this trigger.
    async fn apply_as_grace(&self, trigger: &str) {
        let source = format!(
            "workflow: applied\nversion: 1\nenvironment: prod\ntrigger: {trigger}\nsteps:\n{}",
            self.step("a", "PUT", "")
        );
        let grace = self.engine.tenant_handle(&acme(), &Initiator::new(Cause::User, "Grace"));
        grace.apply(&testkit::plan(&self.engine, &source)).await.unwrap();
    }

    /// A run that no user requested waits for an approval, which is not one of the user who applied its workflow.
    async fn assert_applier_cannot_approve(&self, run: &RunKey) {
        self.engine.admission().process_entry(run).await.unwrap();
        assert_eq!(testkit::record(&self.engine, run).await.trigger.requester, None);
        assert_eq!(testkit::advance(&self.engine, run).await, RunStatus::WaitingApproval);
        self.assert_excluded(run, "grace", ParticipantRole::Applier).await;
        assert_eq!(self.external.requests().len(), 0);
        testkit::approve(&self.engine, run, "ben").await.unwrap();
        assert_eq!(testkit::advance(&self.engine, run).await, RunStatus::Succeeded);
    }

    async fn put_tenant(&self, change: impl FnOnce(&mut Tenant)) {
        let stored = self.engine.store().tenant(&acme()).await.unwrap();
        let revision = stored.as_ref().map_or(0, |stored| stored.revision + 1);
        let mut tenant = stored.unwrap_or_else(|| Tenant::new(acme()));
        tenant.revision = revision;
        change(&mut tenant);
        self.engine.store().put_tenant(tenant).await.unwrap();
    }
}

#[tokio::test]
async fn applier_cannot_approve_a_webhook_run() {
    let env = TestEnv::new(&[]);
    env.apply_as_grace("{ servicenow: { table: incident } }").await;
    let event = testkit::event("sn:1", json!({ "record": { "sys_id": "abc" } }));
    let accepted = env.engine.admission().accept(event).await.unwrap();
    env.assert_applier_cannot_approve(&accepted.run).await;
}

#[tokio::test]
async fn applier_cannot_approve_a_scheduled_run() {
    let env = TestEnv::new(&[]);
    env.apply_as_grace("{ schedule: { cron: '30 12 * * *', time_zone: UTC } }").await;
    env.clock.advance(Millis::mins(31));
    let sweep = Initiator::new(Cause::System, "sweep");
    assert_eq!(env.engine.operations().sweep(&sweep).await.unwrap().scheduled, 1);
    let run = InboxEntry::run_of(&acme(), &"scheduler:applied:2026-01-01T12:30Z".parse().unwrap());
    env.assert_applier_cannot_approve(&run).await;
}

/// Mallory rejects the second action. That starts the rollback of the first one, which she then wants to approve.
#[tokio::test]
async fn rejecter_cannot_approve_the_rollback() {
    let env = TestEnv::new(&[]);
    let url = env.external.url("/a/close");
    let rollback = format!(
        ", rollback: {{ tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }} }}"
    );
    let run = env.start(&(env.step("a", "PUT", &rollback) + &env.step("b", "PUT", ""))).await;
    env.advance(&run).await;
    env.approve(&run).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.vote(&run, "mallory", false, Channel::CommandLine).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);

    env.assert_excluded(&run, "mallory", ParticipantRole::Rejecter).await;
    assert_eq!(env.external.requests().len(), 1);

    env.approve(&run).await;
    assert_eq!(env.advance(&run).await, RunStatus::FailedTerminal);
    assert_eq!(env.external.requests().len(), 2);
    env.engine.operations().build_evidence(&run).await.unwrap();
    let (_, bytes) = env.engine.operations().evidence(&run).await.unwrap();
    let verified = evidence::verify(&bytes, &testkit::signing_key().public()).unwrap();
    let mallory = "mallory".parse().unwrap();
    let roles = verified.bundle().approvals.iter().filter_map(|approval| approval.excluded.role_of(&mallory));
    assert_eq!(roles.collect::<Vec<_>>(), [ParticipantRole::Rejecter]);
}

/// The approvers of an undo see that an earlier undo, or the rollback of the run itself, was rejected.
#[tokio::test]
async fn rejection_hidden_on_second_undo() {
    let rollback = |env: &TestEnv| {
        let url = env.external.url("/a/close");
        format!(
            ", rollback: {{ tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }} }}"
        )
    };
    let assert_rejected = async |env: &TestEnv, undo: &RunKey| {
        assert_eq!(env.advance(undo).await, RunStatus::WaitingApproval);
        let asked = testkit::approvals(&env.engine, undo).await.pop().unwrap();
        assert_eq!(asked.rejected.map(|rejection| rejection.by.to_string()).as_deref(), Some("mallory"));
    };
    let undo = async |env: &TestEnv, run: &RunKey| {
        env.engine.tenant_handle(&run.tenant, &testkit::ada()).undo(&run.run).await.unwrap().run
    };

    let env = TestEnv::new(&[]);
    let run = env.start(&env.step("a", "PUT", &rollback(&env))).await;
    env.advance(&run).await;
    env.approve(&run).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    let first = undo(&env, &run).await;
    assert_eq!(env.advance(&first).await, RunStatus::WaitingApproval);
    env.vote(&first, "mallory", false, Channel::CommandLine).await;
    assert_eq!(env.advance(&first).await, RunStatus::FailedTerminal);
    let second = undo(&env, &run).await;
    assert_ne!(first, second);
    assert_rejected(&env, &second).await;

    let env = TestEnv::new(&[]);
    let run = env.start(&(env.step("a", "PUT", &rollback(&env)) + &env.step("b", "PUT", ""))).await;
    env.advance(&run).await;
    env.approve(&run).await;
    env.advance(&run).await;
    env.vote(&run, "grace", false, Channel::CommandLine).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.vote(&run, "mallory", false, Channel::CommandLine).await;
    assert_eq!(env.advance(&run).await, RunStatus::Paused);
    env.engine.tenant_handle(&run.tenant, &testkit::ada()).cancel(&run.run, "stop").await.unwrap();
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
        let env = TestEnv::new(&[429, 429]);
        let more = format!(", retry: {{ attempts: 5 }}, blast_radius: {blast_radius}");
        let run = env.start(&env.step("a", method, &more)).await;
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        env.approve(&run).await;
        let mut requests = 1;
        loop {
            let status = env.advance(&run).await;
            assert!(env.external.requests().len() <= requests, "{method}, {blast_radius}");
            match status {
                RunStatus::Succeeded => break,
                RunStatus::WaitingApproval => {
                    env.approve(&run).await;
                    requests += 1;
                }
                _ if !asks_again => requests += 1,
                _ => {}
            }
        }
        assert_eq!(env.external.requests().len(), 3, "{method}, {blast_radius}");
        assert_eq!(env.asked(&run).await, if asks_again { 3 } else { 1 }, "{method}, {blast_radius}");
    }
}

/// A reply is lost. The same effect continues, unless it destroys data: then a person decides.
#[tokio::test]
async fn lost_reply_of_a_destructive_action_is_not_repeated() {
    for (method, status, requests) in [("PUT", RunStatus::Succeeded, 2), ("DELETE", RunStatus::Paused, 1)] {
        let env = TestEnv::new(&[503]);
        let run = env.start(&env.step("a", method, ", retry: { attempts: 5 }, blast_radius: high")).await;
        env.advance(&run).await;
        env.approve(&run).await;
        env.advance(&run).await;
        assert_eq!(env.advance(&run).await, status, "{method}");
        assert_eq!((env.external.requests().len(), env.asked(&run).await), (requests, 1), "{method}");
        if status == RunStatus::Paused {
            let ada = env.engine.tenant_handle(&run.tenant, &testkit::ada());
            ada.resume(&run.run, "looked").await.unwrap();
            assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
            env.approve(&run).await;
            assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
        }
    }
}

/// Policy allows the action without an approval. A lost reply is no reason to require one: the same key is the same
/// effect.
#[tokio::test]
async fn lost_reply_of_an_allowed_action_is_repeated() {
    let env = TestEnv::new(&[503]);
    let run = env.start_in("dev", &env.step("a", "PUT", ", retry: { attempts: 5 }")).await;
    assert_eq!(env.advance(&run).await, RunStatus::FailedRetryable);
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    assert_eq!((env.external.requests().len(), env.asked(&run).await), (2, 0));
}

/// Grace approves in Slack, and loses the role there before a worker uses her approval.
#[tokio::test]
async fn approval_in_slack_ends_with_the_role() {
    let env = TestEnv::new(&[]);
    let person =
        |roles: &[Role]| Person { slack_roles: roles.iter().copied().collect(), ..Person::default() };
    env.put_tenant(|tenant| {
        tenant.people.insert("ada".parse().unwrap(), person(&[]));
        tenant.people.insert("ben".parse().unwrap(), person(&[Role::Approver]));
        tenant.people.insert("grace".parse().unwrap(), person(&[Role::Approver]));
    })
    .await;
    let run = env.start(&env.step("a", "PUT", "")).await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    let slack = Channel::Slack { team: "T1".to_owned(), user: "U1".to_owned() };
    env.vote(&run, "grace", true, slack.clone()).await;
    env.put_tenant(|tenant| drop(tenant.people.insert("grace".parse().unwrap(), person(&[Role::Operator]))))
        .await;

    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    assert_eq!((env.external.requests().len(), env.asked(&run).await), (0, 2));
    env.vote(&run, "ben", true, slack).await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
}
