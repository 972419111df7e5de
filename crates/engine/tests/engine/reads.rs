//! Verdicts on reads: a call that leaves the process is evaluated, and one that stays in it is not.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use async_trait::async_trait;
use connectors::{
    Credential, HostAllowList, Observed, ProposalRequest, Tool, ToolCall, ToolConnection, ToolOutcome,
    ToolRegistry, ToolResult,
};
use domain::{
    Action, Cause, ConnectionKind, EffectClass, Event, EventBody, Failure, FieldChange, Reversibility,
    Ruling, RunKey, RunStatus, ToolName, TraceContext, Verdict,
};
use serde_json::json;
use store::{Intercepted, PolicyFiles, SqliteStore};
use testkit::{CallCounts, EngineBuilder, Fault, Faults, HttpStub, StubReply, TestEnv, acme};

const READ: &str = "workflow: w\nversion: 1\nenvironment: prod\n\
                    steps: [{ id: a, tool: test.read, with: { q: secret } }]\n";

const DENY_ALL: &str = "package countersign\ndeny contains {\"rule\": \"all\", \"message\": \"closed\"}\n";

const ASK_ALL: &str = "package countersign\nneeds_approval contains {\"rule\": \"all\", \"message\": \"ask\", \
                       \"tier\": \"low\", \"people\": 1, \"groups\": []}\n";

const ALLOW_CHANGES: &str = "package countersign\nallow contains {\"rule\": \"changes\", \"message\": \"may change\"} \
                             if input.action.class != \"read_only\"\n";

/// The tool `test.read`. It counts its requests, and fails if the field `q` is `missing`.
struct Read(Arc<AtomicU32>);

#[async_trait]
impl Tool for Read {
    fn name(&self) -> ToolName {
        "test.read".parse().unwrap()
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        Ok(testkit::action(self.name(), ask))
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        self.0.fetch_add(1, Ordering::Relaxed);
        match call.action.fields["q"].as_str() {
            Some("missing") => ToolOutcome::Terminal(Failure::new("NOT_FOUND", "no such record")),
            _ => ToolOutcome::Done(ToolResult { output: json!({ "found": true }), ..ToolResult::default() }),
        }
    }
}

/// The tool `test.change`. It observes nothing of interest, or does not observe.
struct Change {
    observes: bool,
}

#[async_trait]
impl Tool for Change {
    fn name(&self) -> ToolName {
        "test.change".parse().unwrap()
    }

    fn observes(&self) -> bool {
        self.observes
    }

    async fn observe(&self, _ask: &ProposalRequest<'_>) -> Observed {
        Observed::Found(json!("current"))
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        let (class, before) = (EffectClass::CompareAndSet, ask.observed.cloned());
        let changes = vec![FieldChange { field: "state".to_owned(), before, after: json!("new") }];
        let reversibility = Reversibility::Inverse;
        Ok(Action { class, reversibility, changes, ..testkit::action(self.name(), ask) })
    }

    async fn perform(&self, _call: ToolCall<'_>) -> ToolOutcome {
        ToolOutcome::Done(ToolResult::default())
    }
}

const CHANGE: &str = "workflow: w\nversion: 1\nenvironment: dev\nvalidation: critical_only\n\
                      steps: [{ id: a, tool: test.change }]\n";

/// An engine with a tool that reads, and counts of its requests and of the calls of the store.
struct ReadEnv {
    env: TestEnv<Intercepted<SqliteStore, Faults>>,
    requests: Arc<AtomicU32>,
    calls: CallCounts,
}

impl Deref for ReadEnv {
    type Target = TestEnv<Intercepted<SqliteStore, Faults>>;

    fn deref(&self) -> &Self::Target {
        &self.env
    }
}

impl ReadEnv {
    fn new() -> Self {
        Self::with_tools(testkit::engine().standard_tools())
    }

    fn with_change(observes: bool) -> Self {
        Self::with_tools(testkit::engine().tool(Change { observes }))
    }

    fn with_tools(builder: EngineBuilder) -> Self {
        let (requests, calls) = (Arc::<AtomicU32>::default(), CallCounts::default());
        let builder = builder.tool(Read(Arc::clone(&requests))).signed();
        Self { env: builder.env_with(calls.faults(|_| Fault::None)), requests, calls }
    }

    async fn with_policy(rules: &str) -> Self {
        let env = Self::new();
        env.put_policy(rules).await;
        env
    }

    async fn last_event(&self, run: &RunKey) -> Event {
        self.events(run).await.pop().unwrap()
    }

    fn requests(&self) -> u32 {
        self.requests.load(Ordering::Relaxed)
    }
}

fn rules(verdict: &Verdict) -> Vec<&str> {
    verdict.reasons.iter().map(|reason| reason.rule.as_str()).collect()
}

