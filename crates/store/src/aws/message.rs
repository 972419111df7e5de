//! The body of an SQS message: JSON with a version and ids.
//!
//! A message never carries a payload, so no message is too large, and none holds data that readers of the queue
//! must not see. A message that cannot be decoded is not deleted, so it ends in the dead-letter queue, where an
//! operator can inspect it.

use domain::{Job, Millis, Outgoing, QueueName, RunKey};
use serde::{Deserialize, Serialize};

/// The current version of the format.
const VERSION: u32 = 1;

/// The SQS message limit before 2025, which some emulators still have.
pub(super) const BODY_BYTES_MAX: usize = 256 * 1024;

/// Why a message cannot be encoded or decoded.
#[derive(Debug, thiserror::Error)]
pub(super) enum MessageError {
    #[error("the message has {0} bytes, more than the limit of {BODY_BYTES_MAX}")]
    TooLarge(usize),
    #[error("unsupported message version {0}: deploy a newer worker")]
    Version(u32),
    #[error("the {0} of the message is missing or malformed")]
    Invalid(&'static str),
    #[error(transparent)]
    Json(#[from] serde_json::Error),
}

#[derive(Serialize, Deserialize)]
struct Body {
    v: u32,
    tenant: String,
    run: String,
    job: String,
}

/// Encodes the body of `message`.
pub(super) fn encode(message: &Outgoing) -> Result<String, MessageError> {
    let Outgoing { run, job, .. } = message;
    let (tenant, run) = (run.tenant.as_str().to_owned(), run.run.as_str().to_owned());
    let json = serde_json::to_string(&Body { v: VERSION, tenant, run, job: job.to_string() })?;
    match json.len() {
        fits if fits <= BODY_BYTES_MAX => Ok(json),
        bytes => Err(MessageError::TooLarge(bytes)),
    }
}

/// Decodes a message of `queue`.
pub(super) fn decode(queue: QueueName, json: &str) -> Result<Outgoing, MessageError> {
    let Body { v, tenant, run, job } = serde_json::from_str(json)?;
    if v != VERSION {
        return Err(MessageError::Version(v));
    }
    let run = RunKey {
        tenant: tenant.parse().map_err(|_| MessageError::Invalid("tenant"))?,
        run: run.parse().map_err(|_| MessageError::Invalid("run"))?,
    };
    let job: Job = job.parse().map_err(|_| MessageError::Invalid("job"))?;
    Ok(Outgoing { run, queue, job, delay: Millis(0) })
}

#[cfg(test)]
mod tests {
    use domain::{ApprovalId, RunId, TenantId};

    use super::*;

    fn message(job: Job) -> Outgoing {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        Outgoing { run, queue: QueueName::Steps, job, delay: Millis(0) }
    }

    #[test]
    fn messages_round_trip() {
        for job in [
            Job::Advance,
            Job::BuildEvidence,
            Job::NotifyApproval { approval: ApprovalId::new("a-1").unwrap(), revision: 2 },
            Job::PageOnCall { approval: ApprovalId::new("a-1").unwrap(), revision: 3 },
        ] {
            let message = message(job);
            assert_eq!(decode(QueueName::Steps, &encode(&message).unwrap()).unwrap(), message);
        }
        let json = encode(&message(Job::Advance)).unwrap();
        assert_eq!(json, r#"{"v":1,"tenant":"acme","run":"run-1","job":"advance"}"#);
    }

    #[test]
    fn malformed_messages_are_rejected() {
        for json in [
            "",
            "hello",
            "{}",
            r#"{"v":2,"tenant":"acme","run":"run-1","job":"advance"}"#,
            r#"{"v":1,"tenant":"a#b","run":"run-1","job":"advance"}"#,
            r#"{"v":1,"tenant":"acme","run":"","job":"advance"}"#,
            r#"{"v":1,"tenant":"acme","run":"run-1","job":"dance"}"#,
        ] {
            assert!(decode(QueueName::Steps, json).is_err(), "{json}");
        }
    }

    /// SQS rejects characters that XML 1.0 does not allow. JSON escapes control characters, and ids contain none.
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
            assert!(format!("notify_approval:{name}").parse::<Job>().is_err());
        }
        assert!(encode(&message(Job::BuildEvidence)).unwrap().chars().all(allowed));
    }
}
