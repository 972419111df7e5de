//! Verdicts and approvals: what they allow, and what invalidates them.

use std::ops::Deref;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use countersign_engine::{
    AdvanceLimits, Engine, EngineError, NewApiKey, NotUndoable, StartRun, TenantUpdate, VoteRequest,
};
use domain::approval::Assurance;
use domain::refusal::NotApprover;
use domain::tenant::{Caps, Person};
use domain::{
    Approval, ApprovalStatus, Cause, Channel, Digest, IdempotencyKey, Initiator, Job, Millis, QueueName,
    Refusal, RunKey, RunStatus, StepState, Subject, Tenant,
};
use serde_json::{Value, json};
use store::{
    Governance as _, Intercept, Intercepted, Ledger as _, Queue as _, SqliteStore, Store, StoreCall,
    StoreError,
};
use testkit::{ExternalRecord, SetRecord, TestEnv, memory, signing_key, start, vote};

/// A run whose steps set an external record.
struct ChangeEnv {
    env: TestEnv,
    external: Arc<ExternalRecord>,
    run: RunKey,
}

const TWO_SETS: &str = "steps:\n  - { id: a, tool: test.set, with: { to: one }, rollback: auto }\n  - { id: b, tool: test.set, with: { to: two } }\n";

const SHARED: &str = "workflow: w\nversion: 1\nenvironment: dev\nsteps:\n  - { id: a, tool: test.set, with: { to: one, key: 'shared:1' } }\n";

fn engine_on<S: Store>(store: S, external: &Arc<ExternalRecord>) -> Engine<S> {
    testkit::engine().tool(SetRecord(Arc::clone(external))).signed().on(store)
}

impl Deref for ChangeEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl ChangeEnv {
    async fn start(head: &str, steps: &str) -> Self {
        let external = Arc::new(ExternalRecord::default());
        let env = testkit::engine().tool(SetRecord(Arc::clone(&external))).signed().env();
        let run = env.start(&format!("workflow: w\nversion: 1\n{head}\n{steps}"), "k").await;
        Self { env, external, run }
    }

    async fn advance(&self) -> RunStatus {
        self.env.advance(&self.run).await
    }

    async fn advance_run(&self, run: &RunKey) -> RunStatus {
        self.env.advance(run).await
    }

    async fn approvals(&self) -> Vec<Approval> {
        self.env.approvals(&self.run).await
    }

    async fn approve(&self, person: &str) -> Result<domain::command::VoteResult, EngineError> {
        self.env.approve(&self.run, person).await
    }

    async fn update_tenant(&self, change: impl FnOnce(&mut Tenant)) {
        self.env.update_tenant(&self.run.tenant, change).await;
    }

    fn writes(&self) -> u32 {
        self.external.writes.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn reversible_action_in_dev_needs_no_approval() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    assert_eq!(env.advance().await, RunStatus::Succeeded);
    assert_eq!((env.writes(), env.approvals().await.len()), (2, 0));
}

#[tokio::test]
async fn production_needs_a_second_person() {
    let env = ChangeEnv::start("environment: prod", TWO_SETS).await;
    assert_eq!(env.advance().await, RunStatus::WaitingApproval);
    assert_eq!(env.writes(), 0);
    let refused = env.approve("ada").await;
    assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotApprover { .. }))));

    env.approve("grace").await.unwrap();
    assert_eq!(env.advance().await, RunStatus::WaitingApproval, "the second step asks on its own");
    assert_eq!(env.writes(), 1);
    env.approve("grace").await.unwrap();
    assert_eq!(env.advance().await, RunStatus::Succeeded);
    assert!(env.approvals().await.iter().all(|approval| approval.consumed.is_some()));
}

