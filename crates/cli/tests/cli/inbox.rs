//! Inbound events that started no run: commands on that run explain why.

use domain::{Digest, Source};
use engine::InboundEvent;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::env::CliEnv;
use crate::server::engine;

/// The run of an event for acme that no workflow accepts.
fn unmatched(env: &CliEnv) -> String {
    let event = InboundEvent {
        tenant: "acme".parse().unwrap(),
        key: "webhook:1".parse().unwrap(),
        source: Source::Webhook,
        topic: None,
        record: None,
        proof: Digest::of_bytes(b"1"),
        dedupe_key: None,
        body: json!({ "body": { "host": "db1" } }),
        start_request: None,
    };
    let engine = engine(&env.path("inbox.db"));
    Runtime::new().unwrap().block_on(async {
        let run = engine.admission().accept(event).await.unwrap().run;
        engine.admission().process_entry(&run).await.unwrap();
        run.run.to_string()
    })
}

#[test]
fn commands_explain_why_a_run_did_not_start() {
    let env = CliEnv::new();
    let run = unmatched(&env);
    for verb in ["show", "timeline", "cancel"] {
        let no = env.run(&format!("--store inbox.db run {verb} {run} --tenant acme")).expect(2);
        no.prints("was not started: no workflow matched the event").prints("help: apply a workflow");
    }
    let never = env.run(&format!("--store inbox.db run show {run} --tenant umbrella")).expect(2);
    never.prints(&format!("run umbrella/{run} not found; `run list` lists runs"));
}
