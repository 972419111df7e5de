//! The log events and metrics of runs.

use countersign_engine::{AdvanceLimits, Engine, StartResult, StartRun, metrics};
use domain::{Cause, Initiator, RunKey};
use metrics_exporter_prometheus::PrometheusBuilder;
use serde_json::{Value, json};
use store::{Archive as _, Blobs as _, SqliteStore};
use testkit::CapturedLog;
use tracing::Level;
use tracing::subscriber::DefaultGuard;

/// The captured log.
struct Lines(CapturedLog);

impl Lines {
    /// Captures until the guard is dropped.
    fn capture() -> (Self, DefaultGuard) {
        let (log, guard) = CapturedLog::capture(Level::INFO);
        (Self(log), guard)
    }

    fn text(&self) -> String {
        self.0.text()
    }

    /// The fields of the lines with an event, in order.
    fn events(&self) -> Vec<Value> {
        let lines = self.0.fields().into_iter();
        lines.filter(|fields| fields["event"].is_string()).collect()
    }

    fn names(&self) -> Vec<String> {
        self.events().iter().map(|fields| fields["event"].as_str().unwrap().to_owned()).collect()
    }
}

fn engine() -> Engine<SqliteStore> {
    testkit::engine().standard_tools().build()
}

async fn start(engine: &Engine<SqliteStore>) -> StartResult {
    start_for(engine, "acme").await
}

async fn start_for(engine: &Engine<SqliteStore>, tenant: &str) -> StartResult {
    let source = "workflow: w\nversion: 1\nsteps:\n  - { id: a, tool: transform, with: { value: '${ trigger.word }' } }\n  \
                  - { id: b, tool: transform, with: { value: 2 } }\n";
    let request = StartRun {
        tenant: tenant.parse().unwrap(),
        input: json!({ "word": "xyzzy" }),
        ..testkit::request(engine, source, "test:1")
    };
    engine.admission().start(request).await.unwrap()
}

#[tokio::test]
async fn run_is_logged_without_its_data() {
    let (lines, _guard) = Lines::capture();
    let engine = engine();
    let run: RunKey = start(&engine).await.run;
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();

    let names = lines.names();
    assert_eq!(names.first().map(String::as_str), Some("run_created"));
    assert_eq!(names.last().map(String::as_str), Some("run_completed"));
    assert_eq!(names.iter().filter(|name| *name == "run_checkpoint").count(), 2, "{names:?}");
    let events = lines.events();
    let transitions: Vec<_> = events.iter().filter(|fields| fields["event"] == "run_transition").collect();
    let changes: Vec<_> = transitions.iter().map(|fields| (&fields["from"], &fields["to"])).collect();
    assert_eq!(changes, [(&json!("queued"), &json!("running")), (&json!("running"), &json!("succeeded"))]);
    let end = events.last().unwrap();
    assert_eq!((&end["status"], &end["run"]), (&json!("succeeded"), &json!(run.to_string())));
    assert!(end["took_ms"].is_u64(), "{end}");
    assert!(!lines.text().contains("xyzzy"), "{}", lines.text());
}

#[tokio::test]
async fn duplicates_and_cancels_are_logged() {
    let (lines, _guard) = Lines::capture();
    let engine = engine();
    let run = start(&engine).await.run;
    assert!(!start(&engine).await.new);
    engine
        .tenant_handle(&run.tenant, &Initiator::new(Cause::User, "ada"))
        .cancel(&run.run, "xyzzy")
        .await
        .unwrap();
    engine
        .tenant_handle(&run.tenant, &Initiator::new(Cause::User, "ada"))
        .cancel(&run.run, "xyzzy")
        .await
        .unwrap();
    assert_eq!(lines.names(), ["run_created", "idempotency_hit", "run_transition", "run_completed"]);
    assert!(!lines.text().contains("xyzzy"), "{}", lines.text());
}

/// The metrics of a run that succeeds, one of another tenant that is canceled, and a duplicate request.
#[tokio::test]
async fn metrics_count_transitions_durations_and_duplicates() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _counting = ::metrics::set_default_local_recorder(&recorder);
    metrics::describe();
    let engine = engine();
    let run: RunKey = start(&engine).await.run;
    assert!(!start(&engine).await.new);
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    let other = start_for(&engine, "umbrella").await.run;
    engine
        .tenant_handle(&other.tenant, &Initiator::new(Cause::User, "ada"))
        .cancel(&other.run, "xyzzy")
        .await
        .unwrap();
    let rendered = handle.render();
    for line in [
        r#"countersign_run_transitions_total{tenant="acme",from="",to="queued"} 1"#,
        r#"countersign_run_transitions_total{tenant="acme",from="queued",to="running"} 1"#,
        r#"countersign_run_transitions_total{tenant="acme",from="running",to="succeeded"} 1"#,
        r#"countersign_run_duration_seconds_count{tenant="acme",status="succeeded"} 1"#,
        r#"countersign_idempotency_hits_total{tenant="acme",source="test"} 1"#,
        r#"countersign_run_transitions_total{tenant="umbrella",from="",to="queued"} 1"#,
        r#"countersign_run_transitions_total{tenant="umbrella",from="queued",to="canceled"} 1"#,
        r#"countersign_run_duration_seconds_count{tenant="umbrella",status="canceled"} 1"#,
        "# TYPE countersign_run_transitions_total counter",
    ] {
        assert!(rendered.lines().any(|shown| shown == line), "{line}: {rendered}");
    }
    assert!(!rendered.contains("xyzzy") && !rendered.contains(run.run.as_str()), "{rendered}");
}

#[tokio::test]
async fn altered_run_is_logged_and_counted() {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    let _counting = ::metrics::set_default_local_recorder(&recorder);
    let (lines, _guard) = Lines::capture();
    let engine = testkit::engine().standard_tools().signed().build();
    let run = start(&engine).await.run;
    Box::pin(engine.execution().advance(&run, &(), AdvanceLimits::default())).await.unwrap();
    let name = engine.store().bundle_name(&run.run);
    engine.store().put_bundle(&run.tenant, &name, b"another".to_vec()).await.unwrap();

    engine.operations().build_evidence(&run).await.unwrap_err();
    let refused: Vec<_> =
        lines.events().into_iter().filter(|line| line["event"] == "evidence_refused").collect();
    let [line] = refused.as_slice() else { panic!("{refused:?}") };
    assert_eq!((&line["reason"], &line["run"]), (&json!("altered"), &json!(run.to_string())));
    let counted = r#"countersign_evidence_refused_total{tenant="acme",reason="altered"} 1"#;
    assert!(handle.render().contains(counted), "{}", handle.render());
}