#[tokio::test]
async fn changed_record_needs_a_new_approval() {
    let env = ChangeEnv::start("environment: prod", TWO_SETS).await;
    env.advance().await;
    env.approve("grace").await.unwrap();
    "another value".clone_into(&mut env.external.says.lock().unwrap());

    assert_eq!(env.advance().await, RunStatus::WaitingApproval);

    let approvals = env.approvals().await;
    assert_eq!((env.writes(), approvals.len()), (0, 2));
    assert_eq!(approvals[0].status, ApprovalStatus::Canceled);
    assert_ne!(approvals[0].subject.hash(), approvals[1].subject.hash());
}

#[tokio::test]
async fn policy_changed_between_request_and_claim() {
    let env = ChangeEnv::start("environment: prod", TWO_SETS).await;
    env.advance().await;
    env.approve("grace").await.unwrap();
    let mut files = policy::PolicyBundle::built_in().unwrap().files().clone();
    files.insert("more.rego".to_owned(), "package countersign\n\n# A file that says nothing.\n".to_owned());
    let bundle = policy::PolicyBundle::parse(files.clone()).unwrap();
    env.engine.store().put_policy(&env.run.tenant, &bundle.hash(), files).await.unwrap();
    env.update_tenant(|tenant| tenant.policy = Some(bundle.hash())).await;

    assert_eq!(env.advance().await, RunStatus::WaitingApproval);

    let approvals = env.approvals().await;
    assert_eq!((env.writes(), approvals.len(), approvals[0].status), (0, 2, ApprovalStatus::Canceled));
}

#[tokio::test]
async fn missing_policy_is_a_deny() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.update_tenant(|tenant| tenant.policy = Some(Digest::of_bytes(b"nowhere"))).await;
    assert_eq!(env.advance().await, RunStatus::FailedTerminal);
    assert_eq!(env.writes(), 0);
    let events = env.engine.operations().inspect(&env.run).await.unwrap().events.unwrap();
    assert_eq!(events.last().unwrap().by.cause, Cause::Policy);
}

#[tokio::test]
async fn run_over_its_cap_fails_and_rolls_back() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.update_tenant(|tenant| tenant.caps = Caps { max_writes_per_run: 1, ..Caps::default() }).await;
    assert_eq!(env.advance().await, RunStatus::FailedTerminal);
    assert_eq!((env.writes(), env.external.says.lock().unwrap().as_str()), (2, ""));
}

#[tokio::test]
async fn confidence_auto_approves_only_outside_prod() {
    let confident = "steps:\n  - { id: a, tool: test.set, with: { to: one }, confidence: 0.95 }\n";
    for (head, ends) in [
        ("environment: dev\nvalidation: per_step\nauto_approve: 0.9", RunStatus::Succeeded),
        ("environment: dev\nvalidation: per_step\nauto_approve: 0.99", RunStatus::WaitingApproval),
        ("environment: dev\nvalidation: per_step", RunStatus::WaitingApproval),
        ("environment: prod\nauto_approve: 0.9", RunStatus::WaitingApproval),
    ] {
        assert_eq!(ChangeEnv::start(head, confident).await.advance().await, ends, "{head}");
    }
}

#[tokio::test]
async fn critical_steps_are_never_auto_approved() {
    let step = |rest: &str| format!("steps:\n  - {{ id: a, tool: test.set, with: {{ to: one }}, {rest} }}\n");
    for (mode, rest, ends) in [
        ("per_step", "critical: true, confidence: 0.95", RunStatus::WaitingApproval),
        ("critical_only", "critical: true, confidence: 0.95", RunStatus::WaitingApproval),
        ("critical_only", "confidence: 0.95", RunStatus::Succeeded),
        ("critical_only", "confidence: 0.5", RunStatus::WaitingApproval),
        ("critical_only", "critical: false", RunStatus::WaitingApproval),
    ] {
        let head = format!("environment: dev\nvalidation: {mode}\nauto_approve: 0.9");
        assert_eq!(ChangeEnv::start(&head, &step(rest)).await.advance().await, ends, "{mode} {rest}");
    }
}

