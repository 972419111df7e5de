//! What a function is told by its environment. Nothing else in this crate looks at it.

use std::env;

use store::aws::{AwsSettings, QueueUrls};

/// The variable `name`, if it is set.
pub(crate) fn variable(name: &str) -> Option<String> {
    env::var(name).ok().filter(|text| !text.is_empty())
}

/// The variable `name`, which must be set.
pub(crate) fn need(name: &str) -> Result<String, String> {
    variable(name).ok_or_else(|| format!("{name} is not set"))
}

/// Where the store keeps things.
pub(crate) fn settings() -> Result<AwsSettings, String> {
    Ok(AwsSettings {
        table: need("COUNTERSIGN_TABLE")?,
        queues: QueueUrls {
            ingest: need("COUNTERSIGN_QUEUE_INGEST")?,
            decisions: need("COUNTERSIGN_QUEUE_DECISIONS")?,
            steps: need("COUNTERSIGN_QUEUE_STEPS")?,
        },
        payloads: need("COUNTERSIGN_PAYLOADS")?,
        evidence: need("COUNTERSIGN_EVIDENCE")?,
        // A function puts no evidence together.
        retain: None,
    })
}
