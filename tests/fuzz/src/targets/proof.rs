//! What a verifier reads: bundles, their envelopes and checkpoints.

use std::sync::LazyLock;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::json;
use ed25519_dalek::{Signer as _, SigningKey};
use evidence::{PAYLOAD_TYPE, claimed_run, html, verify};
use serde_json::{Value, json};

use super::{Execute, FuzzTarget, ensure};

/// A run with a decision, an effect of its own and an ordinary end.
const WORKFLOW: &str = "workflow: ask\nversion: 1\n\
                        steps:\n  - { id: ask, tool: approval.gate, with: { message: 'restart?' } }\n";

/// The bundle of a finished run.
static HONEST: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let env = testkit::engine().signed().env();
        let (run, _) = env.run(WORKFLOW, "k").await;
        env.approve(&run, "ben").await.unwrap();
        env.advance(&run).await;
        env.engine.operations().build_evidence(&run).await.unwrap();
        env.engine.operations().evidence(&run).await.unwrap().1
    })
});

/// The payload of [`HONEST`].
static PAYLOAD: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let envelope: Value = serde_json::from_slice(&HONEST).unwrap();
    BASE64.decode(envelope["payload"].as_str().unwrap()).unwrap()
});

/// `payload` in an envelope, signed with the key of the tests.
fn signed(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    let signature = SigningKey::from_bytes(&[7; 32]).sign(&[head.as_bytes(), payload].concat());
    json::canonical(&json!({
        "payload": BASE64.encode(payload),
        "payloadType": PAYLOAD_TYPE,
        "signatures": [{ "keyid": testkit::signing_key().public().id(), "sig": BASE64.encode(signature.to_bytes()) }],
    }))
}

/// The result of verification, which is the same each time.
fn verified(bytes: &[u8]) -> Result<Result<(), String>, String> {
    let key = testkit::signing_key().public();
    let first = verify(bytes, &key);
    ensure(verify(bytes, &key) == first, "a second verification differs")?;
    if let Ok(verified) = &first {
        ensure(
            !html(verified).is_empty() && !verified.summary().is_empty(),
            "a verified bundle has no report",
        )?;
        ensure(claimed_run(bytes).is_ok(), "a verified bundle names no run")?;
    }
    Ok(first.map(drop).map_err(|error| error.to_string()))
}

pub(super) const BUNDLE: FuzzTarget = FuzzTarget {
    name: "bundle",
    corpus: || vec![PAYLOAD.clone()],
    words: &[
        "\"chain\":[",
        "\"events\":",
        "\"run\":{",
        "\"approvals\":[",
        "\"receipts\":[",
        "\"costs\":",
        "\"log\":{",
        "\"index\":",
        "\"size\":",
        "\"path\":[",
        "\"root\":",
        "\"kind\":",
        "\"at\":",
        "\"status\":\"completed\"",
        "null",
        "[]",
        "{}",
        "-1",
    ],
    open: || {
        Box::new(|payload| {
            // The payload is signed, so that every check after the signature is reached.
            let bytes = signed(payload);
            let result = verified(&bytes)?;
            ensure(payload != *PAYLOAD || result.is_ok(), "the honest bundle is refused")?;
            if result.is_ok() {
                let document: Value = serde_json::from_slice(payload).map_err(|error| error.to_string())?;
                ensure(json::canonical(&document) == payload, "an accepted payload is not canonical")?;
            }
            Ok(result.err().unwrap_or_default())
        })
    },
    executions: 3_000,
};

pub(super) const ENVELOPE: FuzzTarget = FuzzTarget {
    name: "envelope",
    corpus: || vec![HONEST.clone(), signed(b"{}"), signed(b"")],
    words: &[
        "\"payload\":\"",
        "\"payloadType\":\"",
        "\"signatures\":[",
        "\"keyid\":\"",
        "\"sig\":\"",
        "=",
        "==",
        "\",\"",
        "},{",
        " ",
        "\\u0061",
        "application/vnd.countersign.bundle.v2+json",
    ],
    open: || {
        Box::new(|bytes| {
            let result = verified(bytes)?;
            ensure(result.is_err() || bytes == *HONEST, "a changed bundle is accepted")?;
            drop(claimed_run(bytes));
            Ok(result.err().unwrap_or_default())
        })
    },
    executions: 20_000,
};

pub(super) const CHECKPOINT: FuzzTarget = FuzzTarget {
    name: "checkpoint",
    corpus: || vec![checkpoint().into_bytes()],
    words: &["\n", "\n\n", "\u{2014} ", "=", "==", " ", "0", "+", "log.example/acme"],
    open: checkpoints,
    executions: 800,
};

/// The checkpoint of [`HONEST`].
fn checkpoint() -> String {
    let document: Value = serde_json::from_slice(&PAYLOAD).unwrap();
    document["log"]["checkpoint"].as_str().unwrap().to_owned()
}

/// Only the signed note of the log is accepted, byte for byte.
fn checkpoints() -> Execute {
    let honest = checkpoint();
    Box::new(move |input| {
        let note = String::from_utf8_lossy(input);
        let mut document: Value = serde_json::from_slice(&PAYLOAD).map_err(|error| error.to_string())?;
        document["log"]["checkpoint"] = note.as_ref().into();
        let result = verified(&signed(&json::canonical(&document)))?;
        ensure(result.is_ok() == (note == honest.as_str()), "another note is accepted, or this one is not")?;
        Ok(result.err().unwrap_or_default())
    })
}
