//! Forgeries: a bundle decoded, changed and signed again by the holder of the key.
//!
//! The envelope, the chain and the checkpoint are implemented here a second time, so that the tests do not repeat a
//! mistake of the crate.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_evidence::{PAYLOAD_TYPE, VerifyError, build, verify};
use domain::merkle::{self, Frontier};
use domain::{Digest, Event, RunId, RunKey, TenantId, chain, json};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::stories::{ORIGIN, key, story};

pub(crate) fn bundle(name: &str) -> Vec<u8> {
    build(&story(name).input(), &key()).unwrap()
}

pub(crate) fn document(bytes: &[u8]) -> Value {
    let envelope: Value = serde_json::from_slice(bytes).unwrap();
    serde_json::from_slice(&BASE64.decode(envelope["payload"].as_str().unwrap()).unwrap()).unwrap()
}

/// The error for the bundle of the story `name` after `edit`, signed again with the right key. Without a new signature,
/// the error is an invalid signature.
pub(crate) fn refused(name: &str, edit: impl Fn(&mut Value)) -> VerifyError {
    let honest = bundle(name);
    let mut edited = document(&honest);
    edit(&mut edited);
    let mut envelope: Value = serde_json::from_slice(&honest).unwrap();
    envelope["payload"] = BASE64.encode(json::canonical(&edited)).into();
    assert_eq!(verify(&json::canonical(&envelope), &key().public()).err(), Some(VerifyError::Signature));
    verify(&signed(&json::canonical(&edited), [42; 32]), &key().public()).unwrap_err()
}

/// `payload` in an envelope that names the right key, signed with the key for `seed`.
pub(crate) fn signed(payload: &[u8], seed: [u8; 32]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    let signature = SigningKey::from_bytes(&seed).sign(&[head.as_bytes(), payload].concat());
    json::canonical(&json!({
        "payload": BASE64.encode(payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{ "keyid": key().public().id(), "sig": BASE64.encode(signature.to_bytes()) }],
    }))
}

/// The first event of this kind.
pub(crate) fn event<'a>(document: &'a mut Value, kind: &str) -> &'a mut Value {
    let entries = document["chain"].as_array_mut().unwrap().iter_mut();
    entries.map(|entry| &mut entry["event"]).find(|event| event["kind"] == kind).unwrap()
}

/// Removes the first event of this kind from the chain.
pub(crate) fn drop_event(document: &mut Value, kind: &str) {
    let entries = document["chain"].as_array_mut().unwrap();
    let index = entries.iter().position(|entry| entry["event"]["kind"] == kind).unwrap();
    entries.remove(index);
}

/// Renumbers the events and updates references to them.
pub(crate) fn renumber(document: &mut Value) {
    let entries = document["chain"].as_array_mut().unwrap();
    let old_numbers: Vec<_> = entries.iter().map(|entry| entry["event"]["n"].clone()).collect();
    for (n, entry) in entries.iter_mut().enumerate() {
        entry["event"]["n"] = n.into();
    }
    for outcome in document["outcomes"].as_array_mut().unwrap() {
        if let Some(n) = old_numbers.iter().position(|old| *old == outcome["event"]) {
            outcome["event"] = n.into();
        }
    }
}

/// Recomputes the hashes of the chain and the log entry.
pub(crate) fn rechain(document: &mut Value) {
    let run = RunKey {
        tenant: TenantId::new(document["run"]["tenant"].as_str().unwrap()).unwrap(),
        run: RunId::new(document["run"]["run"].as_str().unwrap()).unwrap(),
    };
    let mut head = Digest::ZERO;
    for entry in document["chain"].as_array_mut().unwrap() {
        let event: Event = serde_json::from_value(entry["event"].clone()).unwrap();
        head = chain::chain_event(&run, &head, event).hash;
        entry["hash"] = json!(head);
    }
    document["run"]["events"] = document["chain"].as_array().unwrap().len().into();
    document["run"]["head"] = json!(head);
    relog(document);
}

/// Replaces the log by one that contains only this run, with a checkpoint signed by the right key.
pub(crate) fn relog(document: &mut Value) {
    let run = &document["run"];
    let names = ["tenant", "run", "events", "head", "status", "completed_at"];
    let entry: serde_json::Map<_, _> =
        names.map(|name| (name.to_owned(), run[name].clone())).into_iter().collect();
    let position = Frontier::default().push(merkle::leaf(&json::canonical(&entry)));
    let note = format!("{ORIGIN}\n1\n{}\n", BASE64.encode(position.root.as_bytes()));
    document["log"] = serde_json::to_value(&position).unwrap();
    document["log"]["origin"] = ORIGIN.into();
    document["log"]["checkpoint"] = format!("{note}\n{}", signature_line(&note, [42; 32])).into();
}

/// The signature line of a note, for the key for `seed`.
pub(crate) fn signature_line(note: &str, seed: [u8; 32]) -> String {
    let key = SigningKey::from_bytes(&seed);
    let named = [ORIGIN.as_bytes(), b"\n\x01", key.verifying_key().as_bytes()].concat();
    let signature = [&Sha256::digest(named)[..4], &key.sign(note.as_bytes()).to_bytes()].concat();
    format!("\u{2014} {ORIGIN} {}\n", BASE64.encode(signature))
}
