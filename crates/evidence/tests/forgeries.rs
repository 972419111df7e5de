//! Inconsistent bundles from the holder of the key: each is signed with the right key, with recomputed chain and log, and
//! is still refused.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod forge;
mod stories;

use countersign_evidence::VerifyError;
use domain::{Digest, RunStatus, StepStatus, Verdict};
use forge::{bundle, document, drop_event, event, rechain, refused, relog, renumber, signed};
use serde_json::{Value, json};
use stories::{NAMES, key};

/// The error for the story after `edit`, with renumbered events and recomputed hashes.
fn forged(name: &str, edit: impl Fn(&mut Value)) -> VerifyError {
    refused(name, |document| {
        edit(document);
        renumber(document);
        rechain(document);
    })
}

#[track_caller]
fn assert_message(error: &VerifyError, text: &str) {
    assert!(error.to_string().contains(text), "{error}");
}

#[test]
fn unchanged_bundles_verify() {
    for name in NAMES {
        let mut whole = document(&bundle(name));
        renumber(&mut whole);
        rechain(&mut whole);
        let bytes = signed(&domain::json::canonical(&whole), [42; 32]);
        assert!(countersign_evidence::verify(&bytes, &key().public()).is_ok(), "{name}");
    }
}

// The transitions.

#[test]
fn illegal_run_transition() {
    let error = forged("plain", |document| event(document, "wait_opened")["run"]["from"] = "paused".into());
    assert!(matches!(error, VerifyError::RunStatusChange { to: RunStatus::WaitingEvent, .. }), "{error}");
    let error = forged("canceled", |document| event(document, "run_canceled")["run"]["to"] = "queued".into());
    assert!(matches!(error, VerifyError::RunStatusChange { to: RunStatus::Queued, .. }), "{error}");
}

#[test]
fn illegal_step_transition() {
    let error = forged("denied", |document| {
        event(document, "action_denied")["step"]["from"] = "waiting_approval".into();
    });
    assert!(matches!(error, VerifyError::StepStatusChange { to: StepStatus::FailedTerminal, .. }), "{error}");
}

#[test]
fn step_starts_before_previous_step_ends() {
    let error = forged("plain", |document| {
        drop_event(document, "step_succeeded");
        document["outcomes"].as_array_mut().unwrap().remove(0);
    });
    assert!(matches!(error, VerifyError::StepStatusChange { to: StepStatus::Running, .. }), "{error}");
}

#[test]
fn gate_without_approval() {
    let error = forged("gate_and_time_out", |document| {
        let vote = event(document, "approval_voted");
        vote["kind"] = "event_delivered".into();
        (vote["event"], vote["signal"]) = ("go".into(), "s".into());
        vote["payload"] = json!({ "sha256": Digest::ZERO, "bytes": 0 });
        for field in ["approval", "subject", "vote", "status"] {
            vote.as_object_mut().unwrap().remove(field);
        }
    });
    assert!(matches!(error, VerifyError::StepEnding { .. }), "{error}");
}

#[test]
fn undo_without_rollback() {
    let error = forged("canceled_in_flight", |document| drop_event(document, "rollback_started"));
    assert!(matches!(error, VerifyError::Direction { .. }), "{error}");
}

#[test]
fn effect_of_a_step_without_holder() {
    let error = forged("one_effect", |document| {
        event(document, "effect_intended").as_object_mut().unwrap().remove("run");
        event(document, "effect_intended").as_object_mut().unwrap().remove("step");
        drop_event(document, "run_admitted");
    });
    assert!(matches!(error, VerifyError::Admission { n: 0 }), "{error}");
    let error = forged("undo_denied", |document| drop_event(document, "run_resumed"));
    assert!(matches!(error, VerifyError::RunStatusChange { .. }), "{error}");
}

#[test]
fn effect_under_an_old_fence() {
    for kind in ["effect_intended", "lease_expired"] {
        let error = forged("taken_over", |document| {
            let entries = document["chain"].as_array_mut().unwrap();
            let last = entries.iter_mut().rfind(|entry| entry["event"]["kind"] == kind).unwrap();
            last["event"]["fence"] = 1.into();
        });
        assert!(matches!(error, VerifyError::Fence { .. }), "{kind}: {error}");
    }
}

#[test]
fn succeeded_run_with_unfinished_step() {
    let error = refused("one_effect", |document| {
        let mut more = document["steps"][0].clone();
        more["id"] = "more".into();
        document["steps"].as_array_mut().unwrap().push(more);
    });
    assert_message(&error, "recorded as succeeded, but step more is pending");
}

