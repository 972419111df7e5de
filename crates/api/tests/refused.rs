//! The log lines of refused requests.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::io;
use std::sync::{Arc, Mutex};

use countersign_api::ApiError;
use domain::refusal::NotApprover;
use domain::{Fence, Refusal, RunKey, RunStatus};
use engine::EngineError;
use serde_json::{Value, json};
use tracing::subscriber::with_default;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// One refusal for each code.
fn refusals() -> [Refusal; 6] {
    let run = RunKey { tenant: "acme".parse().unwrap(), run: "run-1".parse().unwrap() };
    let approver = Refusal::NotApprover {
        approval: "ap-1".parse().unwrap(),
        person: "anna".parse().unwrap(),
        why: NotApprover::Requester,
    };
    [
        Refusal::NothingToRollBack,
        Refusal::Terminal { run: run.clone(), status: RunStatus::Succeeded },
        Refusal::StaleFence { yours: Fence(1), held: Fence(2) },
        Refusal::NotPaused { run: run.clone(), status: RunStatus::Running },
        Refusal::KeyConflict { run },
        approver,
    ]
}

#[test]
fn refusal_is_logged_once_with_its_code_only() {
    let log = Log::default();
    let writer = log.clone();
    let lines = tracing_subscriber::fmt().json().with_writer(move || writer.clone()).finish();
    let answered: Vec<&str> = with_default(lines, || {
        refusals().into_iter().map(|refusal| ApiError::from(EngineError::from(refusal)).code).collect()
    });

    let text = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let logged: Vec<Value> =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()["fields"].take()).collect();
    let expected: Vec<Value> = answered
        .iter()
        .map(|code| json!({ "message": "refused", "event": "request_refused", "code": code }))
        .collect();
    assert_eq!(logged, expected);
    assert_eq!(
        answered[..5],
        [
            "RUN_INVALID_TRANSITION",
            "RUN_TERMINAL_STATE",
            "LEASE_LOST",
            "RUN_RESUME_FAILED",
            "IDEMPOTENCY_CONFLICT",
        ]
    );
}
