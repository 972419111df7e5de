//! Pages of a list, and encrypted cursors.
//!
//! A cursor is the cursor of the store, encrypted and bound to the tenant, the list and its filters. It is rejected for
//! another list. The store's cursor can reveal the number of runs of all tenants, so its content and, up to a block,
//! its length are hidden.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::TenantId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use sha2::Sha256;
use store::Cursor;

use crate::problem::ApiError;
use api_types::LIMIT_MAX;

/// About two screens.
const LIMIT_DEFAULT: u32 = 50;

/// Cursors are padded to a multiple of this, which hides the length of a row number.
const BLOCK_BYTES: usize = 32;

/// The byte between the cursor and its padding.
const END: u8 = 0x80;

/// The purpose of the derived key.
const KEY: &str = "countersign/cursor/key/v2";

/// The purpose of derived nonces.
const NONCE: &str = "countersign/cursor/nonce/v2";

/// The secret for cursors. Servers behind one address share it. With a new secret, clients must restart their lists.
#[derive(Clone)]
pub struct CursorSecret([u8; 32]);

impl CursorSecret {
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A random secret for this process.
    pub fn fresh() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

/// A list of one tenant with its filters.
pub struct List<'a> {
    pub secret: &'a CursorSecret,
    pub tenant: &'a TenantId,
    pub name: &'static str,
    /// A text that differs for different filters.
    pub filter: String,
}

impl List<'_> {
    /// Encrypts a cursor of the store.
    pub fn encode_cursor(&self, cursor: &Cursor) -> String {
        // An empty cursor is rejected by the next request.
        let encrypted = self.encrypt(padded(cursor.as_str())).unwrap_or_default();
        BASE64.encode(encrypted)
    }

    /// Decrypts a cursor of this list.
    pub fn open(&self, text: &str) -> Result<Cursor, ApiError> {
        self.decrypt(text).map(Cursor::new).ok_or_else(|| {
            ApiError::bad_request("the cursor does not belong to this list")
                .remedy("send `next` of the previous page with the same filters, or start without a cursor")
        })
    }

    /// The nonce is derived from the plaintext and the list: different cursors have different nonces, and the same page
    /// has the same cursor.
    fn encrypt(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Unspecified> {
        let associated_data = self.associated_data();
        let nonce_bytes = self.secret.derive(NONCE, &[&associated_data, &bytes]);
        let nonce = Nonce::try_assume_unique_for_key(&nonce_bytes[..NONCE_LEN])?;
        self.secret.key()?.seal_in_place_append_tag(nonce, Aad::from(&associated_data), &mut bytes)?;
        Ok([&nonce_bytes[..NONCE_LEN], &bytes[..]].concat())
    }

    fn decrypt(&self, text: &str) -> Option<String> {
        let mut bytes = BASE64.decode(text).ok()?;
        let (nonce, encrypted) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let key = self.secret.key().ok()?;
        let plain = key.open_in_place(nonce, Aad::from(self.associated_data()), encrypted).ok()?;
        let end = plain.iter().rposition(|byte| *byte == END)?;
        std::str::from_utf8(&plain[..end]).ok().map(str::to_owned)
    }

    /// The associated data: tenant, list and filters.
    fn associated_data(&self) -> Vec<u8> {
        length_prefixed(&[self.tenant.as_str(), self.name, &self.filter].map(str::as_bytes))
    }
}

impl CursorSecret {
    fn key(&self) -> Result<LessSafeKey, Unspecified> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.derive(KEY, &[])).map(LessSafeKey::new)
    }

    /// Derives bytes from the secret, the purpose and the parts.
    fn derive(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        // HMAC pads a key that is shorter than a block with zeros.
        let mut block = [0; 64];
        block[..self.0.len()].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(&length_prefixed(&[purpose.as_bytes()]));
        mac.update(&length_prefixed(parts));
        mac.finalize().into_bytes().into()
    }
}