#[test]
fn run_record_differs_from_chain() {
    for (field, value) in [
        ("status", json!("succeeded")),
        ("completed_at", json!(1)),
        ("resumes", json!(9)),
        ("duration_ms", json!(1)),
        ("plan", json!(Digest::ZERO)),
        ("workflow", json!("other")),
        ("version", json!(9)),
        ("created_at", json!(1)),
        ("effects", json!({ "done": 0, "undone": 0, "unknown": 0 })),
    ] {
        let error = refused("canceled", |document| {
            document["run"][field] = value.clone();
            relog(document);
        });
        assert!(matches!(error, VerifyError::Run { .. }), "{field}: {error}");
    }
    let running = refused("canceled", |document| {
        document["run"]["status"] = "running".into();
        relog(document);
    });
    assert_eq!(running, VerifyError::NotFinished { status: RunStatus::Running });
}

// The effects.

#[test]
fn receipt_without_verdict() {
    let error = refused("one_effect", |document| {
        let mut more = document["receipts"][0].clone();
        more["key"] = "zzz".into();
        document["receipts"].as_array_mut().unwrap().push(more);
    });
    assert_message(&error, "zzz has no verdict");
}

#[test]
fn receipt_differs_from_chain() {
    for (field, value) in [
        ("verdict", json!(Digest::ZERO)),
        ("approval", json!("ap-1")),
        ("action", json!(Digest::ZERO)),
        ("tool", json!("shell.allow")),
        ("class", json!("opaque")),
        ("target", json!("elsewhere")),
        ("fence", json!(0)),
        ("intended_at", json!(1)),
        ("tenant", json!("other")),
        ("step", json!("other")),
        ("state", json!({ "state": "intent" })),
    ] {
        let error = refused("one_effect", |document| document["receipts"][0][field] = value.clone());
        assert!(
            matches!(error, VerifyError::Receipt { .. } | VerifyError::NotItsEffect { .. }),
            "{field}: {error}"
        );
    }
}

#[test]
fn failed_effect_without_event() {
    let error = refused("approval_used_twice", |document| {
        document["receipts"][0]["state"] = json!({ "state": "failed", "at": 1, "code": "HTTP_STATUS" });
    });
    assert!(matches!(error, VerifyError::NotItsEffect { .. }), "{error}");
    let error = refused("outcome_unknown", |document| {
        document["receipts"][0]["state"] = json!({ "state": "failed", "at": 1, "code": "HTTP_STATUS" });
    });
    assert_message(&error, "the state of receipt");
}

#[test]
fn tool_that_is_not_in_the_plan() {
    let error = refused("one_effect", |document| document["steps"][0]["tool"] = "read".into());
    assert_message(&error, "the tool of receipt");
}

#[test]
fn missing_receipt() {
    for name in ["one_effect", "outcome_unknown", "effect_reused", "effect_superseded"] {
        let error = refused(name, |document| document["receipts"] = json!([]));
        assert!(matches!(error, VerifyError::ReceiptMissing { .. }), "{name}: {error}");
    }
}

#[test]
fn receipt_of_another_run_for_own_effect() {
    let error = refused("one_effect", |document| document["receipts"][0]["run"] = "run-other".into());
    assert!(matches!(error, VerifyError::NotItsEffect { .. }), "{error}");
    let error = refused("event_came_early", |document| {
        document["receipts"] = forge::document(&bundle("effect_reused"))["receipts"].clone();
    });
    assert!(matches!(error, VerifyError::StrayReceipt { .. }), "{error}");
}

#[test]
fn receipt_of_another_run_for_own_intent() {
    let error = refused("effect_superseded", |document| {
        document["receipts"][0]["run"] = "run-other".into();
    });
    assert!(matches!(error, VerifyError::NotOwnReceipt { .. }), "{error}");
}

#[test]
fn intent_that_policy_denied() {
    let error = forged("one_effect", |document| set_ruling(document, &json!("deny")));
    assert_eq!(error, VerifyError::Denied { n: 1 });
}

/// Sets the ruling of the first effect.
fn set_ruling(document: &mut Value, ruling: &Value) {
    let verdict = &mut event(document, "effect_intended")["verdict"];
    verdict["ruling"] = ruling.clone();
    let verdict: Verdict = serde_json::from_value(verdict.clone()).unwrap();
    document["receipts"][0]["verdict"] = json!(verdict.hash());
}

#[test]
fn hidden_effect() {
    let error = refused("outcome_unknown", |document| document["run"]["effects"]["unknown"] = 0.into());
    assert_eq!(error, VerifyError::Run { what: "number of effects" });
    let error = refused("one_effect", |document| document["run"]["effects"]["done"] = 0.into());
    assert_eq!(error, VerifyError::Run { what: "number of effects" });
}