#[tokio::test]
async fn denied_read_sends_no_request() {
    for (policy, expected) in [
        (DENY_ALL, vec!["all"]),
        (ASK_ALL, vec!["all", "reads/no_approval"]),
        (ALLOW_CHANGES, vec!["policy/no_match"]),
    ] {
        let env = ReadEnv::with_policy(policy).await;
        let (run, status) = env.run(READ, "k").await;
        assert_eq!((status, env.requests()), (RunStatus::FailedTerminal, 0), "{policy}");
        let event = env.last_event(&run).await;
        let EventBody::ActionDenied { verdict, tool, .. } = &event.body else { panic!("{event:?}") };
        assert_eq!((event.by.cause, tool.as_str()), (Cause::Policy, "test.read"));
        assert_eq!(rules(verdict), expected);
    }
}

/// Each tool that reads the external system before it proposes.
const CHANGES: [&str; 7] = [
    "servicenow.update, with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, fields: { state: '2' } }",
    "servicenow.assign, with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, assigned_to: ada }",
    "servicenow.work_note, with: { table: incident, sys_id: 9d385017c611228701d22104cc95c371, text: hi }",
    "github.label, with: { repo: acme/web, number: 7, labels: [bug] }",
    "github.unlabel, with: { repo: acme/web, number: 7, labels: [bug] }",
    "github.comment, with: { repo: acme/web, number: 7, text: hi }",
    "github.delete_comment, with: { repo: acme/web, comment_id: 900 }",
];

/// A ServiceNow and a GitHub that have every record.
fn external_systems() -> (HttpStub, ToolRegistry) {
    let record = r#"{ "result": { "sys_id": "9d385017c611228701d22104cc95c371", "sys_mod_count": "1", "state": "1",
                      "assigned_to": "" }, "labels": [], "body": "x" }"#;
    let stub = HttpStub::answering(StubReply::json(200, record));
    let connection = |kind: ConnectionKind| {
        let name = kind.to_string().parse().unwrap();
        let connection = serde_json::from_value(json!({ "kind": kind, "base_url": stub.url("") })).unwrap();
        let connection = ToolConnection::new(&name, &connection).unwrap();
        connection.with_credential(Credential::Bearer("token".into()))
    };
    let tools = [ConnectionKind::ServiceNow, ConnectionKind::GitHub]
        .into_iter()
        .fold(connectors::standard_tools(HostAllowList::default()), |tools, kind| {
            tools.connected(&connection(kind).trust_base())
        });
    (stub, tools)
}

