//! What somebody who holds the key cannot get past a reader: every bundle here is signed, its chain is
//! hashed anew and the log tells its head, and still it is refused, for what it says.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a case fails by panicking")]

mod forge;
mod stories;

use countersign_evidence::Fault;
use domain::{Digest, RunStatus, StepStatus, Verdict};
use forge::{bundle, document, drop_event, event, rechain, refused, relog, renumber, signed};
use serde_json::{Value, json};
use stories::{NAMES, key};

/// Why the story is refused after `edit` and all that hides it.
fn forged(name: &str, edit: impl Fn(&mut Value)) -> Fault {
    refused(name, |document| {
        edit(document);
        renumber(document);
        rechain(document);
    })
}

#[track_caller]
fn assert_named(fault: &Fault, words: &str) {
    assert!(fault.to_string().contains(words), "{fault}");
}

#[test]
fn nothing_changed_is_nothing_refused() {
    for name in NAMES {
        let mut whole = document(&bundle(name));
        renumber(&mut whole);
        rechain(&mut whole);
        let bytes = signed(&domain::json::canonical(&whole), [42; 32]);
        assert!(countersign_evidence::verify(&bytes, &key().public()).is_ok(), "{name}");
    }
}

// The story.

#[test]
fn a_run_that_jumps() {
    let fault = forged("plain", |document| event(document, "wait_opened")["run"]["from"] = "paused".into());
    assert!(matches!(fault, Fault::RunTransition { to: RunStatus::WaitingEvent, .. }), "{fault}");
    let fault = forged("canceled", |document| event(document, "run_canceled")["run"]["to"] = "queued".into());
    assert!(matches!(fault, Fault::RunTransition { to: RunStatus::Queued, .. }), "{fault}");
}

#[test]
fn a_step_that_jumps() {
    let fault = forged("denied", |document| {
        event(document, "action_denied")["step"]["from"] = "waiting_approval".into();
    });
    assert!(matches!(fault, Fault::StepTransition { to: StepStatus::FailedTerminal, .. }), "{fault}");
}

#[test]
fn a_step_that_begins_before_the_one_before_it_ended() {
    let fault = forged("plain", |document| {
        drop_event(document, "step_succeeded");
        document["outcomes"].as_array_mut().unwrap().remove(0);
    });
    assert!(matches!(fault, Fault::StepTransition { to: StepStatus::Running, .. }), "{fault}");
}

#[test]
fn a_gate_that_nobody_opened() {
    let fault = forged("gate_and_time_out", |document| {
        let vote = event(document, "approval_voted");
        vote["kind"] = "event_delivered".into();
        (vote["event"], vote["signal"]) = ("go".into(), "s".into());
        vote["payload"] = json!({ "sha256": Digest::ZERO, "bytes": 0 });
        for field in ["approval", "subject", "vote", "status"] {
            vote.as_object_mut().unwrap().remove(field);
        }
    });
    assert!(matches!(fault, Fault::StepEnding { .. }), "{fault}");
}

#[test]
fn an_undoing_that_never_began() {
    let fault = forged("canceled_in_flight", |document| drop_event(document, "rollback_started"));
    assert!(matches!(fault, Fault::TakingBack { .. }), "{fault}");
}

#[test]
fn an_effect_of_a_step_that_nobody_held() {
    let fault = forged("one_effect", |document| {
        event(document, "effect_intended").as_object_mut().unwrap().remove("run");
        event(document, "effect_intended").as_object_mut().unwrap().remove("step");
        drop_event(document, "run_admitted");
    });
    assert!(matches!(fault, Fault::Admission { n: 0 }), "{fault}");
    let fault = forged("undo_denied", |document| drop_event(document, "run_resumed"));
    assert!(matches!(fault, Fault::RunTransition { .. }), "{fault}");
}

#[test]
fn an_effect_under_a_fence_that_was_left_behind() {
    for kind in ["effect_intended", "lease_expired"] {
        let fault = forged("taken_over", |document| {
            let entries = document["chain"].as_array_mut().unwrap();
            let last = entries.iter_mut().rfind(|entry| entry["event"]["kind"] == kind).unwrap();
            last["event"]["fence"] = 1.into();
        });
        assert!(matches!(fault, Fault::Fence { .. }), "{kind}: {fault}");
    }
}