// The approvals.

#[test]
fn missing_approval() {
    let one = json!({ "needs_approval": { "tier": "medium", "people": "one" } });
    let error = forged("one_effect", |document| set_ruling(document, &one));
    assert_eq!(error, VerifyError::Unapproved { n: 1 });
    let error = refused("approved_by_one", |document| document["approvals"] = json!([]));
    assert!(matches!(error, VerifyError::ApprovalMissing { .. }), "{error}");
    let error = forged("approved_by_one", |document| {
        for kind in ["approval_requested", "approval_voted"] {
            drop_event(document, kind);
        }
        event(document, "effect_intended")["step"]["from"] = "ready".into();
    });
    assert!(matches!(error, VerifyError::ApprovalMissing { .. }), "{error}");
}

#[test]
fn approval_that_policy_does_not_require() {
    let error = forged("approved_by_one", |document| set_ruling(document, &json!("allow")));
    assert!(matches!(error, VerifyError::Unasked { .. }), "{error}");
}

#[test]
fn approval_of_another_action() {
    let error = forged("approved_by_one", |document| {
        document["approvals"][0]["subject_hash"] = json!(Digest::ZERO);
        for kind in ["approval_requested", "approval_voted"] {
            event(document, kind)["subject"] = json!(Digest::ZERO);
        }
    });
    assert_message(&error, "another action");
}

#[test]
fn approval_under_another_policy() {
    let error = forged("approved_by_one", |document| {
        event(document, "approval_requested")["verdict"]["policy"] = json!(Digest::ZERO);
    });
    assert_message(&error, "another policy");
}

#[test]
fn approval_by_too_few_approvers() {
    let two = json!({ "needs_approval": { "tier": "medium", "people": "two" } });
    let error = forged("approved_by_one", |document| set_ruling(document, &two));
    assert_message(&error, "it required fewer approvers");
    let error = forged("approved_by_two", |document| {
        let first = event(document, "approval_voted")["vote"]["person"].clone();
        let entries = document["chain"].as_array_mut().unwrap();
        let last = entries.iter_mut().rfind(|entry| entry["event"]["kind"] == "approval_voted").unwrap();
        last["event"]["vote"]["person"] = first;
    });
    assert!(matches!(error, VerifyError::ApprovalTransition { .. }), "{error}");
}

#[test]
fn approval_by_requester_or_author() {
    for person in ["rita", "arthur"] {
        let error = forged("approved_by_one", |document| {
            event(document, "approval_voted")["vote"]["person"] = person.into();
            document["approvals"][0]["votes"][0]["person"] = person.into();
        });
        assert!(matches!(error, VerifyError::Excluded { .. }), "{error}");
        let error = forged("approved_by_one", |document| {
            event(document, "approval_requested").as_object_mut().unwrap().remove("excluded");
            event(document, "approval_voted")["vote"]["person"] = person.into();
            document["approvals"][0]["votes"][0]["person"] = person.into();
        });
        assert_message(&error, "list of excluded users");
    }
}

/// The verdict requires the identity provider, and the vote came through Slack.
#[test]
fn approval_without_the_required_assurance() {
    let ruling = json!({
        "needs_approval": { "tier": "medium", "people": "one", "assurance": "identity_provider" }
    });
    let error = forged("approved_by_one", |document| {
        set_ruling(document, &ruling);
        event(document, "approval_requested")["requirement"]["assurance"] = "identity_provider".into();
        document["approvals"][0]["requirement"]["assurance"] = "identity_provider".into();
    });
    assert!(matches!(error, VerifyError::Assurance { .. }), "{error}");
    // Without it in the request, the request does not cover the verdict.
    let error = forged("approved_by_one", |document| set_ruling(document, &ruling));
    assert_message(&error, "it required fewer approvers");
}

#[test]
fn approval_after_the_effect() {
    let error = forged("approved_by_one", |document| {
        let entries = document["chain"].as_array_mut().unwrap();
        let vote = entries.iter().position(|entry| entry["event"]["kind"] == "approval_voted").unwrap();
        entries.swap(vote, vote + 1);
    });
    assert!(matches!(error, VerifyError::StepStatusChange { to: StepStatus::Running, .. }), "{error}");
    let error = forged("approved_by_one", |document| {
        event(document, "approval_requested")["expires_at"] = event(document, "approval_voted")["at"].clone();
    });
    assert!(matches!(error, VerifyError::ApprovalTransition { .. }), "{error}");
}