/// The parts with their lengths, so that different parts have different bytes.
fn length_prefixed(parts: &[&[u8]]) -> Vec<u8> {
    let frame = |part: &&[u8]| [&(part.len() as u64).to_be_bytes()[..], *part].concat();
    parts.iter().flat_map(frame).collect()
}

/// `text` with an end mark, padded with zeros to a whole block.
fn padded(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(END);
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

/// Parses the page size. It arrives as text, so that the error can name the allowed range.
pub(crate) fn limit(text: Option<&str>) -> Result<u32, ApiError> {
    let Some(text) = text else { return Ok(LIMIT_DEFAULT) };
    let number = text.parse().ok().filter(|number| (1..=LIMIT_MAX).contains(number));
    number.ok_or_else(|| {
        ApiError::bad_request(format!("`limit` is not a whole number from 1 to {LIMIT_MAX}"))
            .remedy("omit it for 50 entries, and read further pages with `next`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list<'a>(
        secret: &'a CursorSecret,
        tenant: &'a TenantId,
        name: &'static str,
        filter: &str,
    ) -> List<'a> {
        List { secret, tenant, name, filter: filter.to_owned() }
    }

    #[test]
    fn cursor_is_valid_for_its_own_list_only() {
        let (secret, other) = (CursorSecret::new([1; 32]), CursorSecret::new([2; 32]));
        let (acme, umbrella) = ("acme".parse().unwrap(), "umbrella".parse().unwrap());
        let own = list(&secret, &acme, "runs", "queued");
        let encrypted = own.encode_cursor(&Cursor::new("c"));
        assert_eq!(own.open(&encrypted).unwrap(), Cursor::new("c"));
        for stranger in [
            list(&secret, &umbrella, "runs", "queued"),
            list(&secret, &acme, "approvals", "queued"),
            list(&secret, &acme, "runs", "running"),
            list(&other, &acme, "runs", "queued"),
        ] {
            assert_eq!(stranger.open(&encrypted).unwrap_err().code, "BAD_REQUEST");
        }
    }

    #[test]
    fn altered_or_invented_cursor_is_rejected() {
        let secret = CursorSecret::new([1; 32]);
        let acme = "acme".parse().unwrap();
        let own = list(&secret, &acme, "runs", "");
        let encrypted = own.encode_cursor(&Cursor::new("cursor"));
        for at in 0..encrypted.len() {
            let mut text = encrypted.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            assert!(own.open(&String::from_utf8(text).unwrap()).is_err(), "{at}");
        }
        for text in ["", "c", "!", "AAAA", &encrypted[..10]] {
            assert!(own.open(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn cursor_hides_content_and_length() {
        let secret = CursorSecret::new([1; 32]);
        let acme = "acme".parse().unwrap();
        let own = list(&secret, &acme, "runs", "");
        let plain = ["", "7", "1234567", "9223372036854775807", "\u{80}\0"];
        let encrypted = plain.map(|plain| own.encode_cursor(&Cursor::new(plain)));
        for (plain, encrypted) in plain.iter().zip(&encrypted) {
            let bytes = BASE64.decode(encrypted).unwrap();
            let shows = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(plain.len() < 3 || !shows(plain.as_bytes()), "{plain:?} shows in {bytes:?}");
            assert_eq!(encrypted.len(), own.encode_cursor(&Cursor::new("x")).len(), "{plain:?}");
            assert_eq!(own.open(encrypted).unwrap(), Cursor::new(*plain));
            assert_eq!(
                *encrypted,
                own.encode_cursor(&Cursor::new(*plain)),
                "the same page has the same cursor"
            );
        }
        let long = Cursor::new("a".repeat(1_000));
        assert_eq!(own.open(&own.encode_cursor(&long)).unwrap(), long);
    }

    #[test]
    fn limit_is_bounded() {
        assert_eq!(limit(None).unwrap(), LIMIT_DEFAULT);
        assert_eq!(limit(Some("1")).unwrap(), 1);
        for text in ["-1", "0", "201", "4294967297", "1.5", "", "all", "+1 "] {
            assert!(limit(Some(text)).is_err(), "{text:?}");
        }
    }
}
