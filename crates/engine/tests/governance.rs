//! What stands between a step and the world: verdicts, approvals, and what makes them worthless.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use connectors::{Ask, Call, Done, Outcome, Survey, Tool, Toolbox};
use countersign_engine::{AdvanceLimits, Engine, Parts, Reply, Sealing, StartRun, Timing};
use domain::tenant::Caps;
use domain::{
    Action, Approval, ApprovalStatus, Cause, Channel, Digest, EffectClass, Failure, FieldChange,
    IdempotencyKey, Initiator, Job, Live, Millis, QueueName, Refusal, Reversibility, RunKey, RunStatus,
    Tenant, ToolName,
};
use evidence::SigningKey;
use serde_json::{Value, json};
use store::{
    Governance as _, Intercept, Intercepted, Ledger as _, Queue as _, Site, SqliteOptions, SqliteStore,
    Store, StoreError, SystemClock,
};
use tokio::sync::Notify;

/// A record outside: what it says, and how often it was written.
#[derive(Default)]
struct Outside {
    says: Mutex<String>,
    writes: AtomicU32,
    refuses: AtomicBool,
    /// Whoever writes waits until they are told to go.
    waits: AtomicBool,
    go: Notify,
}

/// Sets the record, if it still says what it said when that was proposed.
struct SetIt(Arc<Outside>);

#[async_trait]
impl Tool for SetIt {
    fn name(&self) -> ToolName {
        "test.set".parse().unwrap()
    }

    async fn survey(&self, _ask: &Ask<'_>) -> Survey {
        Survey::Found(json!(*self.0.says.lock().unwrap()))
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let own = || IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        let key = ask.fields["key"].as_str().map_or_else(own, |key| key.parse().unwrap());
        let change = FieldChange {
            field: "says".to_owned(),
            before: ask.found.cloned(),
            after: ask.fields["to"].clone(),
        };
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: EffectClass::CompareAndSet,
            reversibility: Reversibility::Inverse,
            target: "the record".to_owned(),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: vec![change],
            destructive: false,
            estimate_microusd: None,
            fields: ask.fields,
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        if self.0.waits.load(Ordering::Relaxed) {
            self.0.go.notified().await;
        }
        let change = &call.action.changes[0];
        let mut says = self.0.says.lock().unwrap();
        let before = json!(*says);
        if self.0.refuses.load(Ordering::Relaxed) || Some(&before) != change.before.as_ref() {
            return Outcome::Terminal(Failure::new("CONFLICT", "the record has changed"));
        }
        change.after.as_str().unwrap().clone_into(&mut says);
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        let inverse = json!({ "tool": "test.set", "with": { "to": before } });
        Outcome::Done(Done { inverse: Some(inverse), ..Done::default() })
    }
}

struct Scene {
    engine: Engine<SqliteStore>,
    outside: Arc<Outside>,
    run: RunKey,
}

const TWO_SETS: &str = "steps:\n  - { id: a, tool: test.set, with: { to: one }, rollback: auto }\n  - { id: b, tool: test.set, with: { to: two } }\n";

const SHARED: &str = "workflow: w\nversion: 1\nenvironment: dev\nsteps:\n  - { id: a, tool: test.set, with: { to: one, key: 'shared:1' } }\n";

async fn begin(engine: &Engine<SqliteStore>, key: &str, source: &str) -> RunKey {
    let names = engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: "acme".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(source, &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: key.parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::User, "ada"),
    };
    engine.start(wish).await.unwrap().run
}

fn engine_on<S: Store>(store: S, outside: &Arc<Outside>) -> Engine<S> {
    Engine::new(Parts {
        store: Arc::new(store),
        tools: Toolbox::default().with(SetIt(Arc::clone(outside))),
        clock: Arc::new(SystemClock),
        me: "w".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: Some(Sealing { key: Arc::new(SigningKey::from_seed([1; 32])), origin: "test".to_owned() }),
    })
}

impl Scene {
    async fn start(head: &str, steps: &str) -> Self {
        let outside = Arc::new(Outside::default());
        let engine = engine_on(SqliteStore::memory(SqliteOptions::default()).unwrap(), &outside);
        let run = begin(&engine, "k", &format!("workflow: w\nversion: 1\n{head}\n{steps}")).await;
        Self { engine, outside, run }
    }