#[tokio::test]
async fn each_validation_mode_asks_where_it_says() {
    let steps = "steps:\n  - { id: a, tool: test.set, with: { to: one } }\n  - { id: b, tool: test.set, with: { to: two } }\n  - { id: c, tool: test.set, with: { to: three }, phase: postchecks, critical: true }\n";
    let modes: [(&str, &[&str]); 4] = [
        ("per_step", &["a", "b", "c"]),
        ("per_phase", &["a", "c"]),
        ("critical_only", &["c"]),
        ("final_only", &["c"]),
    ];
    for (mode, expected) in modes {
        let env = ChangeEnv::start(&format!("environment: dev\nvalidation: {mode}"), steps).await;
        while env.advance().await == RunStatus::WaitingApproval {
            env.approve("grace").await.unwrap();
        }
        let asked: Vec<_> = env.approvals().await.iter().map(|approval| approval.step.to_string()).collect();
        assert_eq!(
            (env.writes(), asked.iter().map(String::as_str).collect()),
            (3, expected.to_vec()),
            "{mode}"
        );
    }
}

/// Step `b` found the record as it wanted it. It has nothing to restore, so the rollback goes on to step `a`.
#[tokio::test]
async fn rollback_skips_a_step_that_changed_nothing() {
    let step =
        |id: &str| format!("  - {{ id: {id}, tool: test.set, with: {{ to: one }}, rollback: auto }}\n");
    let fails = "  - { id: c, tool: test.set, with: { to: '${ steps.a.missing }' } }\n";
    let steps = format!("steps:\n{}{}{fails}", step("a"), step("b"));
    let env = ChangeEnv::start("environment: dev", &steps).await;
    assert_eq!(env.advance().await, RunStatus::FailedTerminal);
    assert_eq!(env.external.says.lock().unwrap().as_str(), "");
    assert_eq!(env.writes(), 3);
    let undo =
        env.engine.tenant_handle(&env.run.tenant, &testkit::ada()).undo_plan(&env.run.run).await.unwrap();
    let not_undone: Vec<_> = undo.effects.into_iter().filter_map(|effect| effect.by.err()).collect();
    assert_eq!(not_undone, [NotUndoable::ChangedNothing, NotUndoable::AlreadyRolledBack]);
}

#[tokio::test]
async fn undo_uses_receipts_and_both_runs_have_evidence() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.advance().await;
    let plan = env
        .engine
        .tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"))
        .undo_plan(&env.run.run)
        .await
        .unwrap();
    let steps: Vec<_> = plan.effects.iter().map(|effect| effect.step.to_string()).collect();
    assert_eq!(steps, ["b", "a"]);

    let undo = env
        .engine
        .tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"))
        .undo(&env.run.run)
        .await
        .unwrap();
    assert_eq!(
        env.engine
            .tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"))
            .undo(&env.run.run)
            .await
            .unwrap()
            .run,
        undo.run
    );
    Box::pin(env.engine.execution().advance(&undo.run, &(), AdvanceLimits::default())).await.unwrap();

    assert_eq!(env.external.says.lock().unwrap().as_str(), "");
    let key = signing_key().public();
    for run in [&env.run, &undo.run] {
        env.engine.operations().build_evidence(run).await.unwrap();
        let (recorded, bytes) = env.engine.operations().evidence(run).await.unwrap();
        assert_eq!(recorded.bundle.sha256, Digest::of_bytes(&bytes));
        evidence::verify(&bytes, &key).unwrap();
    }
}

/// The process that ended the run died before it requested evidence; its message is redelivered.
#[tokio::test]
async fn redelivered_message_requests_missing_evidence() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    assert_eq!(env.advance().await, RunStatus::Succeeded);
    let evidence_jobs = async || {
        let received =
            env.engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap();
        received.into_iter().filter(|message| message.job == Job::BuildEvidence).count()
    };
    assert_eq!(evidence_jobs().await, 1, "requested by the process that ended the run");

    env.advance().await;
    assert_eq!(evidence_jobs().await, 1, "requested again after redelivery");

    env.engine.operations().build_evidence(&env.run).await.unwrap();
    env.advance().await;
    assert_eq!(evidence_jobs().await, 0);
}

