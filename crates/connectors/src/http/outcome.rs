//! What an exchange says about the effect.
//!
//! *Terminal* and *did not happen* are promises that nothing changed outside, so they are given only where
//! the protocol gives them to us. Everything else may have happened. For a request without an effect the
//! question does not arise, and only whether to try again is left of it.

use domain::command::Certainty::{self, DidNotHappen, MayHaveHappened};
use domain::{EffectClass, Failure};

use crate::tool::Outcome;

use super::exchange::{Exchange, REPLY_BYTES_MAX};
use super::reply::{Body, Reply};
use super::wait::retry_after;

/// It may not go there, or not with these fields.
pub(crate) const REFUSED: &str = "HTTP_REFUSED";
/// No connection came to stand.
pub(crate) const UNREACHABLE: &str = "HTTP_UNREACHABLE";
/// It may have been sent, and no whole reply came.
pub(crate) const NO_REPLY: &str = "HTTP_NO_REPLY";
/// The reply says that it was not done.
pub(crate) const STATUS: &str = "HTTP_STATUS";
/// There is more of the reply than is read.
const REPLY_TOO_LARGE: &str = "HTTP_REPLY_TOO_LARGE";

/// What came of a call of `class` to `place`.
pub(super) fn of(exchange: Exchange, class: EffectClass, place: &str) -> Outcome {
    match exchange {
        Exchange::NotSent(why) => unreachable(place, &why),
        Exchange::NoReply(why) => {
            retry(class, MayHaveHappened, Failure::new(NO_REPLY, format!("no reply from {place}: {why}")))
        }
        Exchange::Replied(reply) => replied(&reply, class, place),
    }
}

/// Nothing was sent, and that may mend.
pub(super) fn unreachable(place: &str, why: &str) -> Outcome {
    let failure = Failure::new(UNREACHABLE, format!("{place} cannot be reached: {why}"));
    Outcome::Retryable { failure, certainty: DidNotHappen, retry_after: None }
}

fn replied(reply: &Reply, class: EffectClass, place: &str) -> Outcome {
    use EffectClass::{CompareAndSet, NativeKey, ReadOnly};
    let said = |what: &str| Failure::new(STATUS, format!("{place} answered {}{what}", reply.status));
    match (reply.status.as_u16(), class) {
        (200..=299, _) => succeeded(reply, class, place),
        // The author sent a precondition and is told that nothing is new.
        (304, ReadOnly) => Outcome::Done(reply.done()),
        // These two say that the request was not worked on and should be made elsewhere. After the others
        // a form may have been taken or a visitor sent to a login page.
        (300..=399, ReadOnly) | (307 | 308, _) => Outcome::Terminal(said("; redirects are not followed")),
        (300..=399, _) => retry(class, MayHaveHappened, said("; redirects are not followed")),
        // Turned away before anybody looked at it: too many requests, or too early to trust it is no replay.
        (425 | 429, _) => later(reply, class, DidNotHappen, said("")),
        // By the letter the server never got the whole request, but gateways say it of slow servers too.
        (408, _) => later(reply, class, MayHaveHappened, said("")),
        (409, NativeKey) => {
            later(reply, class, MayHaveHappened, said("; an attempt with the same key may be under way"))
        }
        (412, CompareAndSet) => Outcome::Terminal(said("; the precondition did not hold")),
        (400..=499, _) => Outcome::Terminal(said("")),
        // Servers fail after the work as well as before it, and gateways do not know.
        _ => later(reply, class, MayHaveHappened, said("")),
    }
}

/// The head of the reply says that it was done; the body may be missing.
fn succeeded(reply: &Reply, class: EffectClass, place: &str) -> Outcome {
    let broken =
        || Failure::new(NO_REPLY, format!("the reply from {place} broke off, or did not end in time"));
    match (&reply.body, class) {
        (Body::TooLong, EffectClass::ReadOnly) => Outcome::Terminal(Failure::new(
            REPLY_TOO_LARGE,
            format!("the reply from {place} has more than {REPLY_BYTES_MAX} bytes"),
        )),
        // Asking again with the same key gives the whole reply without doing anything twice.
        (Body::BrokenOff, EffectClass::ReadOnly | EffectClass::NativeKey) => {
            retry(class, MayHaveHappened, broken())
        }
        // It happened, and no other attempt could be told what it gave.
        (Body::Whole(_) | Body::TooLong | Body::BrokenOff | Body::Unread, _) => Outcome::Done(reply.done()),
    }
}

fn retry(class: EffectClass, certainty: Certainty, failure: Failure) -> Outcome {
    let certainty = if class.has_effect() { certainty } else { DidNotHappen };
    Outcome::Retryable { failure, certainty, retry_after: None }
}

/// Another attempt, not before the time that the other side asks for.
fn later(reply: &Reply, class: EffectClass, certainty: Certainty, failure: Failure) -> Outcome {
    match retry(class, certainty, failure) {
        Outcome::Retryable { failure, certainty, .. } => {
            Outcome::Retryable { failure, certainty, retry_after: retry_after(reply) }
        }
        other => other,
    }
}