    async fn advance(&self) -> RunStatus {
        self.walk_of(&self.run).await
    }

    async fn walk_of(&self, run: &RunKey) -> RunStatus {
        Box::pin(self.engine.advance(run, &(), AdvanceLimits::default())).await.unwrap();
        self.engine.store().load(run).await.unwrap().unwrap().status
    }

    async fn asked(&self) -> Vec<Approval> {
        self.engine.store().approvals(&self.run).await.unwrap()
    }

    async fn approve(
        &self,
        person: &str,
    ) -> Result<domain::command::Answered, countersign_engine::EngineError> {
        let asked = self.asked().await.pop().unwrap();
        let reply = Reply {
            approval: asked.id,
            subject: Some(asked.subject.hash()),
            person: person.parse().unwrap(),
            approve: true,
            reason: String::new(),
            through: Channel::CommandLine,
        };
        Box::pin(self.engine.answer(&self.run.tenant, reply)).await
    }

    async fn settle(&self, change: impl FnOnce(&mut Tenant)) {
        let mut tenant = self.engine.tenant(&self.run.tenant).await.unwrap();
        if self.engine.store().tenant(&tenant.tenant).await.unwrap().is_some() {
            tenant.revision += 1;
        }
        change(&mut tenant);
        self.engine.store().put_tenant(tenant).await.unwrap();
    }

    fn writes(&self) -> u32 {
        self.outside.writes.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn what_can_be_taken_back_is_done_in_dev_without_asking_anybody() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    assert_eq!(scene.advance().await, RunStatus::Succeeded);
    assert_eq!((scene.writes(), scene.asked().await.len()), (2, 0));
}

#[tokio::test]
async fn in_production_nothing_is_done_before_a_second_person_says_yes() {
    let scene = Scene::start("environment: prod", TWO_SETS).await;
    assert_eq!(scene.advance().await, RunStatus::WaitingApproval);
    assert_eq!(scene.writes(), 0);
    let refused = scene.approve("ada").await;
    assert!(matches!(refused, Err(countersign_engine::EngineError::Refused(Refusal::NotApprover { .. }))));

    scene.approve("grace").await.unwrap();
    assert_eq!(scene.advance().await, RunStatus::WaitingApproval, "the second step asks on its own");
    assert_eq!(scene.writes(), 1);
    scene.approve("grace").await.unwrap();
    assert_eq!(scene.advance().await, RunStatus::Succeeded);
    assert!(scene.asked().await.iter().all(|approval| approval.consumed.is_some()));
}

#[tokio::test]
async fn if_the_record_changes_while_people_think_they_are_asked_again() {
    let scene = Scene::start("environment: prod", TWO_SETS).await;
    scene.advance().await;
    scene.approve("grace").await.unwrap();
    "somebody else".clone_into(&mut scene.outside.says.lock().unwrap());

    assert_eq!(scene.advance().await, RunStatus::WaitingApproval);

    let asked = scene.asked().await;
    assert_eq!((scene.writes(), asked.len()), (0, 2));
    assert_eq!(asked[0].status, ApprovalStatus::Canceled);
    assert_ne!(asked[0].subject.hash(), asked[1].subject.hash());
}

#[tokio::test]
async fn if_the_policy_changes_while_people_think_they_are_asked_again() {
    let scene = Scene::start("environment: prod", TWO_SETS).await;
    scene.advance().await;
    scene.approve("grace").await.unwrap();
    let mut files = policy::Bundle::shipped().unwrap().files().clone();
    files.insert("more.rego".to_owned(), "package countersign\n\n# A file that says nothing.\n".to_owned());
    let bundle = policy::Bundle::parse(files.clone()).unwrap();
    scene.engine.store().put_policy(&scene.run.tenant, &bundle.hash(), files).await.unwrap();
    scene.settle(|tenant| tenant.policy = Some(bundle.hash())).await;

    assert_eq!(scene.advance().await, RunStatus::WaitingApproval);

    let asked = scene.asked().await;
    assert_eq!((scene.writes(), asked.len(), asked[0].status), (0, 2, ApprovalStatus::Canceled));
}

#[tokio::test]
async fn a_policy_that_is_not_there_is_a_deny() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    scene.settle(|tenant| tenant.policy = Some(Digest::of_bytes(b"nowhere"))).await;
    assert_eq!(scene.advance().await, RunStatus::FailedTerminal);
    assert_eq!(scene.writes(), 0);
    let events = scene.engine.inspect(&scene.run).await.unwrap().events.unwrap();
    assert_eq!(events.last().unwrap().by.cause, Cause::Policy);
}

