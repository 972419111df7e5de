//! Named attacks on approvals and policy, with `http.request` and an external system that records its requests.

use std::collections::BTreeMap;

use connectors::HostAllowList;
use countersign_engine::{Engine, EngineError, SignalRun, StartRun, TenantUpdate};
use domain::command::VoteResult;
use domain::refusal::NotApprover;
use domain::tenant::{Caps, Person};
use domain::{Approval, Cause, Initiator, ParticipantRole, Refusal, RunKey, RunStatus, Subject, Tenant};
use serde_json::{Value, json};
use store::{Governance as _, PolicyFiles, SqliteStore};
use testkit::{HttpStub, StubReply, acme};

struct TestEnv {
    engine: Engine<SqliteStore>,
    /// Accepts every request except those for `/refused`.
    external: HttpStub,
}

impl TestEnv {
    fn new() -> Self {
        let external = HttpStub::start(|request| {
            StubReply::json(if request.line().ends_with(" /refused") { 403 } else { 200 }, "{}")
        });
        let allow = HostAllowList { hosts: vec!["127.0.0.1".parse().unwrap()] };
        let tools = connectors::standard_tools(allow);
        Self { engine: testkit::engine().tools(tools).build(), external }
    }

    /// The fields of a step that changes `path`.
    fn put(&self, path: &str) -> String {
        Self::put_url(&self.external.url(path))
    }

    fn put_url(url: &str) -> String {
        format!("tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }}")
    }

    /// Ada starts a run in `environment`.
    async fn start(&self, environment: &str, steps: &[String], input: Value) -> RunKey {
        let steps = steps.iter().map(|step| format!("  - {{ {step} }}\n")).collect::<Vec<_>>().concat();
        let source = format!("workflow: w\nversion: 1\nenvironment: {environment}\nsteps:\n{steps}");
        let request = StartRun { input, ..testkit::request(&self.engine, &source, "k") };
        Box::pin(self.engine.admission().start(request)).await.unwrap().run
    }

    async fn advance(&self, run: &RunKey) -> RunStatus {
        testkit::advance(&self.engine, run).await
    }

    async fn newest_approval(&self, run: &RunKey) -> Approval {
        testkit::approvals(&self.engine, run).await.pop().unwrap()
    }

    async fn approve(&self, run: &RunKey, person: &str) -> VoteResult {
        testkit::approve(&self.engine, run, person).await.unwrap()
    }

    /// Asserts that `person` cannot approve because of this role.
    async fn assert_excluded(&self, run: &RunKey, person: &str, role: ParticipantRole) {
        let refused = testkit::approve(&self.engine, run, person).await;
        let Err(EngineError::Refused(Refusal::NotApprover { why, .. })) = refused else {
            panic!("{person}: {refused:?}")
        };
        assert_eq!(why, NotApprover::Participant(role), "{person}");
        assert!(self.newest_approval(run).await.is_open());
    }

    async fn put_directory(&self, people: &[&str]) {
        let handle = self.engine.tenant_handle(&acme(), &testkit::ada());
        let seen = handle.tenant_settings().await.unwrap().map(|tenant| tenant.revision);
        let people = people.iter().map(|name| (name.parse().unwrap(), Person::default())).collect();
        let update =
            TenantUpdate { seen, caps: Caps::default(), people, groups: BTreeMap::new(), redact: Vec::new() };
        handle.update_tenant(update).await.unwrap();
    }

    /// The lines of the requests that the external system received.
    fn requests(&self) -> Vec<String> {
        self.external.requests().iter().map(|request| request.line().to_owned()).collect()
    }
}

fn user(name: &str) -> Initiator {
    Initiator::new(Cause::User, name)
}

/// The author of the workflow lets the input choose what its rollback changes. The rollback starts when a later step
/// fails.
#[tokio::test]
async fn declared_rollback_hits_other_record() {
    let env = TestEnv::new();
    let rollback = TestEnv::put_url("${ trigger.other }");
    let steps = [
        format!("id: a, {}, rollback: {{ {rollback} }}", env.put("/accounts/1")),
        format!("id: b, {}", env.put("/refused")),
    ];
    let input = json!({ "other": env.external.url("/accounts/2") });
    let run = env.start("prod", &steps, input).await;

    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    let Subject::Action { rollback: Some(shown), .. } = env.newest_approval(&run).await.subject else {
        panic!("the approver of the step sees its rollback")
    };
    assert_eq!(shown.with["url"], json!("${ trigger.other }"));
    env.approve(&run, "grace").await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.approve(&run, "grace").await;

    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval, "the rollback needs its own approval");
    let approval = env.newest_approval(&run).await;
    let Subject::Action { action, .. } = &approval.subject else { panic!("{approval:?}") };
    assert!(
        approval.rollback && action.fields["url"] == json!(env.external.url("/accounts/2")),
        "{action:?}"
    );
    assert_eq!(env.requests(), ["PUT /accounts/1", "PUT /refused"]);
}