#[test]
fn approval_differs_from_chain() {
    for (field, value) in [
        ("status", json!("rejected")),
        ("consumed", json!({ "fence": 9, "at": 1 })),
        ("consumed", Value::Null),
        ("votes", json!([])),
        ("requirement", json!({ "tier": "low", "people": "one" })),
        ("excluded", json!([{ "person": "other", "role": "requester" }])),
        ("requested_at", json!(1)),
        ("expires_at", json!(1)),
        ("reminders", json!(4)),
        ("rollback", json!(true)),
        ("step", json!("other")),
    ] {
        let error = refused("approved_by_one", |document| match &value {
            Value::Null => drop(document["approvals"][0].as_object_mut().unwrap().remove(field)),
            value => document["approvals"][0][field] = value.clone(),
        });
        assert!(matches!(error, VerifyError::Approval { .. }), "{field}: {error}");
    }
}

#[test]
fn approval_subject_differs_from_action() {
    for (field, value) in
        [("target", json!("elsewhere")), ("tool", json!("read")), ("policy", json!(Digest::ZERO))]
    {
        let error =
            refused("approved_by_one", |document| document["approvals"][0]["subject"][field] = value.clone());
        assert!(matches!(error, VerifyError::Approval { .. }), "{field}: {error}");
    }
}

#[test]
fn approval_that_was_never_requested() {
    let error = refused("approved_by_one", |document| {
        let mut more = document["approvals"][0].clone();
        more["id"] = "zzz".into();
        document["approvals"].as_array_mut().unwrap().push(more);
    });
    assert!(matches!(error, VerifyError::NeverAsked { .. }), "{error}");
}

// The outcomes, the sums and the form.

#[test]
fn outcome_differs_from_chain() {
    for (field, value) in [
        ("status", json!("failed_terminal")),
        ("event", json!(0)),
        ("event", json!(99)),
        ("output", json!({ "sha256": Digest::ZERO, "bytes": 0 })),
        ("receipt", json!("other")),
        ("cost_microusd", json!(1)),
        ("usage", json!({ "provider": "p", "model": "m", "input_tokens": 0, "output_tokens": 0 })),
    ] {
        let error = refused("one_effect", |document| document["outcomes"][0][field] = value.clone());
        assert!(matches!(error, VerifyError::Outcome { seq: 0, .. }), "{field}: {error}");
    }
    let error = refused("one_effect", |document| document["outcomes"] = json!([]));
    assert_eq!(error, VerifyError::Outcomes { expected: 1, found: 0 });
}

#[test]
fn duplicate_records() {
    for part in ["outcomes", "receipts", "approvals"] {
        let error = refused("approved_by_one", |document| {
            let first = document[part][0].clone();
            document[part].as_array_mut().unwrap().insert(0, first);
        });
        assert_eq!(error, VerifyError::Order { what: part });
    }
}

#[test]
fn wrong_costs() {
    for pointer in ["/total_microusd", "/steps/0/microusd", "/tools/0/microusd", "/models/0/input_tokens"] {
        let error = refused("plain", |document| {
            *document["costs"].pointer_mut(pointer).unwrap() = 1.into();
        });
        assert_eq!(error, VerifyError::Costs, "{pointer}");
    }
    let error = refused("canceled", |document| document["compensations"] = json!([]));
    assert_eq!(error, VerifyError::Compensations);
}

#[test]
fn unknown_fields_and_formats() {
    let error = refused("plain", |document| document["format"] = "countersign.bundle.v2".into());
    assert_eq!(error, VerifyError::Format { found: "countersign.bundle.v2".to_owned() });
    for part in ["", "/run", "/receipts/0", "/receipts/0/state", "/outcomes/0", "/log", "/costs", "/steps/0"]
    {
        let error = refused("one_effect", |document| document.pointer_mut(part).unwrap()["more"] = 1.into());
        let known =
            matches!(error, VerifyError::Document { .. } | VerifyError::NotCanonical { what: "payload" });
        assert!(known, "{part}: {error}");
    }
    // The domain types accept unknown fields here.
    let error = refused("one_effect", |document| document["run"]["trigger"]["more"] = 1.into());
    assert_eq!(error, VerifyError::NotCanonical { what: "payload" });
    let error = refused("one_effect", |document| document["chain"][1]["event"]["more"] = 1.into());
    assert!(matches!(error, VerifyError::Chain(_)), "{error}");
}

#[test]
fn wrong_log_position() {
    for (field, value) in [("index", json!(1)), ("path", json!([Digest::ZERO]))] {
        let error = refused("plain", |document| document["log"][field] = value.clone());
        assert!(matches!(error, VerifyError::NotInLog { .. }), "{field}: {error}");
    }
}