#[tokio::test]
async fn denied_change_reads_nothing_first() {
    for (policy, reads) in [(DENY_ALL, false), (ALLOW_CHANGES, true)] {
        for call in CHANGES {
            let (stub, tools) = external_systems();
            let env = ReadEnv::with_tools(testkit::engine().tools(tools));
            env.put_policy(policy).await;
            let (run, status) = env.run(&CHANGE.replace("test.change", call), "k").await;
            assert_eq!(!stub.requests().is_empty(), reads, "{call}: {:?}", stub.requests());
            if !reads {
                assert_eq!(status, RunStatus::FailedTerminal, "{call}");
                let event = env.last_event(&run).await;
                let EventBody::ActionDenied { verdict, .. } = &event.body else { panic!("{event:?}") };
                assert_eq!(rules(verdict), ["all"]);
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn verdict_before_an_observation_costs_no_request() {
    let (observing, blind) = (ReadEnv::with_change(true), ReadEnv::with_change(false));
    for env in [&observing, &blind] {
        assert_eq!(env.run(CHANGE, "k").await.1, RunStatus::Succeeded);
    }
    assert_eq!(observing.calls.all(), blind.calls.all());
}

#[tokio::test(start_paused = true)]
async fn policy_of_a_moment_ago_denies_no_effect() {
    let env = ReadEnv::with_change(true);
    env.put_policy(DENY_ALL).await;
    assert_eq!(env.run(CHANGE, "k").await.1, RunStatus::FailedTerminal);
    // This process caches the settings for a second.
    env.put_policy(ALLOW_CHANGES).await;
    assert_eq!(env.run(CHANGE, "k2").await.1, RunStatus::Succeeded);
}

#[tokio::test]
async fn read_without_a_usable_policy_is_denied() {
    let env = ReadEnv::new();
    let nowhere = domain::Digest::of_bytes(b"nowhere");
    env.update_tenant(&acme(), |tenant| tenant.policy = Some(nowhere)).await;
    assert_eq!((env.run(READ, "k").await.1, env.requests()), (RunStatus::FailedTerminal, 0));
}

#[tokio::test]
async fn default_policy_allows_reads_and_chain_says_so() {
    let env = ReadEnv::new();
    let (run, status) = env.run(READ, "k").await;
    assert_eq!((status, env.requests()), (RunStatus::Succeeded, 1));
    let event = env.last_event(&run).await;
    assert!(matches!(event.body, EventBody::StepSucceeded { .. }), "{event:?}");
    let verdict = event.read_verdict.unwrap();
    // Only a denied read has its rules in the event.
    assert_eq!((&verdict.ruling, rules(&verdict)), (&Ruling::Allow, Vec::<&str>::new()));
}

#[tokio::test]
async fn failed_read_has_its_verdict_in_the_chain() {
    let env = ReadEnv::new();
    let (run, status) = env.run(&READ.replace("secret", "missing"), "k").await;
    assert_eq!((status, env.requests()), (RunStatus::FailedTerminal, 1));
    let event = env.last_event(&run).await;
    assert!(matches!(&event.body, EventBody::StepFailed { failure, .. } if failure.code == "NOT_FOUND"));
    assert_eq!(event.read_verdict.unwrap().ruling, Ruling::Allow);
}

#[tokio::test]
async fn computation_in_the_process_needs_no_verdict() {
    let env = ReadEnv::with_policy(DENY_ALL).await;
    let (run, status) = env.run(testkit::TRANSFORM, "k").await;
    assert_eq!(status, RunStatus::Succeeded);
    assert_eq!(env.last_event(&run).await.read_verdict, None);
}

#[tokio::test(start_paused = true)]
async fn verdict_on_a_read_costs_no_request() {
    let (reads, computes) = (ReadEnv::new(), ReadEnv::new());
    reads.run(READ, "k").await;
    computes.run(testkit::TRANSFORM, "k").await;
    assert_eq!(reads.calls.all(), computes.calls.all());
}

#[tokio::test]
async fn applied_policy_covers_the_next_read() {
    let env = ReadEnv::new();
    assert_eq!(env.run(READ, "k").await.1, RunStatus::Succeeded);
    let tests = "package rules_test\nimport data.countersign\ntest_closed if count(countersign.deny) == 1\n";
    let files = PolicyFiles::from([
        ("rules.rego".to_owned(), DENY_ALL.to_owned()),
        ("rules_test.rego".to_owned(), tests.to_owned()),
    ]);
    env.handle("ada").apply_policy(files).await.unwrap();
    let (run, status) = env.run(READ, "k2").await;
    assert_eq!((status, env.requests()), (RunStatus::FailedTerminal, 1));
    let mut events = env.events(&run).await.into_iter();
    assert!(events.any(|event| matches!(event.body, EventBody::ActionDenied { .. })));
}

#[tokio::test]
async fn request_carries_the_trace_of_its_run() {
    let stub = HttpStub::answering(StubReply::json(200, "{}"));
    let env = testkit::engine().local_tools().env();
    let get = format!("{{ id: a, tool: http.request, with: {{ url: '{}' }} }}", stub.url("/"));
    let run = env.start(&format!("workflow: w\nversion: 1\nsteps: [{get}]\n"), "k").await;
    assert_eq!(env.advance(&run).await, RunStatus::Succeeded);

    let sent: TraceContext = stub.requests()[0].header("traceparent").unwrap().parse().unwrap();
    let trace = TraceContext::of_run(&run);
    assert!(sent.same_trace_as(&trace), "{sent:?}");
    assert_ne!(sent.span_id(), trace.span_id());
}

/// A worker stores and records the evidence while another process compares the run with it.
#[tokio::test]
async fn evidence_recorded_during_a_comparison_is_not_altered() {
    let built = testkit::engine().standard_tools().signed().env();
    let run = built.start(testkit::TRANSFORM, "k").await;
    assert_eq!(built.advance(&run).await, RunStatus::Succeeded);
    let store = SqliteStore::clone(built.store());
    let other = Arc::new(testkit::engine().standard_tools().signed().on(store.clone()));
    let ended = run.clone();
    let faults = Faults::at("archive.evidence", move || {
        let (other, ended) = (Arc::clone(&other), ended.clone());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let record = move || runtime.block_on(other.operations().build_evidence(&ended)).unwrap();
        std::thread::spawn(record).join().unwrap();
        Fault::None
    });
    let reader = Arc::new(testkit::engine().standard_tools().on(Intercepted::new(store, faults)));
    let handle = reader.tenant_handle(&acme(), &testkit::ada());
    let view = reader.operations().inspect(&run).await.unwrap();
    let compared = handle.compare_with_bundle(&view, Some(&testkit::signing_key().public().into())).await;
    assert_eq!(compared, Some(evidence::BundleComparison::Matches));
}