#[tokio::test]
async fn each_run_keeps_its_own_receipt_of_a_shared_effect() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    let [first, second] = ["first", "second"].map(|key| start(&env.engine, SHARED, key));
    let (first, second) = (first.await, second.await);
    env.external.refuses.store(true, Ordering::Relaxed);
    assert_eq!(env.advance_run(&first).await, RunStatus::FailedTerminal);
    env.external.refuses.store(false, Ordering::Relaxed);
    assert_eq!(env.advance_run(&second).await, RunStatus::Succeeded);

    let key = signing_key().public();
    for (run, state) in [(&first, "failed"), (&second, "done")] {
        env.engine.operations().build_evidence(run).await.unwrap();
        let (_, bytes) = env.engine.operations().evidence(run).await.unwrap();
        let verified = evidence::verify(&bytes, &key).unwrap();
        let receipt = serde_json::to_value(&verified.bundle().receipts[0]).unwrap();
        assert_eq!(receipt["run"], json!(run.run.as_str()));
        assert_eq!(receipt["state"]["state"], json!(state));
    }
}

#[tokio::test]
async fn expression_like_text_is_restored_as_text() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    "${ run.id }".clone_into(&mut env.external.says.lock().unwrap());
    env.advance().await;
    let undo = env
        .engine
        .tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"))
        .undo(&env.run.run)
        .await
        .unwrap();
    Box::pin(env.engine.execution().advance(&undo.run, &(), AdvanceLimits::default())).await.unwrap();
    assert_eq!(env.external.says.lock().unwrap().as_str(), "${ run.id }");
}

#[tokio::test]
async fn waiting_run_has_its_approval_on_record() {
    let env = ChangeEnv::start("environment: prod", TWO_SETS).await;
    env.advance().await;
    let record = env.engine.store().load(&env.run).await.unwrap().unwrap();
    assert!(matches!(record.step_state, StepState::WaitingApproval { .. }));
    assert_eq!(record.due_at, Some(env.approvals().await[0].next_reminder_at()));
    let value: Value = serde_json::to_value(&record).unwrap();
    assert!(value.to_string().len() < 1_400, "the hot record stays small: {}", value.to_string().len());
}

/// A store in which another vote is recorded while one is being decided.
struct ConcurrentVote {
    other: Mutex<Option<(Engine<SqliteStore>, VoteRequest)>>,
}

impl Intercept for ConcurrentVote {
    type State = ();

    async fn before(&self, site: &StoreCall) -> Result<(), StoreError> {
        let other = if site.name == "ledger.load" { self.other.lock().unwrap().take() } else { None };
        if let Some((engine, reply)) = other {
            Box::pin(engine.governance().record_vote(&"acme".parse().unwrap(), reply)).await.unwrap();
        }
        Ok(())
    }

