//! Attacks on evidence. Each changed bundle is refused, also if the holder of the key signs it again.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod forge;
mod stories;

use countersign_evidence::{BuildError, Contradiction, PublicKey, SigningKey, VerifyError, build, verify};
use domain::chain::ChainError;
use domain::receipt::ReceiptState;
use domain::{IdempotencyKey, RunId, TenantId, json};
use forge::{bundle, document, drop_event, event, rechain, refused, relog, renumber, signature_line, signed};
use serde_json::{Value, json};
use stories::{NAMES, key, story};

/// An unoptimized verification takes milliseconds, and there are thousands of positions.
const THREADS: usize = 2;

#[test]
fn byte_flip_each_position() {
    let honest = bundle("one_effect");
    let public = key().public();
    assert!(verify(&honest, &public).is_ok());
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let (honest, public) = (&honest, &public);
            scope.spawn(move || {
                (thread..honest.len()).step_by(THREADS).for_each(|at| flip(honest, at, public));
            });
        }
    });
}

/// Flips one bit, a different one at each position, and then the whole byte.
fn flip(honest: &[u8], at: usize, public: &PublicKey) {
    for mask in [1_u8 << (at % 8), 0xff] {
        let mut flipped = honest.to_vec();
        flipped[at] ^= mask;
        assert!(verify(&flipped, public).is_err(), "byte {at} with {mask:#x}");
    }
}

#[test]
fn entry_dropped() {
    let gap = VerifyError::Chain(ChainError::Gap { expected: 1, found: 2 });
    let drop = |document: &mut Value| drop_event(document, "effect_intended");
    assert_eq!(refused("one_effect", drop), gap);
    let rehashed = refused("one_effect", |document| {
        drop(document);
        rechain(document);
    });
    assert_eq!(rehashed, gap);
    let renumbered = refused("one_effect", |document| {
        drop(document);
        renumber(document);
        rechain(document);
    });
    assert!(matches!(renumbered, VerifyError::NotItsEffect { n: 1, .. }), "{renumbered}");
}

#[test]
fn entries_swapped() {
    let swap = |document: &mut Value| document["chain"].as_array_mut().unwrap().swap(1, 2);
    let gap = VerifyError::Chain(ChainError::Gap { expected: 1, found: 2 });
    assert_eq!(refused("one_effect", swap), gap);
    let recomputed = refused("one_effect", |document| {
        swap(document);
        renumber(document);
        rechain(document);
    });
    assert_eq!(recomputed, VerifyError::AfterEnd { n: 2 });
}

#[test]
fn tail_truncated() {
    for name in NAMES {
        let cut = |document: &mut Value| drop(document["chain"].as_array_mut().unwrap().pop());
        let short = refused(name, cut);
        assert!(matches!(short, VerifyError::Chain(ChainError::Head { .. })), "{name}: {short}");
        let recomputed = refused(name, |document| {
            cut(document);
            rechain(document);
        });
        assert_eq!(recomputed, VerifyError::Run { what: "status" }, "{name}");
    }
    let bytes = bundle("one_effect");
    for length in 0..bytes.len() {
        assert!(verify(&bytes[..length], &key().public()).is_err(), "{length} bytes");
    }
}

#[test]
fn bundle_from_other_tenant() {
    let rename = |document: &mut Value| document["run"]["tenant"] = "other".into();
    assert_eq!(refused("one_effect", rename), VerifyError::Chain(ChainError::Altered { n: 0 }));
    let recomputed = refused("one_effect", |document| {
        rename(document);
        rechain(document);
    });
    assert_eq!(recomputed, VerifyError::Run { what: "id" });
    let with_its_own_run = refused("one_effect", |document| {
        rename(document);
        let reference = IdempotencyKey::new("cli:first").unwrap();
        document["run"]["run"] = json!(RunId::derive(&TenantId::new("other").unwrap(), &reference));
        rechain(document);
    });
    assert!(matches!(with_its_own_run, VerifyError::NotItsEffect { .. }), "{with_its_own_run}");
    let entry_of_another_run = refused("one_effect", |document| {
        document["chain"][1] = forge::document(&bundle("plain"))["chain"][1].clone();
    });
    assert_eq!(entry_of_another_run, VerifyError::Chain(ChainError::Altered { n: 1 }));
}

