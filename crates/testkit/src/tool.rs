//! Tools of the tests.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use connectors::{Observed, ProposalRequest, Tool, ToolCall, ToolOutcome, ToolResult};
use domain::{Action, EffectClass, Failure, FieldChange, IdempotencyKey, Reversibility, ToolName};
use serde_json::{Value, json};
use tokio::sync::Notify;

/// The action of a step that reads. A tool changes what is different.
pub fn action(tool: ToolName, ask: ProposalRequest<'_>) -> Action {
    let key = IdempotencyKey::for_step(&tool, &ask.run.run, ask.step);
    Action {
        tool,
        contract: 1,
        class: EffectClass::ReadOnly,
        reversibility: Reversibility::NoEffect,
        target: "outside".to_owned(),
        key: if ask.reverts { key.reverse() } else { key },
        key_retention: None,
        changes: Vec::new(),
        destructive: false,
        estimate_microusd: None,
        connection: None,
        fields: ask.fields,
    }
}

/// A record in an external system: its value, and how often it was written.
#[derive(Debug, Default)]
pub struct ExternalRecord {
    pub says: Mutex<String>,
    pub writes: AtomicU32,
    pub refuses: AtomicBool,
    /// While set, a write waits for `go`.
    pub waits: AtomicBool,
    pub go: Notify,
}

/// The tool `test.set`. It sets the record to the field `to`, if the record still has the value that was observed. The
/// field `key` replaces the idempotency key.
#[derive(Debug)]
pub struct SetRecord(pub Arc<ExternalRecord>);

#[async_trait]
impl Tool for SetRecord {
    fn name(&self) -> ToolName {
        "test.set".parse().unwrap()
    }

    fn effect_class(&self, _: &Value) -> Option<EffectClass> {
        Some(EffectClass::CompareAndSet)
    }

    fn observes(&self) -> bool {
        true
    }

    async fn observe(&self, _ask: &ProposalRequest<'_>) -> Observed {
        Observed::Found(json!(*self.0.says.lock().unwrap()))
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        let (before, after) = (ask.observed.cloned(), ask.fields["to"].clone());
        let reverts = ask.reverts;
        let mut action = action(self.name(), ask);
        if let Some(key) = action.fields["key"].as_str() {
            let key: IdempotencyKey = key.parse().unwrap();
            action.key = if reverts { key.reverse() } else { key };
        }
        // As for a real record: nothing is changed that already is as requested.
        let reversibility =
            if before.as_ref() == Some(&after) { Reversibility::NoEffect } else { Reversibility::Inverse };
        Ok(Action {
            class: EffectClass::CompareAndSet,
            reversibility,
            target: "the record".to_owned(),
            changes: vec![FieldChange { field: "value".to_owned(), before, after }],
            ..action
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        if self.0.waits.load(Ordering::Relaxed) {
            self.0.go.notified().await;
        }
        let change = &call.action.changes[0];
        let mut says = self.0.says.lock().unwrap();
        let before = json!(*says);
        if self.0.refuses.load(Ordering::Relaxed) || Some(&before) != change.before.as_ref() {
            return ToolOutcome::Terminal(Failure::new("CONFLICT", "the record has changed"));
        }
        change.after.as_str().unwrap().clone_into(&mut says);
        self.0.writes.fetch_add(1, Ordering::Relaxed);
        let inverse = (call.action.reversibility == Reversibility::Inverse)
            .then(|| json!({ "tool": "test.set", "with": { "to": before } }));
        ToolOutcome::Done(ToolResult { inverse, ..ToolResult::default() })
    }
}