    async fn after(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn concurrent_votes_are_both_counted() {
    let high = "steps:\n  - { id: a, tool: test.set, with: { to: one }, blast_radius: high }\n";
    let env = ChangeEnv::start("environment: dev", high).await;
    env.advance().await;
    let approval = env.approvals().await.pop().unwrap();
    let reply = |person: &str| VoteRequest { subject: None, ..vote(&approval, person) };
    let store = env.engine.store().as_ref().clone();
    let concurrent =
        ConcurrentVote { other: Mutex::new(Some((other_engine(store.clone()), reply("grace")))) };
    let engine = other_engine(Intercepted::new(store, concurrent));

    Box::pin(engine.governance().record_vote(&env.run.tenant, reply("ben"))).await.unwrap();

    let voted: Vec<_> = env.approvals().await[0].votes.iter().map(|vote| vote.person.to_string()).collect();
    assert_eq!(voted, ["grace", "ben"]);
    assert_eq!(env.advance().await, RunStatus::Succeeded);
    env.engine.operations().build_evidence(&env.run).await.unwrap();
}

fn other_engine<S: Store>(store: S) -> Engine<S> {
    testkit::engine().me("other").on(store)
}

#[tokio::test]
async fn undo_that_failed_can_be_tried_again() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.advance().await;
    let by = Initiator::new(Cause::User, "ada");
    let first = env.engine.tenant_handle(&env.run.tenant, &by).undo(&env.run.run).await.unwrap().run;
    env.engine.tenant_handle(&first.tenant, &by).cancel(&first.run, "not now").await.unwrap();

    let second = env.engine.tenant_handle(&env.run.tenant, &by).undo(&env.run.run).await.unwrap();

    assert!(second.new && second.run != first);
}

#[tokio::test]
async fn second_undo_does_not_repeat_what_the_first_one_did() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.advance().await;
    let handle = env.engine.tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"));
    let first = handle.undo(&env.run.run).await.unwrap().run;
    // It undoes step b and stops before step a.
    let one_step = AdvanceLimits { steps: 1, ..AdvanceLimits::default() };
    Box::pin(env.engine.execution().advance(&first, &(), one_step)).await.unwrap();
    assert_eq!(env.writes(), 3);
    // The rollback of the run itself would have the same key.
    let key = IdempotencyKey::for_step(&"test.set".parse().unwrap(), &env.run.run, &"b".parse().unwrap());
    let receipts = handle.receipts(&first.run).await.unwrap();
    assert_eq!(receipts.iter().map(|receipt| &receipt.key).collect::<Vec<_>>(), [&key.reverse()]);
    handle.cancel(&first.run, "not now").await.unwrap();

    let plan = handle.undo_plan(&env.run.run).await.unwrap();
    let remaining: Vec<_> = plan.effects.iter().map(|effect| effect.by.is_ok()).collect();
    assert_eq!(remaining, [false, true], "b is undone, a is not");
    let second = handle.undo(&env.run.run).await.unwrap().run;
    assert_eq!(env.advance_run(&second).await, RunStatus::Succeeded);
    assert_eq!(env.writes(), 4, "each change is undone once");
    assert_eq!(env.external.says.lock().unwrap().as_str(), "");
    assert_eq!(handle.undo(&env.run.run).await.unwrap().run, second, "a third undo is the second one");
}

#[tokio::test]
async fn canceled_undos_do_not_prevent_another_one() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.advance().await;
    let handle = env.engine.tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"));
    for _ in 0..101 {
        let undo = handle.undo(&env.run.run).await.unwrap();
        assert!(undo.new);
        handle.cancel(&undo.run.run, "not now").await.unwrap();
    }
    let undo = handle.undo(&env.run.run).await.unwrap().run;
    assert_eq!(env.advance_run(&undo).await, RunStatus::Succeeded);
    assert_eq!(env.writes(), 4);
}

#[tokio::test]
async fn participants_of_a_run_cannot_approve_its_undo() {
    let env = ChangeEnv::start("environment: prod", TWO_SETS).await;
    for _ in 0..2 {
        env.advance().await;
        env.approve("grace").await.unwrap();
    }
    assert_eq!(env.advance().await, RunStatus::Succeeded);
    let by = Initiator::new(Cause::User, "linus");
    let undo = env.engine.tenant_handle(&env.run.tenant, &by).undo(&env.run.run).await.unwrap().run;
    assert_eq!(env.advance_run(&undo).await, RunStatus::WaitingApproval);

    for participant in ["linus", "ada"] {
        let refused = testkit::approve(&env.engine, &undo, participant).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotApprover { .. }))), "{participant}");
    }
    testkit::approve(&env.engine, &undo, "grace").await.unwrap();
}

#[tokio::test]
async fn invalid_user_name_starts_nothing() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    let source = format!(
        "workflow: w
version: 1
{TWO_SETS}"
    );
    let by = Initiator::new(Cause::User, "ada@corp");
    let request = StartRun { by, ..testkit::request(&env.engine, &source, "another") };
    let refused = env.engine.admission().start(request).await;
    assert!(matches!(refused, Err(EngineError::InvalidUserName { .. })));
}