#[test]
fn two_heads_same_seq() {
    let fork = |document: &mut Value| {
        let mut other = json!({ "event": event(document, "step_succeeded"), "hash": domain::Digest::ZERO });
        other["event"]["at"] = 1.into();
        document["chain"].as_array_mut().unwrap().push(other);
    };
    let gap = VerifyError::Chain(ChainError::Gap { expected: 3, found: 2 });
    assert_eq!(refused("one_effect", fork), gap);
    let rehashed = refused("one_effect", |document| {
        fork(document);
        rechain(document);
    });
    assert_eq!(rehashed, gap);
    // Two different bundles of one run verify separately but contradict each other.
    let [one, two] = ["one_effect", "plain"].map(|name| verify(&bundle(name), &key().public()).unwrap());
    assert_eq!(one.agrees_with(&two), Err(Contradiction::TwoHeads));
    assert_eq!(one.agrees_with(&one), Ok(()));
}

#[test]
fn big_int_receipt() {
    let mut run = story("one_effect");
    let ReceiptState::Done { response, .. } = &mut run.receipts[0].state else { panic!("not done") };
    *response = json!({ "id": (1_u64 << 53) + 1 });
    let refused = build(&run.input(), &key());
    assert!(matches!(refused, Err(BuildError::Receipt { .. })), "{refused:?}");

    let text = String::from_utf8(json::canonical(&document(&bundle("one_effect")))).unwrap();
    let forged = text.replace("\"revision\":1", "\"revision\":9007199254740993");
    assert_ne!(forged, text);
    let error = verify(&signed(forged.as_bytes(), [42; 32]), &key().public()).unwrap_err();
    assert!(matches!(error, VerifyError::Payload(_)), "{error}");
}

#[test]
fn unsigned_checkpoint() {
    let note = |document: &Value| {
        let checkpoint = document["log"]["checkpoint"].as_str().unwrap();
        checkpoint.split_once("\n\n").unwrap().0.to_owned() + "\n"
    };
    let errors = [
        refused("plain", |document| document["log"]["checkpoint"] = note(document).into()),
        refused("plain", |document| document["log"]["checkpoint"] = "".into()),
        refused("plain", |document| {
            let note = note(document);
            let by_another = format!("{note}\n{}", signature_line(&note, [7; 32]));
            document["log"]["checkpoint"] = by_another.into();
        }),
        refused("plain", |document| document["log"]["root"] = json!(domain::Digest::ZERO)),
        refused("plain", |document| document["log"]["size"] = 4.into()),
    ];
    assert!(errors.iter().all(|error| *error == VerifyError::Checkpoint), "{errors:?}");
    let absent = refused("plain", |document| {
        document["log"].as_object_mut().unwrap().remove("checkpoint");
    });
    assert!(matches!(absent, VerifyError::Document { .. }), "{absent}");
    // A valid signature over a log that does not contain the run.
    let wrong_index = refused("plain", |document| {
        document["run"]["completed_at"] = 1.into();
        relog(document);
        document["run"]["completed_at"] = forge::document(&bundle("plain"))["run"]["completed_at"].clone();
    });
    assert_eq!(wrong_index, VerifyError::NotInLog { index: 0 });
}

#[test]
fn signature_by_wrong_key() {
    let mallory = SigningKey::from_seed([7; 32]);
    let honest = bundle("plain");
    let wrong_key = |signed: &SigningKey, given: &SigningKey| {
        Some(VerifyError::WrongKey { signed: signed.public().id(), given: given.public().id() })
    };
    assert_eq!(verify(&honest, &mallory.public()).err(), wrong_key(&key(), &mallory));
    let mallory_bundle = build(&story("plain").input(), &mallory).unwrap();
    assert_eq!(verify(&mallory_bundle, &key().public()).err(), wrong_key(&mallory, &key()));
    let disguised = signed(&json::canonical(&document(&honest)), [7; 32]);
    assert_eq!(verify(&disguised, &key().public()).err(), Some(VerifyError::Signature));
    // A bundle signed by another key verifies with that key only.
    assert!(verify(&mallory_bundle, &mallory.public()).is_ok());
}
