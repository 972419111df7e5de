//! What a message looks like on its way: JSON with a version and ids, and nothing else.
//!
//! No payload ever travels in a message, so none is too large and none holds what a queue's readers must not
//! see. What cannot be read is left where it is: it ends with the dead letters, where a person looks.

use domain::{Job, Millis, Outgoing, QueueName, RunKey};
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
    job: String,
}

/// What is sent of `message`.
pub(super) fn write(message: &Outgoing) -> Result<String, BadMessage> {
    let Outgoing { run, job, .. } = message;
    let (tenant, run) = (run.tenant.as_str().to_owned(), run.run.as_str().to_owned());
    let json = serde_json::to_string(&Body { v: VERSION, tenant, run, job: job.to_string() })?;
    match json.len() {
        fits if fits <= BODY_BYTES_MAX => Ok(json),
        bytes => Err(BadMessage::TooLarge(bytes)),
    }
}

/// The message that came by `queue`.
pub(super) fn read(queue: QueueName, json: &str) -> Result<Outgoing, BadMessage> {
    let Body { v, tenant, run, job } = serde_json::from_str(json)?;
    if v != VERSION {
        return Err(BadMessage::Version(v));
    }
    let run = RunKey {
        tenant: tenant.parse().map_err(|_| BadMessage::Names("tenant"))?,
        run: run.parse().map_err(|_| BadMessage::Names("run"))?,
    };
    let job: Job = job.parse().map_err(|_| BadMessage::Names("job"))?;
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
    fn a_message_reads_as_it_was_written() {
        for job in [Job::Advance, Job::BuildEvidence, Job::NotifyApproval(ApprovalId::new("a-1").unwrap())] {
            let message = message(job);
            assert_eq!(read(QueueName::Steps, &write(&message).unwrap()).unwrap(), message);
        }
        let words = write(&message(Job::Advance)).unwrap();
        assert_eq!(words, r#"{"v":1,"tenant":"acme","run":"run-1","job":"walk"}"#);
    }

    #[test]
    fn what_is_no_message_of_ours_is_refused() {
        for words in [
            "",
            "hello",
            "{}",
            r#"{"v":2,"tenant":"acme","run":"run-1","job":"walk"}"#,
            r#"{"v":1,"tenant":"a#b","run":"run-1","job":"walk"}"#,
            r#"{"v":1,"tenant":"acme","run":"","job":"walk"}"#,
            r#"{"v":1,"tenant":"acme","run":"run-1","job":"dance"}"#,
        ] {
            assert!(read(QueueName::Steps, words).is_err(), "{words}");
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
            assert!(format!("show:{name}").parse::<Job>().is_err());
        }
        assert!(write(&message(Job::BuildEvidence)).unwrap().chars().all(allowed));
    }
}