#[test]
fn a_success_with_a_step_that_is_none() {
    let fault = refused("one_effect", |document| {
        let mut more = document["steps"][0].clone();
        more["id"] = "more".into();
        document["steps"].as_array_mut().unwrap().push(more);
    });
    assert_named(&fault, "called succeeded, but step more is pending");
}

#[test]
fn another_end_than_the_chain_tells() {
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
        let fault = refused("canceled", |document| {
            document["run"][field] = value.clone();
            relog(document);
        });
        assert!(matches!(fault, Fault::Run { .. }), "{field}: {fault}");
    }
    let running = refused("canceled", |document| {
        document["run"]["status"] = "running".into();
        relog(document);
    });
    assert_eq!(running, Fault::NotOver { status: RunStatus::Running });
}

// The effects.

#[test]
fn a_receipt_without_a_verdict() {
    let fault = refused("one_effect", |document| {
        let mut more = document["receipts"][0].clone();
        more["key"] = "zzz".into();
        document["receipts"].as_array_mut().unwrap().push(more);
    });
    assert_named(&fault, "zzz has no verdict");
}

#[test]
fn a_receipt_that_is_told_otherwise() {
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
        let fault = refused("one_effect", |document| document["receipts"][0][field] = value.clone());
        assert!(matches!(fault, Fault::Receipt { .. } | Fault::NotItsEffect { .. }), "{field}: {fault}");
    }
}

#[test]
fn an_effect_that_failed_when_nothing_happened() {
    let fault = refused("approval_used_twice", |document| {
        document["receipts"][0]["state"] = json!({ "state": "failed", "at": 1, "code": "HTTP_STATUS" });
    });
    assert!(matches!(fault, Fault::NotItsEffect { .. }), "{fault}");
    let fault = refused("outcome_unknown", |document| {
        document["receipts"][0]["state"] = json!({ "state": "failed", "at": 1, "code": "HTTP_STATUS" });
    });
    assert_named(&fault, "the state of receipt");
}

#[test]
fn a_tool_that_the_plan_does_not_call() {
    let fault = refused("one_effect", |document| document["steps"][0]["tool"] = "read".into());
    assert_named(&fault, "the tool of receipt");
}

#[test]
fn a_receipt_that_is_missing() {
    for name in ["one_effect", "outcome_unknown", "effect_reused", "effect_superseded"] {
        let fault = refused(name, |document| document["receipts"] = json!([]));
        assert!(matches!(fault, Fault::ReceiptMissing { .. }), "{name}: {fault}");
    }
}

#[test]
fn a_receipt_of_another_run_for_what_this_one_did() {
    let fault = refused("one_effect", |document| document["receipts"][0]["run"] = "run-other".into());
    assert!(matches!(fault, Fault::NotItsEffect { .. }), "{fault}");
    let fault = refused("event_came_early", |document| {
        document["receipts"] = forge::document(&bundle("effect_reused"))["receipts"].clone();
    });
    assert!(matches!(fault, Fault::StrayReceipt { .. }), "{fault}");
}

#[test]
fn a_receipt_of_another_run_for_what_this_one_tried() {
    let fault = refused("effect_superseded", |document| {
        document["receipts"][0]["run"] = "run-other".into();
    });
    assert!(matches!(fault, Fault::NotOwnReceipt { .. }), "{fault}");
}

#[test]
fn an_intent_that_policy_denied() {
    let fault = forged("one_effect", |document| judge(document, &json!("deny")));
    assert_eq!(fault, Fault::Denied { n: 1 });
}

/// Has policy say `ruling` about the first effect.
fn judge(document: &mut Value, ruling: &Value) {
    let verdict = &mut event(document, "effect_intended")["verdict"];
    verdict["ruling"] = ruling.clone();
    let verdict: Verdict = serde_json::from_value(verdict.clone()).unwrap();
    document["receipts"][0]["verdict"] = json!(verdict.hash());
}

#[test]
fn an_effect_that_is_hidden() {
    let fault = refused("outcome_unknown", |document| document["run"]["effects"]["unknown"] = 0.into());
    assert_eq!(fault, Fault::Run { what: "count of effects" });
    let fault = refused("one_effect", |document| document["run"]["effects"]["done"] = 0.into());
    assert_eq!(fault, Fault::Run { what: "count of effects" });
}

// The approvals.

