//! Maps an exchange to a tool outcome.
//!
//! *Terminal* and *did not happen* guarantee that nothing changed in the external system, so they are used only where
//! the protocol guarantees that. Everything else may have happened. For a request without an effect only the question
//! whether to retry is left.

use domain::command::EffectOutcome::{self, DidNotHappen, MayHaveHappened};
use domain::{EffectClass, Failure};

use crate::tool::ToolOutcome;

use super::exchange::{Exchange, REPLY_BYTES_MAX};
use super::reply::{Body, Reply};
use super::retry_after::retry_after;

pub(crate) const BLOCKED: &str = "HTTP_BLOCKED";
pub(crate) const UNREACHABLE: &str = "HTTP_UNREACHABLE";
/// The request may have been sent, and no complete reply arrived.
pub(crate) const NO_REPLY: &str = "HTTP_NO_REPLY";
pub(crate) const STATUS: &str = "HTTP_STATUS";
/// The external system refused the credential.
pub const NOT_AUTHORIZED: &str = "NOT_AUTHORIZED";
const REPLY_TOO_LARGE: &str = "HTTP_REPLY_TOO_LARGE";

pub(super) fn classify(exchange: Exchange, class: EffectClass, endpoint: &str) -> ToolOutcome {
    match exchange {
        Exchange::NotSent(why) => unreachable(endpoint, &why),
        Exchange::NoReply(why) => retryable(
            class,
            MayHaveHappened,
            Failure::new(NO_REPLY, format!("no reply from {endpoint}: {why}")),
        ),
        Exchange::Replied(reply) => classify_reply(&reply, class, endpoint),
    }
}

/// Nothing was sent. A retry may succeed.
pub(super) fn unreachable(endpoint: &str, why: &str) -> ToolOutcome {
    let failure = Failure::new(UNREACHABLE, format!("{endpoint} cannot be reached: {why}"));
    ToolOutcome::Retryable { failure, certainty: DidNotHappen, retry_after: None }
}

fn classify_reply(reply: &Reply, class: EffectClass, endpoint: &str) -> ToolOutcome {
    use EffectClass::{CompareAndSet, NativeKey, ReadOnly};
    let failure = |what: &str| {
        Failure::new(STATUS, format!("{endpoint} answered {}{what}{}", reply.status, reply.excerpt()))
    };
    match (reply.status.as_u16(), class) {
        (200..=299, _) => classify_success(reply, class, endpoint),
        // The author sent a precondition, and the resource is unchanged.
        (304, ReadOnly) => ToolOutcome::Done(reply.done()),
        // 307 and 308 mean that the request was not processed. Other redirects may follow a processed request.
        (300..=399, ReadOnly) | (307 | 308, _) => {
            ToolOutcome::Terminal(failure("; redirects are not followed"))
        }
        (300..=399, _) => retryable(class, MayHaveHappened, failure("; redirects are not followed")),
        // Rejected before processing: rate limit, or risk of replay.
        (425 | 429, _) => retryable_after(reply, class, DidNotHappen, failure("")),
        // Formally the request was incomplete, but gateways also use 408 for slow servers.
        (408, _) => retryable_after(reply, class, MayHaveHappened, failure("")),
        (409, NativeKey) => retryable_after(
            reply,
            class,
            MayHaveHappened,
            failure("; another attempt with the same key may be in progress"),
        ),
        (412, CompareAndSet) => ToolOutcome::Terminal(failure("; the precondition did not hold")),
        (401, _) => {
            let failure = failure("; the credential is missing or wrong");
            ToolOutcome::Terminal(Failure { code: NOT_AUTHORIZED.to_owned(), ..failure })
        }
        (400..=499, _) => ToolOutcome::Terminal(failure("")),
        // A server may fail before or after the work, and a gateway does not know which.
        _ => retryable_after(reply, class, MayHaveHappened, failure("")),
    }
}

/// The status is a success; the body may be incomplete.
fn classify_success(reply: &Reply, class: EffectClass, endpoint: &str) -> ToolOutcome {
    let incomplete = || {
        Failure::new(NO_REPLY, format!("the reply from {endpoint} was cut off or did not complete in time"))
    };
    match (&reply.body, class) {
        (Body::TooLong, EffectClass::ReadOnly) => ToolOutcome::Terminal(Failure::new(
            REPLY_TOO_LARGE,
            format!("the reply from {endpoint} has more than {REPLY_BYTES_MAX} bytes"),
        )),
        // A retry with the same key returns the complete reply without a second effect.
        (Body::Incomplete, EffectClass::ReadOnly | EffectClass::NativeKey) => {
            retryable(class, MayHaveHappened, incomplete())
        }
        // The effect happened. Another attempt could not return the body.
        (Body::Whole(_) | Body::TooLong | Body::Incomplete | Body::Excerpt(_), _) => {
            ToolOutcome::Done(reply.done())
        }
    }
}

fn retryable(class: EffectClass, certainty: EffectOutcome, failure: Failure) -> ToolOutcome {
    let certainty = if class.has_effect() { certainty } else { DidNotHappen };
    ToolOutcome::Retryable { failure, certainty, retry_after: None }
}

/// A retry after the delay that the external system asks for.
fn retryable_after(
    reply: &Reply,
    class: EffectClass,
    certainty: EffectOutcome,
    failure: Failure,
) -> ToolOutcome {
    match retryable(class, certainty, failure) {
        ToolOutcome::Retryable { failure, certainty, .. } => {
            ToolOutcome::Retryable { failure, certainty, retry_after: retry_after(reply) }
        }
        other => other,
    }
}
