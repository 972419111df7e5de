//! What a message looks like on its way: JSON with a version and ids, and nothing else.
//!
//! No payload ever travels in a message, so none is too large and none holds what a queue's readers must not
//! see. What cannot be read is left where it is: it ends with the dead letters, where a person looks.

use domain::{Errand, Lane, Millis, Outgoing, RunKey};
use serde::{Deserialize, Serialize};

/// The only version there is.
const VERSION: u32 = 1;

/// What SQS took in one message before 2025, and some stand-ins still do.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

/// A message that cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub(super) enum BadMessage {
    #[error("a message of {0} bytes is more than the {BODY_BYTES_MAX} that a queue takes")]
    TooLarge(usize),
    #[error("version {0} of a message is not known here")]
    Version(u32),
    #[error("a message names no {0}")]
    Names(&'static str),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Body {
    v: u32,
    tenant: String,
    run: String,
    errand: String,
}

/// What is sent of `message`.
pub(super) fn write(message: &Outgoing) -> Result<String, BadMessage> {
    let Outgoing { run, errand, .. } = message;
    let (tenant, run) = (run.tenant.as_str().to_owned(), run.run.as_str().to_owned());
    let json = serde_json::to_string(&Body { v: VERSION, tenant, run, errand: errand.to_string() })?;
    match json.len() {
        fits if fits <= BODY_BYTES_MAX => Ok(json),
        bytes => Err(BadMessage::TooLarge(bytes)),
    }
}

/// The message that came by `lane`.
pub(super) fn read(lane: Lane, json: &str) -> Result<Outgoing, BadMessage> {
    let Body { v, tenant, run, errand } = serde_json::from_str(json)?;
    if v != VERSION {
        return Err(BadMessage::Version(v));
    }
    let run = RunKey {
        tenant: tenant.parse().map_err(|_| BadMessage::Names("tenant"))?,
        run: run.parse().map_err(|_| BadMessage::Names("run"))?,
    };
    let errand: Errand = errand.parse().map_err(|_| BadMessage::Names("errand"))?;
    Ok(Outgoing { run, lane, errand, delay: Millis(0) })
}

#[cfg(test)]
mod tests {
    use domain::{ApprovalId, RunId, TenantId};

    use super::*;

    fn message(errand: Errand) -> Outgoing {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        Outgoing { run, lane: Lane::Steps, errand, delay: Millis(0) }
    }

    #[test]
    fn a_message_reads_as_it_was_written() {
        for errand in [Errand::Walk, Errand::Seal, Errand::Show(ApprovalId::new("a-1").unwrap())] {
            let message = message(errand);
            assert_eq!(read(Lane::Steps, &write(&message).unwrap()).unwrap(), message);
        }
        let words = write(&message(Errand::Walk)).unwrap();
        assert_eq!(words, r#"{"v":1,"tenant":"acme","run":"run-1","errand":"walk"}"#);
    }

    #[test]
    fn what_is_no_message_of_ours_is_refused() {
        for words in [
            "",
            "hello",
            "{}",
            r#"{"v":2,"tenant":"acme","run":"run-1","errand":"walk"}"#,
            r#"{"v":1,"tenant":"a#b","run":"run-1","errand":"walk"}"#,
            r#"{"v":1,"tenant":"acme","run":"","errand":"walk"}"#,
            r#"{"v":1,"tenant":"acme","run":"run-1","errand":"dance"}"#,
        ] {
            assert!(read(Lane::Steps, words).is_err(), "{words}");
        }
    }

    /// SQS refuses a message with a character that XML does not know. JSON escapes all of them below the
    /// space, and ids hold none, so that not even a stranger's text could bring one in.
    #[test]
    fn sqs_forbidden_control_char() {
        let allowed =
            |c: char| matches!(c, '\t' | '\n' | '\r') || (c >= ' ' && !matches!(c, '\u{fffe}' | '\u{ffff}'));
        let text = (0..=0x1f_u8).map(char::from).collect::<String>();
        let json = serde_json::to_string(&text).unwrap();
        assert!(json.chars().all(allowed), "{json}");
        for c in (0..=0x1f_u8).map(char::from).chain(['\u{fffe}', '\u{ffff}']) {
            let name = format!("a{c}b");
            assert!(TenantId::new(&name).is_err() && RunId::new(&name).is_err());
            assert!(format!("show:{name}").parse::<Errand>().is_err());
        }
        assert!(write(&message(Errand::Seal)).unwrap().chars().all(allowed));
    }
}