#[test]
fn a_needed_approval_that_is_not_there() {
    let one = json!({ "needs_approval": { "tier": "medium", "people": "one" } });
    let fault = forged("one_effect", |document| judge(document, &one));
    assert_eq!(fault, Fault::Unapproved { n: 1 });
    let fault = refused("approved_by_one", |document| document["approvals"] = json!([]));
    assert!(matches!(fault, Fault::ApprovalMissing { .. }), "{fault}");
    let fault = forged("approved_by_one", |document| {
        for kind in ["approval_requested", "approval_voted"] {
            drop_event(document, kind);
        }
        event(document, "effect_intended")["step"]["from"] = "ready".into();
    });
    assert!(matches!(fault, Fault::ApprovalMissing { .. }), "{fault}");
}

#[test]
fn an_approval_that_policy_did_not_ask_for() {
    let fault = forged("approved_by_one", |document| judge(document, &json!("allow")));
    assert!(matches!(fault, Fault::Unasked { .. }), "{fault}");
}

#[test]
fn an_approval_of_another_action() {
    let fault = forged("approved_by_one", |document| {
        document["approvals"][0]["subject"] = json!(Digest::ZERO);
        for kind in ["approval_requested", "approval_voted"] {
            event(document, kind)["subject"] = json!(Digest::ZERO);
        }
    });
    assert_named(&fault, "another action");
}

#[test]
fn an_approval_under_another_policy() {
    let fault = forged("approved_by_one", |document| {
        event(document, "approval_requested")["verdict"]["policy"] = json!(Digest::ZERO);
    });
    assert_named(&fault, "another policy");
}

#[test]
fn an_approval_by_fewer_people_than_policy_asks_for() {
    let two = json!({ "needs_approval": { "tier": "medium", "people": "two" } });
    let fault = forged("approved_by_one", |document| judge(document, &two));
    assert_named(&fault, "fewer people were asked for");
    let fault = forged("approved_by_two", |document| {
        let first = event(document, "approval_voted")["vote"]["person"].clone();
        let entries = document["chain"].as_array_mut().unwrap();
        let last = entries.iter_mut().rfind(|entry| entry["event"]["kind"] == "approval_voted").unwrap();
        last["event"]["vote"]["person"] = first;
    });
    assert!(matches!(fault, Fault::ApprovalTransition { .. }), "{fault}");
}

#[test]
fn an_approval_by_whoever_wanted_the_run_or_wrote_the_workflow() {
    for person in ["rita", "arthur"] {
        let fault = forged("approved_by_one", |document| {
            event(document, "approval_voted")["vote"]["person"] = person.into();
            document["approvals"][0]["votes"][0]["person"] = person.into();
        });
        assert!(matches!(fault, Fault::Excluded { .. }), "{fault}");
        let fault = forged("approved_by_one", |document| {
            event(document, "approval_requested").as_object_mut().unwrap().remove("excluded");
            event(document, "approval_voted")["vote"]["person"] = person.into();
            document["approvals"][0]["votes"][0]["person"] = person.into();
        });
        assert_named(&fault, "list of who may not answer");
    }
}

#[test]
fn an_approval_given_after_the_effect() {
    let fault = forged("approved_by_one", |document| {
        let entries = document["chain"].as_array_mut().unwrap();
        let vote = entries.iter().position(|entry| entry["event"]["kind"] == "approval_voted").unwrap();
        entries.swap(vote, vote + 1);
    });
    assert!(matches!(fault, Fault::StepTransition { to: StepStatus::Running, .. }), "{fault}");
    let fault = forged("approved_by_one", |document| {
        event(document, "approval_requested")["expires_at"] = event(document, "approval_voted")["at"].clone();
    });
    assert!(matches!(fault, Fault::ApprovalTransition { .. }), "{fault}");
}

#[test]
fn an_approval_that_is_told_otherwise() {
    for (field, value) in [
        ("status", json!("rejected")),
        ("consumed", json!({ "fence": 9, "at": 1 })),
        ("consumed", Value::Null),
        ("votes", json!([])),
        ("demand", json!({ "tier": "low", "people": "one" })),
        ("requester", json!("nobody")),
        ("author", json!("nobody")),
        ("asked_at", json!(1)),
        ("expires_at", json!(1)),
        ("reminders", json!(4)),
        ("undo", json!(true)),
        ("step", json!("other")),
    ] {
        let fault = refused("approved_by_one", |document| match &value {
            Value::Null => drop(document["approvals"][0].as_object_mut().unwrap().remove(field)),
            value => document["approvals"][0][field] = value.clone(),
        });
        assert!(matches!(fault, Fault::Approval { .. }), "{field}: {fault}");
    }
}