#[tokio::test]
async fn a_run_does_no_more_than_its_tenant_allows_and_takes_back_what_it_did() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    scene.settle(|tenant| tenant.caps = Caps { max_writes_per_run: 1 }).await;
    assert_eq!(scene.advance().await, RunStatus::FailedTerminal);
    assert_eq!((scene.writes(), scene.outside.says.lock().unwrap().as_str()), (2, ""));
}

#[tokio::test]
async fn a_sure_proposer_is_trusted_only_where_little_can_happen() {
    let sure = "steps:\n  - { id: a, tool: test.set, with: { to: one }, confidence: 0.95 }\n";
    for (head, ends) in [
        ("environment: dev\nvalidation: per_step\nauto_approve: 0.9", RunStatus::Succeeded),
        ("environment: dev\nvalidation: per_step\nauto_approve: 0.99", RunStatus::WaitingApproval),
        ("environment: dev\nvalidation: per_step", RunStatus::WaitingApproval),
        ("environment: prod\nauto_approve: 0.9", RunStatus::WaitingApproval),
    ] {
        assert_eq!(Scene::start(head, sure).await.advance().await, ends, "{head}");
    }
}

#[tokio::test]
async fn each_validation_mode_asks_where_it_says() {
    let steps = "steps:\n  - { id: a, tool: test.set, with: { to: one } }\n  - { id: b, tool: test.set, with: { to: two } }\n  - { id: c, tool: test.set, with: { to: three }, phase: postchecks, critical: true }\n";
    for (mode, asks) in [("per_step", 3), ("per_phase", 2), ("critical_only", 1)] {
        let scene = Scene::start(&format!("environment: dev\nvalidation: {mode}"), steps).await;
        while scene.advance().await == RunStatus::WaitingApproval {
            scene.approve("grace").await.unwrap();
        }
        assert_eq!((scene.writes(), scene.asked().await.len()), (3, asks), "{mode}");
    }
}

#[tokio::test]
async fn a_finished_run_is_undone_by_its_receipts_and_both_leave_evidence() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    scene.advance().await;
    let plan = scene.engine.undo_plan(&scene.run).await.unwrap();
    let steps: Vec<_> = plan.effects.iter().map(|effect| effect.step.to_string()).collect();
    assert_eq!(steps, ["b", "a"]);

    let undo = scene.engine.undo(&scene.run, &Initiator::new(Cause::User, "ada")).await.unwrap();
    assert_eq!(
        scene.engine.undo(&scene.run, &Initiator::new(Cause::User, "ada")).await.unwrap().run,
        undo.run
    );
    Box::pin(scene.engine.advance(&undo.run, &(), AdvanceLimits::default())).await.unwrap();

    assert_eq!(scene.outside.says.lock().unwrap().as_str(), "");
    let key = SigningKey::from_seed([1; 32]).public();
    for run in [&scene.run, &undo.run] {
        scene.engine.seal(run).await.unwrap();
        let (recorded, bytes) = scene.engine.evidence(run).await.unwrap();
        assert_eq!(recorded.bundle.sha256, Digest::of_bytes(&bytes));
        evidence::verify(&bytes, &key).unwrap();
    }
}

/// Whoever ended the run died before it asked for evidence; its message came back.
#[tokio::test]
async fn a_run_that_is_over_without_evidence_is_asked_for_it_by_whoever_gets_its_message_again() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    assert_eq!(scene.advance().await, RunStatus::Succeeded);
    let seals = async || {
        let received = scene
            .engine
            .store()
            .receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO)
            .await
            .unwrap();
        received.into_iter().filter(|message| message.job == Job::BuildEvidence).count()
    };
    assert_eq!(seals().await, 1, "asked by whoever ended it");

    scene.advance().await;
    assert_eq!(seals().await, 1, "asked by whoever came after");

    scene.engine.seal(&scene.run).await.unwrap();
    scene.advance().await;
    assert_eq!(seals().await, 0);
}