/// A store in which the other run ends directly after its receipt was read.
struct EndsMeanwhile {
    external: Arc<ExternalRecord>,
    store: SqliteStore,
    other: RunKey,
}

impl Intercept for EndsMeanwhile {
    type State = bool;

    async fn before(&self, site: &StoreCall) -> Result<bool, StoreError> {
        Ok(site.name == "ledger.receipt")
    }

    async fn after(&self, is_receipt: bool) -> Result<(), StoreError> {
        while is_receipt && !self.store.load(&self.other).await?.unwrap().status.is_terminal() {
            self.external.go.notify_one();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn receipt_of_a_run_that_ends_meanwhile_is_used() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    let [first, second] = ["first", "second"].map(|key| start(&env.engine, SHARED, key));
    let (first, second) = (first.await, second.await);
    let (external, store) = (&env.external, env.engine.store());
    external.waits.store(true, Ordering::Relaxed);
    let meanwhile = EndsMeanwhile {
        external: Arc::clone(external),
        store: SqliteStore::clone(store),
        other: first.clone(),
    };
    let other = engine_on(Intercepted::new(SqliteStore::clone(store), meanwhile), external);

    let second_run = async {
        let key = "shared:1".parse().unwrap();
        while store.receipt(&first.tenant, &key).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Box::pin(other.execution().advance(&second, &(), AdvanceLimits::default())).await.unwrap();
    };
    let (ended, ()) = tokio::join!(env.advance_run(&first), second_run);

    assert_eq!(ended, RunStatus::Succeeded);
    assert_eq!(store.load(&second).await.unwrap().unwrap().status, RunStatus::Succeeded);
    assert_eq!(env.writes(), 1, "the effect happened once, and both runs succeeded");
}

/// A policy that uses up its time.
const ENDLESS: &str = "\
package countersign
n := [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
endless if { some a in n; some b in n; some c in n; some d in n; some e in n; some f in n; a + b + c + d + e + f > 1000 }
deny contains {\"rule\": \"endless\", \"message\": \"no\"} if endless
";

/// All tasks share one thread here.
#[tokio::test]
async fn slow_policy_does_not_block_other_tasks() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    let mut files = policy::PolicyBundle::built_in().unwrap().files().clone();
    files.insert("endless.rego".to_owned(), ENDLESS.to_owned());
    let bundle = policy::PolicyBundle::parse(files.clone()).unwrap();
    env.engine.store().put_policy(&env.run.tenant, &bundle.hash(), files).await.unwrap();
    env.update_tenant(|tenant| tenant.policy = Some(bundle.hash())).await;

    let ticks = AtomicU32::new(0);
    let ticking = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            ticks.fetch_add(1, Ordering::Relaxed);
        }
    };
    let status = tokio::select! {
        status = env.advance() => status,
        () = ticking => unreachable!("an endless loop"),
    };

    assert_eq!((status, env.writes()), (RunStatus::FailedTerminal, 0), "a policy that times out denies");
    assert!(ticks.load(Ordering::Relaxed) >= 10, "another task ran {ticks:?} times");
}

/// A declared rollback that changes another record than its step, in a run whose second step fails.
const OTHER_RECORD: &str = "steps:\n  - { id: a, tool: test.set, with: { to: one }, rollback: { tool: test.set, with: { to: other } } }\n  - { id: b, tool: test.set, with: { to: two } }\n";

#[tokio::test]
async fn declared_rollback_in_prod_needs_its_own_approval() {
    let env = ChangeEnv::start("environment: prod", OTHER_RECORD).await;
    assert_eq!(env.advance().await, RunStatus::WaitingApproval);
    let shown = env.approvals().await.pop().unwrap();
    let Subject::Action { rollback: Some(rollback), .. } = &shown.subject else { panic!("{shown:?}") };
    assert_eq!(rollback.with, json!({ "to": "other" }), "the card shows the rollback");
    env.approve("grace").await.unwrap();
    assert_eq!(env.advance().await, RunStatus::WaitingApproval, "the second step needs an approval");
    env.external.refuses.store(true, Ordering::Relaxed);
    env.approve("grace").await.unwrap();
    assert_eq!(env.advance().await, RunStatus::WaitingApproval, "the rollback needs an approval");
    assert_eq!(env.writes(), 1, "only the approved change has happened");
    assert!(env.approvals().await.pop().unwrap().rollback);
    let handle = env.engine.tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"));
    let canceled = handle.cancel(&env.run.run, "enough").await.unwrap();
    assert_eq!(canceled, domain::command::CancelResult::RollingBack, "the rollback is completed");
    env.external.refuses.store(false, Ordering::Relaxed);
    env.approve("grace").await.unwrap();
    assert_eq!(env.advance().await, RunStatus::FailedTerminal);
    assert_eq!(env.writes(), 2);
}

#[tokio::test]
async fn author_not_in_directory() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    env.update_tenant(|tenant| drop(tenant.people.insert("alan".parse().unwrap(), Person::default()))).await;
    let handle = env.engine.tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"));
    let by = |author: &str| {
        let source = format!("workflow: authored\nversion: 1\nauthor: {author}\n{TWO_SETS}");
        testkit::plan(&env.engine, &source)
    };
    let refused = handle.apply(&by("stranger")).await;
    assert!(matches!(&refused, Err(EngineError::Refused(Refusal::UnknownAuthor { .. }))), "{refused:?}");
    handle.apply(&by("Alan")).await.unwrap();
}

