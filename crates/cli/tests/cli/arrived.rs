//! What came in and started no run: whoever asks for that run is told what became of it.

use domain::{Digest, Source};
use engine::InboundEvent;
use serde_json::json;
use tokio::runtime::Runtime;

use crate::server::engine;
use crate::shell::Shell;

/// The run that something would start which came in for acme and was taken up.
fn unwanted(shell: &Shell) -> String {
    let knock = InboundEvent {
        tenant: "acme".parse().unwrap(),
        key: "webhook:1".parse().unwrap(),
        source: Source::Webhook,
        about: None,
        record: None,
        proof: Digest::of_bytes(b"1"),
        dedupe_key: None,
        body: json!({ "body": { "host": "db1" } }),
        asked: None,
    };
    let engine = engine(&shell.path("arrived.db"));
    Runtime::new().unwrap().block_on(async {
        let run = engine.accept(knock).await.unwrap().run;
        engine.begin(&run).await.unwrap();
        run.run.to_string()
    })
}

#[test]
fn of_a_run_that_was_not_started_every_verb_tells_why() {
    let shell = Shell::new();
    let run = unwanted(&shell);
    for verb in ["show", "timeline", "cancel"] {
        let no = shell.run(&format!("--store arrived.db run {verb} {run} --tenant acme")).expect(2);
        no.says("was not started: no workflow wanted what came in").says("help: put a workflow to use");
    }
    let never = shell.run(&format!("--store arrived.db run show {run} --tenant umbrella")).expect(2);
    never.says(&format!("there is no run umbrella/{run}; `run list` shows those there are"));
}