/// Linus may operate and approve. The rollback that he orders is an action that the workflow declares.
#[tokio::test]
async fn rollback_ordered_and_approved_by_one() {
    let env = TestEnv::new();
    let steps = [
        format!("id: a, {}, rollback: {{ {} }}", env.put("/accounts/1"), env.put("/accounts/1/close")),
        format!("id: b, {}", env.put("/accounts/2")),
    ];
    let run = env.start("prod", &steps, json!({})).await;
    env.advance(&run).await;
    env.approve(&run, "grace").await;
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);

    let linus = env.engine.tenant_handle(&run.tenant, &user("linus"));
    linus.roll_back(&run.run, "wrong account", None).await.unwrap();
    assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
    env.assert_excluded(&run, "linus", ParticipantRole::Canceler).await;
    assert_eq!(env.requests(), ["PUT /accounts/1"]);

    env.approve(&run, "grace").await;
    assert_eq!(env.advance(&run).await, RunStatus::Canceled);
    assert_eq!(env.requests(), ["PUT /accounts/1", "PUT /accounts/1/close"]);
}

/// Mallory chooses the account with an event, before or while the run waits for it.
#[tokio::test]
async fn signal_payload_becomes_action_then_self_approved() {
    for early in [true, false] {
        let env = TestEnv::new();
        let steps = [
            "id: choice, tool: wait.event, with: { event: account.chosen }".to_owned(),
            format!("id: pay, {}", env.put("/accounts/${ steps.choice.account }")),
        ];
        let run = env.start("prod", &steps, json!({})).await;
        if !early {
            assert_eq!(env.advance(&run).await, RunStatus::WaitingEvent);
        }
        let signal = SignalRun {
            id: "s1".parse().unwrap(),
            event: "account.chosen".parse().unwrap(),
            payload: json!({ "account": "mallory" }),
        };
        let mallory = env.engine.tenant_handle(&run.tenant, &user("mallory"));
        mallory.signal(&run.run, signal).await.unwrap();

        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        env.assert_excluded(&run, "mallory", ParticipantRole::Signaler).await;
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        assert_eq!(env.requests(), [""; 0]);
        env.approve(&run, "grace").await;
    }
}

/// Two approvers are needed. One of them leaves before the decision, or after it and before the change.
#[tokio::test]
async fn removed_person_vote() {
    let all = ["ada", "grace", "ben", "linus"];
    let without_grace = ["ada", "ben", "linus"];
    for leaves_before_the_decision in [true, false] {
        let env = TestEnv::new();
        env.put_directory(&all).await;
        let steps = [format!("id: a, {}, blast_radius: high", env.put("/accounts/1"))];
        let run = env.start("prod", &steps, json!({})).await;
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);

        assert_eq!(env.approve(&run, "grace").await, VoteResult::Counted { missing: 1 });
        if leaves_before_the_decision {
            env.put_directory(&without_grace).await;
            assert_eq!(env.approve(&run, "ben").await, VoteResult::Counted { missing: 1 });
        } else {
            assert!(matches!(env.approve(&run, "ben").await, VoteResult::Decided(_)));
            env.put_directory(&without_grace).await;
        }
        assert_eq!(env.advance(&run).await, RunStatus::WaitingApproval);
        assert_eq!(env.requests(), [""; 0], "before the decision: {leaves_before_the_decision}");

        if !leaves_before_the_decision {
            env.approve(&run, "ben").await;
        }
        env.approve(&run, "linus").await;
        assert_eq!(env.advance(&run).await, RunStatus::Succeeded);
    }
}

/// A GET can carry data out of the tenant in its query.
#[tokio::test]
async fn read_with_secret_in_query_under_deny_all() {
    const DENY_ALL: &str =
        "package countersign\ndeny contains {\"rule\": \"all\", \"message\": \"closed\"}\n";
    let env = TestEnv::new();
    let files = PolicyFiles::from([("rules.rego".to_owned(), DENY_ALL.to_owned())]);
    let hash = policy::PolicyBundle::parse(files.clone()).unwrap().hash();
    env.engine.store().put_policy(&acme(), &hash, files).await.unwrap();
    env.engine.store().put_tenant(Tenant { policy: Some(hash), ..Tenant::new(acme()) }).await.unwrap();
    let url = env.external.url("/collect?data=${ trigger.secret }");
    let steps = [format!("id: a, tool: http.request, with: {{ url: '{url}' }}")];
    let run = env.start("prod", &steps, json!({ "secret": "hunter2" })).await;

    assert_eq!(env.advance(&run).await, RunStatus::FailedTerminal);

    assert_eq!(env.requests(), [""; 0]);
    let events = env.engine.operations().inspect(&run).await.unwrap().events.unwrap();
    assert!(!serde_json::to_string(&events).unwrap().contains("hunter2"), "{events:?}");
}