#[test]
fn an_approval_that_showed_something_else() {
    for (field, value) in
        [("target", json!("elsewhere")), ("tool", json!("read")), ("policy", json!(Digest::ZERO))]
    {
        let fault =
            refused("approved_by_one", |document| document["approvals"][0]["about"][field] = value.clone());
        assert!(matches!(fault, Fault::Approval { .. }), "{field}: {fault}");
    }
}

#[test]
fn an_approval_that_nobody_asked_for() {
    let fault = refused("approved_by_one", |document| {
        let mut more = document["approvals"][0].clone();
        more["id"] = "zzz".into();
        document["approvals"].as_array_mut().unwrap().push(more);
    });
    assert!(matches!(fault, Fault::NeverAsked { .. }), "{fault}");
}

// The outcomes, the sums and the form.

#[test]
fn an_outcome_that_is_told_otherwise() {
    for (field, value) in [
        ("status", json!("failed_terminal")),
        ("event", json!(0)),
        ("event", json!(99)),
        ("output", json!({ "sha256": Digest::ZERO, "bytes": 0 })),
        ("receipt", json!("other")),
        ("cost_microusd", json!(1)),
        ("usage", json!({ "provider": "p", "model": "m", "input_tokens": 0, "output_tokens": 0 })),
    ] {
        let fault = refused("one_effect", |document| document["outcomes"][0][field] = value.clone());
        assert!(matches!(fault, Fault::Outcome { seq: 0, .. }), "{field}: {fault}");
    }
    let fault = refused("one_effect", |document| document["outcomes"] = json!([]));
    assert_eq!(fault, Fault::Outcomes { told: 1, found: 0 });
}

#[test]
fn things_that_stand_there_twice() {
    for part in ["outcomes", "receipts", "approvals"] {
        let fault = refused("approved_by_one", |document| {
            let first = document[part][0].clone();
            document[part].as_array_mut().unwrap().insert(0, first);
        });
        assert_eq!(fault, Fault::Order { what: part });
    }
}

#[test]
fn sums_that_do_not_add_up() {
    for pointer in ["/total_microusd", "/steps/0/microusd", "/tools/0/microusd", "/models/0/input_tokens"] {
        let fault = refused("plain", |document| {
            *document["costs"].pointer_mut(pointer).unwrap() = 1.into();
        });
        assert_eq!(fault, Fault::Costs, "{pointer}");
    }
    let fault = refused("canceled", |document| document["compensations"] = json!([]));
    assert_eq!(fault, Fault::Compensations);
}

#[test]
fn what_is_not_known() {
    let fault = refused("plain", |document| document["format"] = "countersign.bundle.v2".into());
    assert_eq!(fault, Fault::Format { found: "countersign.bundle.v2".to_owned() });
    for part in ["", "/run", "/receipts/0", "/receipts/0/state", "/outcomes/0", "/log", "/costs", "/steps/0"]
    {
        let fault = refused("one_effect", |document| document.pointer_mut(part).unwrap()["more"] = 1.into());
        let known = matches!(fault, Fault::Document { .. } | Fault::NotCanonical { what: "payload" });
        assert!(known, "{part}: {fault}");
    }
    // Somewhere below, where the types of the domain are more lenient.
    let fault = refused("one_effect", |document| document["run"]["trigger"]["more"] = 1.into());
    assert_eq!(fault, Fault::NotCanonical { what: "payload" });
    let fault = refused("one_effect", |document| document["chain"][1]["event"]["more"] = 1.into());
    assert!(matches!(fault, Fault::Chain(_)), "{fault}");
}

#[test]
fn a_place_in_the_log_that_is_not_the_runs() {
    for (field, value) in [("index", json!(1)), ("path", json!([Digest::ZERO]))] {
        let fault = refused("plain", |document| document["log"][field] = value.clone());
        assert!(matches!(fault, Fault::NotInLog { .. }), "{field}: {fault}");
    }
}
