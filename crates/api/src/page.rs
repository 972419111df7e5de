//! Pages of a list, and cursors that nobody can make up or read.
//!
//! A cursor is what the store said, encrypted under a seal that covers whose list it is, which one, and what it was
//! filtered by. Brought to another list it is no cursor at all. What the store said may count the runs of every tenant,
//! so nothing of it shows, and hardly how long it is.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::TenantId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::error::Unspecified;
use sha2::Sha256;
use store::Cursor;

use crate::problem::Problem;
use api_types::LIMIT_MAX;

/// As many as fit on a screen or two.
const LIMIT_DEFAULT: u32 = 50;

/// What the store said is filled up to a multiple of so many bytes: the number of any row fits, and how large it is does
/// not show.
const BLOCK_BYTES: usize = 32;

/// Where what the store said ends and what fills it up begins.
const END: u8 = 0x80;

/// What the key is derived for.
const KEY: &str = "countersign/cursor/key/v2";

/// What nonces are derived for.
const NONCE: &str = "countersign/cursor/nonce/v2";

/// What cursors are sealed with. Servers behind one address share it; one that was not kept makes open lists start
/// again, and nothing worse.
#[derive(Clone)]
pub struct CursorSecret([u8; 32]);

impl CursorSecret {
    /// A secret of these bytes.
    pub fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// A secret that ends with this process.
    pub fn fresh() -> Result<Self, getrandom::Error> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes)?;
        Ok(Self(bytes))
    }
}

/// A list of one tenant, filtered in one way.
pub struct List<'a> {
    /// What its cursors are sealed with.
    pub secret: &'a CursorSecret,
    /// Whose it is.
    pub tenant: &'a TenantId,
    /// Which list.
    pub name: &'static str,
    /// What it is filtered by, in words that differ when the filter does.
    pub filter: String,
}

impl List<'_> {
    /// A cursor as it is handed out.
    pub fn seal(&self, cursor: &Cursor) -> String {
        // What cannot be sealed is no cursor, and is refused when it is brought.
        let sealed = self.sealed(filled_up(cursor.as_str())).unwrap_or_default();
        BASE64.encode(sealed)
    }

    /// The store's cursor in what was handed out for this very list.
    pub fn open(&self, text: &str) -> Result<Cursor, Problem> {
        self.opened(text).map(Cursor::new).ok_or_else(|| {
            Problem::bad_request("the cursor is not one that this list gave")
                .remedy("take `next` of the page before, with the same filters, or begin without a cursor")
        })
    }

    /// The nonce follows from what is sealed and where: what differs does not share one, and the same page has the same
    /// address.
    fn sealed(&self, mut bytes: Vec<u8>) -> Result<Vec<u8>, Unspecified> {
        let about = self.about();
        let drawn = self.secret.derive(NONCE, &[&about, &bytes]);
        let nonce = Nonce::try_assume_unique_for_key(&drawn[..NONCE_LEN])?;
        self.secret.key()?.seal_in_place_append_tag(nonce, Aad::from(&about), &mut bytes)?;
        Ok([&drawn[..NONCE_LEN], &bytes[..]].concat())
    }

    fn opened(&self, text: &str) -> Option<String> {
        let mut bytes = BASE64.decode(text).ok()?;
        let (nonce, sealed) = bytes.split_at_mut_checked(NONCE_LEN)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let key = self.secret.key().ok()?;
        let said = key.open_in_place(nonce, Aad::from(self.about()), sealed).ok()?;
        let end = said.iter().rposition(|byte| *byte == END)?;
        std::str::from_utf8(&said[..end]).ok().map(str::to_owned)
    }

    /// What the seal covers beside the cursor.
    fn about(&self) -> Vec<u8> {
        framed(&[self.tenant.as_str(), self.name, &self.filter].map(str::as_bytes))
    }
}

impl CursorSecret {
    /// The key that cursors are encrypted with.
    fn key(&self) -> Result<LessSafeKey, Unspecified> {
        UnboundKey::new(&CHACHA20_POLY1305, &self.derive(KEY, &[])).map(LessSafeKey::new)
    }