#[tokio::test]
async fn user_who_applied_a_workflow_cannot_approve_its_runs() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    let grace = env.engine.tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "Grace"));
    let source = format!("workflow: applied\nversion: 1\nenvironment: prod\n{TWO_SETS}");
    grace.apply(&testkit::plan(&env.engine, &source)).await.unwrap();
    let ada = env.engine.tenant_handle(&env.run.tenant, &Initiator::new(Cause::User, "ada"));
    let request = countersign_engine::StartApplied {
        key: "k2".parse().unwrap(),
        trigger_kind: "test",
        workspace: None,
        record: None,
        input: json!({}),
    };
    let run = ada.start(&"applied".parse().unwrap(), request).await.unwrap().run;
    assert_eq!(env.advance_run(&run).await, RunStatus::WaitingApproval);
    for person in ["grace", "ADA"] {
        let refused = testkit::approve(&env.engine, &run, person).await;
        assert!(matches!(refused, Err(EngineError::Refused(Refusal::NotApprover { .. }))), "{person}");
    }
    testkit::approve(&env.engine, &run, "ben").await.unwrap();
}

fn key_of_eve(id: &str) -> NewApiKey {
    NewApiKey {
        id: id.parse().unwrap(),
        secret: Digest::of_bytes(id.as_bytes()),
        person: "eve".parse().unwrap(),
        roles: domain::Roles::from_iter([domain::Role::Admin]),
        note: String::new(),
        expires_in: None,
    }
}

