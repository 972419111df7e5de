//! Pages of a list, and cursors that nobody can make up.
//!
//! A cursor is what the store said, under a seal that covers whose list it is, which one, and what it was
//! filtered by. Brought to another list it is no cursor at all.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use domain::TenantId;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use store::Cursor;

use crate::problem::Problem;

/// As many as fit on a screen or two.
const LIMIT_DEFAULT: u32 = 50;

/// A page is read in one go; more than this many keep others waiting.
pub const LIMIT_MAX: u32 = 200;

/// Bytes of a seal.
const SEAL_BYTES: usize = 32;

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
pub(crate) struct List<'a> {
    pub(crate) secret: &'a CursorSecret,
    pub(crate) tenant: &'a TenantId,
    /// Which list.
    pub(crate) name: &'static str,
    /// What it is filtered by, in words that differ when the filter does.
    pub(crate) filter: String,
}

impl List<'_> {
    /// A cursor as it is handed out.
    pub(crate) fn seal(&self, cursor: &Cursor) -> String {
        let mut bytes = self.mac(cursor.as_str()).finalize().into_bytes().to_vec();
        bytes.extend_from_slice(cursor.as_str().as_bytes());
        BASE64.encode(bytes)
    }

    /// The store's cursor in what was handed out for this very list.
    pub(crate) fn open(&self, text: &str) -> Result<Cursor, Problem> {
        let unknown = || {
            Problem::bad_request("the cursor is not one that this list gave")
                .remedy("take `next` of the page before, with the same filters, or begin without a cursor")
        };
        let bytes = BASE64.decode(text).map_err(|_| unknown())?;
        let (seal, cursor) = bytes.split_at_checked(SEAL_BYTES).ok_or_else(unknown)?;
        let cursor = std::str::from_utf8(cursor).map_err(|_| unknown())?;
        self.mac(cursor).verify_slice(seal).map_err(|_| unknown())?;
        Ok(Cursor::new(cursor))
    }

    fn mac(&self, cursor: &str) -> Hmac<Sha256> {
        // A key that is shorter than a block is filled up with zeroes, as HMAC has it.
        let mut block = [0; 64];
        block[..self.secret.0.len()].copy_from_slice(&self.secret.0);
        let mut mac = Hmac::<Sha256>::new(&block.into());
        for part in ["countersign/cursor/v1", self.tenant.as_str(), self.name, &self.filter, cursor] {
            // Each part with its length, so that none can reach into the next.
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac
    }
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
    fn a_page_has_a_size() {
        assert_eq!(limit(None).unwrap(), LIMIT_DEFAULT);
        assert_eq!(limit(Some("1")).unwrap(), 1);
        for text in ["-1", "0", "201", "4294967297", "1.5", "", "all", "+1 "] {
            assert!(limit(Some(text)).is_err(), "{text:?}");
        }
    }
}
