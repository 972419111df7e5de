//! The log lines of refused requests.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use countersign_api::ApiError;
use domain::refusal::NotApprover;
use domain::{Fence, Refusal, RunKey, RunStatus};
use engine::EngineError;
use serde_json::{Value, json};
use testkit::CapturedLog;
use tracing::Level;

/// One refusal for each code.
fn refusals() -> [Refusal; 6] {
    let run = RunKey { tenant: "acme".parse().unwrap(), run: "run-1".parse().unwrap() };
    let approver = Refusal::NotApprover {
        approval: "ap-1".parse().unwrap(),
        person: "anna".parse().unwrap(),
        why: NotApprover::Participant(domain::ParticipantRole::Requester),
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
    let (log, guard) = CapturedLog::capture(Level::INFO);
    let answered: Vec<&str> =
        refusals().into_iter().map(|refusal| ApiError::from(EngineError::from(refusal)).code).collect();
    drop(guard);

    let logged = log.fields();
    let expected: Vec<Value> = answered
        .iter()
        .map(|code| json!({ "message": "request refused", "event": "request_refused", "code": code }))
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
