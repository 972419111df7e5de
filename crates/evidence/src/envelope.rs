//! The DSSE envelope, in canonical form.
//!
//! The signature covers the payload's type and bytes. Everything else (field order, white space, key id, base64 padding)
//! is fixed by the canonical form: a file that does not re-encode to the same bytes is refused. The payload is not parsed
//! before its signature is verified.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use domain::{Digest, json};
use serde::{Deserialize, Serialize};

use crate::error::VerifyError;
use crate::key::{PublicKey, SigningKey};

pub const PAYLOAD_TYPE: &str = "application/vnd.countersign.bundle.v1+json";

/// Far larger than the bundle of the longest run with the longest policy messages.
pub const BYTES_MAX: usize = json::BYTES_MAX;

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct Envelope {
    payload: String,
    payload_type: String,
    signatures: Vec<EnvelopeSignature>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct EnvelopeSignature {
    keyid: Digest,
    sig: String,
}

/// A kind of signed file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PayloadKind {
    pub(crate) payload_type: &'static str,
    /// The maximum size of the file.
    pub(crate) bytes_max: usize,
}

/// An evidence bundle.
pub(crate) const BUNDLE: PayloadKind = PayloadKind { payload_type: PAYLOAD_TYPE, bytes_max: BYTES_MAX };

/// Signs `payload`.
pub(crate) fn sign(kind: PayloadKind, payload: &[u8], key: &SigningKey) -> Vec<u8> {
    let sig = BASE64.encode(key.sign(&signed_bytes(kind, payload)));
    json::canonical(&Envelope {
        payload: BASE64.encode(payload),
        payload_type: kind.payload_type.to_owned(),
        signatures: vec![EnvelopeSignature { keyid: key.public().id(), sig }],
    })
}

/// The payload of the envelope, if `key` signed it. Cheap checks come first.
pub(crate) fn open(kind: PayloadKind, bytes: &[u8], key: &PublicKey) -> Result<Vec<u8>, VerifyError> {
    let envelope = parse_envelope(kind, bytes)?;
    let [signed] = envelope.signatures.as_slice() else {
        return Err(VerifyError::Signatures { found: envelope.signatures.len() });
    };
    if signed.keyid != key.id() {
        return Err(VerifyError::WrongKey { signed: signed.keyid, given: key.id() });
    }
    let signature: [u8; 64] =
        decode_base64("signature", &signed.sig)?.try_into().map_err(|_| VerifyError::Signature)?;
    let payload = decode_base64("payload", &envelope.payload)?;
    if key.verifies(&signed_bytes(kind, &payload), &signature) {
        Ok(payload)
    } else {
        Err(VerifyError::Signature)
    }
}

/// The key that the envelope names. The signature is not verified.
pub(crate) fn signer_id(bytes: &[u8]) -> Option<Digest> {
    let envelope: Envelope = serde_json::from_slice(bytes).ok()?;
    match envelope.signatures.as_slice() {
        [signed] => Some(signed.keyid),
        _ => None,
    }
}

/// The payload of the envelope. The signature is not verified.
pub(crate) fn unverified_payload(bytes: &[u8]) -> Result<Vec<u8>, VerifyError> {
    decode_base64("payload", &parse_envelope(BUNDLE, bytes)?.payload)
}

fn parse_envelope(kind: PayloadKind, bytes: &[u8]) -> Result<Envelope, VerifyError> {
    let PayloadKind { payload_type: expected, bytes_max } = kind;
    if bytes.len() > bytes_max {
        return Err(VerifyError::TooLarge { bytes: bytes.len(), bytes_max });
    }
    let envelope: Envelope =
        serde_json::from_slice(bytes).map_err(|error| VerifyError::Envelope { why: error.to_string() })?;
    if json::canonical(&envelope) != bytes {
        return Err(VerifyError::NotCanonical { what: "envelope" });
    }
    if envelope.payload_type != expected {
        return Err(VerifyError::PayloadType { found: envelope.payload_type, expected });
    }
    Ok(envelope)
}

/// Strict: requires padding and rejects non-zero trailing bits.
fn decode_base64(what: &'static str, text: &str) -> Result<Vec<u8>, VerifyError> {
    BASE64.decode(text).map_err(|_| VerifyError::Base64 { what })
}

/// The signed bytes: DSSE's pre-authentication encoding.
fn signed_bytes(kind: PayloadKind, payload: &[u8]) -> Vec<u8> {
    let name = kind.payload_type;
    let head = format!("DSSEv1 {} {name} {} ", name.len(), payload.len());
    [head.as_bytes(), payload].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> SigningKey {
        SigningKey::from_seed([7; 32])
    }

    #[test]
    fn envelope_opens_only_with_the_right_key() {
        let signed = sign(BUNDLE, b"payload", &key());
        assert_eq!(open(BUNDLE, &signed, &key().public()).unwrap(), b"payload");
        let other = SigningKey::from_seed([8; 32]).public();
        assert_eq!(
            open(BUNDLE, &signed, &other),
            Err(VerifyError::WrongKey { signed: key().public().id(), given: other.id() })
        );
    }

    #[test]
    fn file_of_another_kind_is_refused() {
        let other = PayloadKind { payload_type: "application/other", bytes_max: 1_000 };
        let signed = sign(other, b"payload", &key());
        let (found, expected) = ("application/other".to_owned(), PAYLOAD_TYPE);
        assert_eq!(open(BUNDLE, &signed, &key().public()), Err(VerifyError::PayloadType { found, expected }));
        // The signature covers the kind.
        let renamed = String::from_utf8(signed).unwrap().replace("application/other", PAYLOAD_TYPE);
        assert_eq!(open(BUNDLE, renamed.as_bytes(), &key().public()), Err(VerifyError::Signature));
    }

    #[test]
    fn signed_bytes_follow_dsse() {
        let expected = format!("DSSEv1 {} {PAYLOAD_TYPE} 5 hello", PAYLOAD_TYPE.len());
        assert_eq!(signed_bytes(BUNDLE, b"hello"), expected.as_bytes());
    }

    #[test]
    fn envelope_has_one_encoding() {
        // Seven bytes leave unused bits in the last base64 character.
        let signed = String::from_utf8(sign(BUNDLE, b"payload", &key())).unwrap();
        let encodings = [
            format!("{signed}\n"),
            format!(" {signed}"),
            signed.replace("\":\"", "\": \""),
            signed.replace("payloadType", "payloadtype"),
            signed.replace("==\",\"payloadType", "\",\"payloadType"),
            signed.replace("ZA==", "ZB=="),
            signed.replace("\"signatures\"", "\"extra\":1,\"signatures\""),
            signed.replace("\"payload\"", "\"p\\u0061yload\""),
        ];
        for encoding in encodings {
            assert_ne!(encoding, signed);
            assert!(open(BUNDLE, encoding.as_bytes(), &key().public()).is_err(), "{encoding}");
        }
    }
}