#[tokio::test]
async fn each_run_that_tried_one_effect_accounts_for_its_own_attempt() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    let [first, second] = ["first", "second"].map(|key| begin(&scene.engine, key, SHARED));
    let (first, second) = (first.await, second.await);
    scene.outside.refuses.store(true, Ordering::Relaxed);
    assert_eq!(scene.walk_of(&first).await, RunStatus::FailedTerminal);
    scene.outside.refuses.store(false, Ordering::Relaxed);
    assert_eq!(scene.walk_of(&second).await, RunStatus::Succeeded);

    let key = SigningKey::from_seed([1; 32]).public();
    for (run, state) in [(&first, "failed"), (&second, "done")] {
        scene.engine.seal(run).await.unwrap();
        let (_, bytes) = scene.engine.evidence(run).await.unwrap();
        let verified = evidence::verify(&bytes, &key).unwrap();
        let receipt = serde_json::to_value(&verified.bundle().receipts[0]).unwrap();
        assert_eq!(receipt["run"], json!(run.run.as_str()));
        assert_eq!(receipt["state"]["state"], json!(state));
    }
}

#[tokio::test]
async fn text_that_looks_like_an_expression_is_put_back_as_text() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    "${ run.id }".clone_into(&mut scene.outside.says.lock().unwrap());
    scene.advance().await;
    let undo = scene.engine.undo(&scene.run, &Initiator::new(Cause::User, "ada")).await.unwrap();
    Box::pin(scene.engine.advance(&undo.run, &(), AdvanceLimits::default())).await.unwrap();
    assert_eq!(scene.outside.says.lock().unwrap().as_str(), "${ run.id }");
}

#[tokio::test]
async fn a_run_that_waits_for_people_says_so_on_its_record() {
    let scene = Scene::start("environment: prod", TWO_SETS).await;
    scene.advance().await;
    let record = scene.engine.store().load(&scene.run).await.unwrap().unwrap();
    assert!(matches!(record.live, Live::WaitingApproval { .. }));
    assert_eq!(record.due_at, Some(scene.asked().await[0].nudge_at()));
    let value: Value = serde_json::to_value(&record).unwrap();
    assert!(value.to_string().len() < 1_400, "the hot record stays small: {}", value.to_string().len());
}

/// Lets somebody else be faster: their answer lands while another one is being decided.
struct Faster {
    other: Mutex<Option<(Engine<SqliteStore>, Reply)>>,
}

impl Intercept for Faster {
    type Pass = ();

    async fn before(&self, site: &Site) -> Result<(), StoreError> {
        let other = if site.name == "ledger.load" { self.other.lock().unwrap().take() } else { None };
        if let Some((engine, reply)) = other {
            Box::pin(engine.answer(&"acme".parse().unwrap(), reply)).await.unwrap();
        }
        Ok(())
    }

    async fn after(&self, (): ()) -> Result<(), StoreError> {
        Ok(())
    }
}

#[tokio::test]
async fn two_people_who_answer_at_once_are_both_heard() {
    let high = "steps:\n  - { id: a, tool: test.set, with: { to: one }, blast_radius: high }\n";
    let scene = Scene::start("environment: dev", high).await;
    scene.advance().await;
    let asked = scene.asked().await.pop().unwrap();
    let reply = |person: &str| Reply {
        approval: asked.id.clone(),
        subject: None,
        person: person.parse().unwrap(),
        approve: true,
        reason: String::new(),
        through: Channel::CommandLine,
    };
    let store = scene.engine.store().as_ref().clone();
    let faster = Faster { other: Mutex::new(Some((over(store.clone()), reply("grace")))) };
    let slower = over(Intercepted::new(store, faster));

    Box::pin(slower.answer(&scene.run.tenant, reply("ben"))).await.unwrap();

    let voted: Vec<_> = scene.asked().await[0].votes.iter().map(|vote| vote.person.to_string()).collect();
    assert_eq!(voted, ["grace", "ben"]);
    assert_eq!(scene.advance().await, RunStatus::Succeeded);
    scene.engine.seal(&scene.run).await.unwrap();
}

fn over<S: Store>(store: S) -> Engine<S> {
    Engine::new(Parts {
        store: Arc::new(store),
        tools: Toolbox::default(),
        clock: Arc::new(SystemClock),
        me: "other".parse().unwrap(),
        timing: Timing::default(),
        shows: None,
        sealing: None,
    })
}