    /// What follows from the secret for this purpose and these parts, and from nothing else.
    fn derive(&self, purpose: &str, parts: &[&[u8]]) -> [u8; 32] {
        // A key that is shorter than a block is filled up with zeroes, as HMAC has it.
        let mut block = [0; 64];
        block[..self.0.len()].copy_from_slice(&self.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        mac.update(&framed(&[purpose.as_bytes()]));
        mac.update(&framed(parts));
        mac.finalize().into_bytes().into()
    }
}

/// The parts, each with its length, so that none can reach into the next.
fn framed(parts: &[&[u8]]) -> Vec<u8> {
    let frame = |part: &&[u8]| [&(part.len() as u64).to_be_bytes()[..], *part].concat();
    parts.iter().flat_map(frame).collect()
}

/// `text` with its end marked, and zeroes up to the end of a block.
fn filled_up(text: &str) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(END);
    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
    bytes
}

/// How many entries are wanted. It is read as text, so that a no says what may stand there.
pub(crate) fn limit(asked: Option<&str>) -> Result<u32, Problem> {
    let Some(text) = asked else { return Ok(LIMIT_DEFAULT) };
    let number = text.parse().ok().filter(|number| (1..=LIMIT_MAX).contains(number));
    number.ok_or_else(|| {
        Problem::bad_request(format!("`limit` is not a whole number from 1 to {LIMIT_MAX}"))
            .remedy("leave it out for 50 entries; `next` leads to the rest")
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
    fn a_cursor_leads_back_into_its_own_list_and_into_no_other() {
        let (secret, other) = (CursorSecret::new([1; 32]), CursorSecret::new([2; 32]));
        let (acme, umbrella) = ("acme".parse().unwrap(), "umbrella".parse().unwrap());
        let own = list(&secret, &acme, "runs", "queued");
        let sealed = own.seal(&Cursor::new("c"));
        assert_eq!(own.open(&sealed).unwrap(), Cursor::new("c"));
        for stranger in [
            list(&secret, &umbrella, "runs", "queued"),
            list(&secret, &acme, "approvals", "queued"),
            list(&secret, &acme, "runs", "running"),
            list(&other, &acme, "runs", "queued"),
        ] {
            assert_eq!(stranger.open(&sealed).unwrap_err().code, "BAD_REQUEST");
        }
    }

    #[test]
    fn a_cursor_that_was_changed_or_made_up_is_none() {
        let secret = CursorSecret::new([1; 32]);
        let acme = "acme".parse().unwrap();
        let own = list(&secret, &acme, "runs", "");
        let sealed = own.seal(&Cursor::new("cursor"));
        for at in 0..sealed.len() {
            let mut text = sealed.clone().into_bytes();
            text[at] = if text[at] == b'A' { b'B' } else { b'A' };
            assert!(own.open(&String::from_utf8(text).unwrap()).is_err(), "{at}");
        }
        for text in ["", "c", "!", "AAAA", &sealed[..10]] {
            assert!(own.open(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_cursor_shows_nothing_of_what_the_store_said_and_not_how_long_it_is() {
        let secret = CursorSecret::new([1; 32]);
        let acme = "acme".parse().unwrap();
        let own = list(&secret, &acme, "runs", "");
        let said = ["", "7", "1234567", "9223372036854775807", "\u{80}\0"];
        let sealed = said.map(|said| own.seal(&Cursor::new(said)));
        for (said, sealed) in said.iter().zip(&sealed) {
            let bytes = BASE64.decode(sealed).unwrap();
            let shows = |part: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(said.len() < 3 || !shows(said.as_bytes()), "{said:?} shows in {bytes:?}");
            assert_eq!(sealed.len(), own.seal(&Cursor::new("x")).len(), "{said:?}");
            assert_eq!(own.open(sealed).unwrap(), Cursor::new(*said));
            assert_eq!(*sealed, own.seal(&Cursor::new(*said)), "the same page has the same address");
        }
        let long = Cursor::new("a".repeat(1_000));
        assert_eq!(own.open(&own.seal(&long)).unwrap(), long);
    }

    #[test]
    fn a_page_has_a_size() {
        assert_eq!(limit(None).unwrap(), LIMIT_DEFAULT);
        assert_eq!(limit(Some("1")).unwrap(), 1);
        for text in ["-1", "0", "201", "4294967297", "1.5", "", "all", "+1 "] {
            assert!(limit(Some(text)).is_err(), "{text:?}");
        }
    }
}