/// A request that fails after any of its writes can be repeated, and leaves no key of a user who has left.
#[tokio::test]
async fn keys_of_a_departed_user_are_revoked_after_any_fault() {
    // Two keys and the directory are written.
    for fault_at in 0..3 {
        let store = memory();
        let engine = Arc::new(testkit::engine().on(store.clone()));
        let handle = engine.tenant_handle(&testkit::acme(), &testkit::ada());
        let people =
            |names: &[&str]| names.iter().map(|name| (name.parse().unwrap(), Person::default())).collect();
        let update = |seen, names: &[&str]| TenantUpdate {
            redact: Vec::new(),
            seen,
            caps: Caps::default(),
            people: people(names),
            groups: std::collections::BTreeMap::new(),
        };
        handle.update_tenant(update(None, &["ada", "eve"])).await.unwrap();
        for id in ["0123456789abcdef", "1123456789abcdef"] {
            handle.make_key(key_of_eve(id)).await.unwrap();
        }
        let writes = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&writes);
        let faults = testkit::Faults::new(move |call| {
            if call.name != "audit_log.write_audited" || counted.fetch_add(1, Ordering::Relaxed) != fault_at {
                return testkit::Fault::None;
            }
            testkit::Fault::Fail(StoreError::broken("write", "the store failed"))
        });
        let other = Arc::new(testkit::engine().on(Intercepted::new(store.clone(), faults)));
        let attempt = other.tenant_handle(&testkit::acme(), &testkit::ada());
        let first = attempt.update_tenant(update(Some(0), &["ada"])).await;
        assert!(first.is_err(), "fault at write {fault_at}");
        let seen = handle.tenant_settings().await.unwrap().map(|tenant| tenant.revision);
        handle.update_tenant(update(seen, &["ada"])).await.unwrap();
        let keys = handle.keys(None, 10).await.unwrap().keys;
        assert_eq!(keys.len(), 2);
        assert!(keys.iter().all(|key| key.revoked_at.is_some()), "fault at write {fault_at}: {keys:?}");
    }
}

#[tokio::test]
async fn long_question_is_not_cut() {
    for (chars, status) in [(1_000, RunStatus::WaitingApproval), (1_001, RunStatus::FailedTerminal)] {
        let steps = format!(
            "steps:\n  - {{ id: ask, tool: approval.gate, with: {{ message: '${{ \"{}\" }}' }} }}\n",
            "x".repeat(chars)
        );
        let env = ChangeEnv::start("environment: dev", &steps).await;
        assert_eq!(env.advance().await, status, "{chars}");
    }
}

/// Requires approvers to be authenticated by the identity provider.
const IDENTITY_PROVIDER: &str = r#"package countersign
needs_approval contains {
	"rule": "idp",
	"message": "approvers sign in",
	"tier": "medium",
	"people": 2,
	"groups": [],
	"assurance": "identity_provider",
} if input.action.class != "read_only"
"#;

/// An admin shapes a run, and creates an API key in the name of another user.
#[tokio::test]
async fn minted_key_cannot_approve_under_an_assurance() {
    let env = ChangeEnv::start("environment: dev", TWO_SETS).await;
    let files = store::PolicyFiles::from([("rules.rego".to_owned(), IDENTITY_PROVIDER.to_owned())]);
    let hash = policy::PolicyBundle::parse(files.clone()).unwrap().hash();
    env.engine.store().put_policy(&env.run.tenant, &hash, files).await.unwrap();
    env.update_tenant(|tenant| tenant.policy = Some(hash)).await;
    assert_eq!(env.advance().await, RunStatus::WaitingApproval);
    let asked = env.approvals().await.pop().unwrap();
    let voted = async |person: &str, through: Channel| {
        let vote = VoteRequest { through, ..vote(&asked, person) };
        Box::pin(env.engine.governance().record_vote(&env.run.tenant, vote)).await
    };
    let api = |credential: &str| Channel::Api { credential: credential.to_owned() };
    let slack = Channel::Slack { team: "T1".to_owned(), user: "U1".to_owned() };
    for through in [api("key:0123456789abcdef"), slack, Channel::CommandLine] {
        let refused = voted("grace", through.clone()).await;
        let why = NotApprover::Assurance;
        assert!(
            matches!(&refused, Err(EngineError::Refused(Refusal::NotApprover { why: found, .. })) if *found == why),
            "{through:?}: {refused:?}"
        );
    }
    let idp = |person: &str| api(&domain::access::oidc_credential("https://id.example", person));
    voted("grace", idp("grace")).await.unwrap();
    assert_eq!(env.advance().await, RunStatus::WaitingApproval, "two approvers are required");
    voted("ben", idp("ben")).await.unwrap();
    env.advance().await;
    assert_eq!(env.writes(), 1);
    let approval = &env.approvals().await[0];
    assert!(
        approval.votes.iter().all(|vote| vote.assurance() == Assurance::IdentityProvider),
        "{approval:?}"
    );
}