#[tokio::test]
async fn an_undo_that_failed_can_be_tried_again() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    scene.advance().await;
    let by = Initiator::new(Cause::User, "ada");
    let first = scene.engine.undo(&scene.run, &by).await.unwrap().run;
    scene.engine.cancel(&first, &by, "not now").await.unwrap();

    let second = scene.engine.undo(&scene.run, &by).await.unwrap();

    assert!(second.new && second.run != first);
}

#[tokio::test]
async fn somebody_without_a_name_starts_nothing() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    let names = scene.engine.tools().names().cloned().collect();
    let wish = StartRun {
        tenant: "acme".parse().unwrap(),
        workspace: "main".parse().unwrap(),
        plan: workflow::parse(&format!("workflow: w\nversion: 1\n{TWO_SETS}"), &names).unwrap(),
        trigger_kind: "test".to_owned(),
        record: None,
        key: "another".parse().unwrap(),
        input: json!({}),
        by: Initiator::new(Cause::User, "ada@corp"),
    };
    let refused = scene.engine.start(wish).await;
    assert!(matches!(refused, Err(countersign_engine::EngineError::NotAPerson { .. })));
}

/// Whoever asks what stands under a key is answered, and at once the other run comes to its end.
struct EndsMeanwhile {
    outside: Arc<Outside>,
    store: SqliteStore,
    other: RunKey,
}

impl Intercept for EndsMeanwhile {
    type Pass = bool;

    async fn before(&self, site: &Site) -> Result<bool, StoreError> {
        Ok(site.name == "ledger.receipt")
    }

    async fn after(&self, asked: bool) -> Result<(), StoreError> {
        while asked && !self.store.load(&self.other).await?.unwrap().status.is_terminal() {
            self.outside.go.notify_one();
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }
}

#[tokio::test]
async fn what_another_run_says_as_it_ends_is_heard() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    let [first, second] = ["first", "second"].map(|key| begin(&scene.engine, key, SHARED));
    let (first, second) = (first.await, second.await);
    let (outside, store) = (&scene.outside, scene.engine.store());
    outside.waits.store(true, Ordering::Relaxed);
    let meanwhile = EndsMeanwhile {
        outside: Arc::clone(outside),
        store: SqliteStore::clone(store),
        other: first.clone(),
    };
    let other = engine_on(Intercepted::new(SqliteStore::clone(store), meanwhile), outside);

    let asks = async {
        let key = "shared:1".parse().unwrap();
        while store.receipt(&first.tenant, &key).await.unwrap().is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Box::pin(other.advance(&second, &(), AdvanceLimits::default())).await.unwrap();
    };
    let (ended, ()) = tokio::join!(scene.walk_of(&first), asks);

    assert_eq!(ended, RunStatus::Succeeded);
    assert_eq!(store.load(&second).await.unwrap().unwrap().status, RunStatus::Succeeded);
    assert_eq!(scene.writes(), 1, "it was done once, and both know it");
}

/// A policy that uses up its time.
const ENDLESS: &str = "\
package countersign
n := [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20]
endless if { some a in n; some b in n; some c in n; some d in n; some e in n; some f in n; a + b + c + d + e + f > 1000 }
deny contains {\"rule\": \"endless\", \"says\": \"no\"} if endless
";

/// There is one thread here for everybody.
#[tokio::test]
async fn a_policy_that_thinks_long_keeps_nobody_else_from_going_on() {
    let scene = Scene::start("environment: dev", TWO_SETS).await;
    let mut files = policy::Bundle::shipped().unwrap().files().clone();
    files.insert("endless.rego".to_owned(), ENDLESS.to_owned());
    let bundle = policy::Bundle::parse(files.clone()).unwrap();
    scene.engine.store().put_policy(&scene.run.tenant, &bundle.hash(), files).await.unwrap();
    scene.settle(|tenant| tenant.policy = Some(bundle.hash())).await;

    let beats = AtomicU32::new(0);
    let beating = async {
        loop {
            tokio::time::sleep(Duration::from_millis(10)).await;
            beats.fetch_add(1, Ordering::Relaxed);
        }
    };
    let status = tokio::select! {
        status = scene.advance() => status,
        () = beating => unreachable!("it beats for ever"),
    };

    assert_eq!(
        (status, scene.writes()),
        (RunStatus::FailedTerminal, 0),
        "it had a second, and that is a deny"
    );
    assert!(beats.load(Ordering::Relaxed) >= 10, "whoever else was there had {beats:?} turns");
}
