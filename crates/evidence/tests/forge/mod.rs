//! Forgeries: a bundle taken apart, changed and put together again by somebody who holds the key.
//!
//! The envelope, the chain and the checkpoint are written here a second time, from their descriptions, so
//! that a mistake in the crate is not repeated by its tests.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use countersign_evidence::{Fault, PAYLOAD_TYPE, build, verify};
use domain::merkle::{self, Frontier};
use domain::{Digest, Event, RunId, RunKey, TenantId, chain, json};
use ed25519_dalek::{Signer as _, SigningKey};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::stories::{ORIGIN, key, tell};

/// The bundle of the story called `name`.
pub(crate) fn bundle(name: &str) -> Vec<u8> {
    build(&tell(name).material(), &key()).unwrap()
}

/// The document in a bundle.
pub(crate) fn document(bytes: &[u8]) -> Value {
    let envelope: Value = serde_json::from_slice(bytes).unwrap();
    serde_json::from_slice(&BASE64.decode(envelope["payload"].as_str().unwrap()).unwrap()).unwrap()
}

/// Why the bundle of the story called `name` is refused after `edit`, although it was signed again with the
/// right key. The same edit without a new signature is refused for the old one.
pub(crate) fn refused(name: &str, edit: impl Fn(&mut Value)) -> Fault {
    let honest = bundle(name);
    let mut edited = document(&honest);
    edit(&mut edited);
    let mut envelope: Value = serde_json::from_slice(&honest).unwrap();
    envelope["payload"] = BASE64.encode(json::canonical(&edited)).into();
    assert_eq!(verify(&json::canonical(&envelope), &key().public()).err(), Some(Fault::Signature));
    verify(&signed(&json::canonical(&edited), [42; 32]), &key().public()).unwrap_err()
}

/// `payload` in an envelope that names the right key, signed with the key that grows from `seed`.
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

/// Takes the first event of this kind out of the chain.
pub(crate) fn drop_event(document: &mut Value, kind: &str) {
    let entries = document["chain"].as_array_mut().unwrap();
    let index = entries.iter().position(|entry| entry["event"]["kind"] == kind).unwrap();
    entries.remove(index);
}

/// Numbers the events anew, and moves what points at them.
pub(crate) fn renumber(document: &mut Value) {
    let entries = document["chain"].as_array_mut().unwrap();
    let olds: Vec<_> = entries.iter().map(|entry| entry["event"]["n"].clone()).collect();
    for (n, entry) in entries.iter_mut().enumerate() {
        entry["event"]["n"] = n.into();
    }
    for outcome in document["outcomes"].as_array_mut().unwrap() {
        if let Some(n) = olds.iter().position(|old| *old == outcome["event"]) {
            outcome["event"] = n.into();
        }
    }
}

/// Computes every hash of the chain anew, and has the log tell the new head.
pub(crate) fn rechain(document: &mut Value) {
    let run = RunKey {
        tenant: TenantId::new(document["run"]["tenant"].as_str().unwrap()).unwrap(),
        run: RunId::new(document["run"]["run"].as_str().unwrap()).unwrap(),
    };
    let mut head = Digest::ZERO;
    for entry in document["chain"].as_array_mut().unwrap() {
        let event: Event = serde_json::from_value(entry["event"].clone()).unwrap();
        head = chain::seal(&run, &head, event).hash;
        entry["hash"] = json!(head);
    }
    document["run"]["events"] = document["chain"].as_array().unwrap().len().into();
    document["run"]["head"] = json!(head);
    relog(document);
}

/// A log of its own for the run as it is now called, with a checkpoint signed by the right key.
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

/// The line under a note that names its signer, for the key that grows from `seed`.
pub(crate) fn signature_line(note: &str, seed: [u8; 32]) -> String {
    let key = SigningKey::from_bytes(&seed);
    let named = [ORIGIN.as_bytes(), b"\n\x01", key.verifying_key().as_bytes()].concat();
    let signature = [&Sha256::digest(named)[..4], &key.sign(note.as_bytes()).to_bytes()].concat();
    format!("\u{2014} {ORIGIN} {}\n", BASE64.encode(signature))
}
