//! The envelope: DSSE, written the one canonical way.
//!
//! A signature covers the payload's type and bytes. Everything around them — field order, white space, the
//! name of the key, the spelling of base64 — is covered by there being only one way to write it: whatever
//! does not read back to the very same bytes is refused. The payload is not looked into before its
//! signature has been verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{Digest, json};
use serde::{Deserialize, Serialize};

use crate::fault::Fault;
use crate::key::{PublicKey, SigningKey};

/// What the payload is.
pub const PAYLOAD_TYPE: &str = "application/vnd.countersign.bundle.v1+json";

/// A bundle of the longest run with the wordiest policy stays far below; beyond it nobody means a bundle.
pub const BYTES_MAX: usize = json::BYTES_MAX;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<Signed>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Signed {
    keyid: Digest,
    sig: String,
}

/// Signs `payload`.
pub(crate) fn seal(payload: &[u8], key: &SigningKey) -> Vec<u8> {
    let sig = BASE64.encode(key.sign(&signed_bytes(payload)));
    json::canonical(&Envelope {
        payload: BASE64.encode(payload),
        payload_type: PAYLOAD_TYPE.to_owned(),
        signatures: vec![Signed { keyid: key.public().id(), sig }],
    })
}

/// The payload of the envelope, if `key` signed it. What costs least is looked at first.
pub(crate) fn open(bytes: &[u8], key: &PublicKey) -> Result<Vec<u8>, Fault> {
    let envelope = read(bytes)?;
    let [signed] = envelope.signatures.as_slice() else {
        return Err(Fault::Signatures { found: envelope.signatures.len() });
    };
    if signed.keyid != key.id() {
        return Err(Fault::WrongKey { signed: signed.keyid, given: key.id() });
    }
    let signature: [u8; 64] = decode("signature", &signed.sig)?.try_into().map_err(|_| Fault::Signature)?;
    let payload = decode("payload", &envelope.payload)?;
    if key.verifies(&signed_bytes(&payload), &signature) { Ok(payload) } else { Err(Fault::Signature) }
}

fn read(bytes: &[u8]) -> Result<Envelope, Fault> {
    if bytes.len() > BYTES_MAX {
        return Err(Fault::TooLarge { bytes: bytes.len() });
    }
    let envelope: Envelope =
        serde_json::from_slice(bytes).map_err(|error| Fault::Envelope { why: error.to_string() })?;
    if json::canonical(&envelope) != bytes {
        return Err(Fault::NotCanonical { what: "envelope" });
    }
    if envelope.payload_type != PAYLOAD_TYPE {
        return Err(Fault::PayloadType { found: envelope.payload_type });
    }
    Ok(envelope)
}

/// Strict: padding where it belongs, and no bits to spare.
fn decode(what: &'static str, text: &str) -> Result<Vec<u8>, Fault> {
    BASE64.decode(text).map_err(|_| Fault::Base64 { what })
}

/// What is signed: DSSE's pre-authentication encoding.
fn signed_bytes(payload: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {PAYLOAD_TYPE} {} ", PAYLOAD_TYPE.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_seed([7; 32])
    }

    #[test]
    fn what_is_sealed_can_be_opened_with_the_right_key_alone() {
        let sealed = seal(b"payload", &key());
        assert_eq!(open(&sealed, &key().public()).unwrap(), b"payload");
        let other = SigningKey::from_seed([8; 32]).public();
        assert_eq!(
            open(&sealed, &other),
            Err(Fault::WrongKey { signed: key().public().id(), given: other.id() })
        );
    }

    #[test]
    fn the_signed_bytes_are_those_of_dsse() {
        let expected = format!("DSSEv1 {} {PAYLOAD_TYPE} 5 hello", PAYLOAD_TYPE.len());
        assert_eq!(signed_bytes(b"hello"), expected.as_bytes());
    }

    #[test]
    fn there_is_one_way_to_write_an_envelope() {
        // Seven bytes leave the last character of their base64 with bits to spare.
        let sealed = String::from_utf8(seal(b"payload", &key())).unwrap();
        let spellings = [
            format!("{sealed}\n"),
            format!(" {sealed}"),
            sealed.replace("\":\"", "\": \""),
            sealed.replace("payloadType", "payloadtype"),
            sealed.replace("==\",\"payloadType", "\",\"payloadType"),
            sealed.replace("ZA==", "ZB=="),
            sealed.replace("\"signatures\"", "\"extra\":1,\"signatures\""),
            sealed.replace("\"payload\"", "\"p\\u0061yload\""),
        ];
        for spelling in spellings {
            assert_ne!(spelling, sealed);
            assert!(open(spelling.as_bytes(), &key().public()).is_err(), "{spelling}");
        }
    }
}
