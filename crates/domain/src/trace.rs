//! W3C trace context.
//!
//! No decision depends on it. A run without a caller's trace has a trace derived from its id, so that every process
//! uses the same one. Derived ids contain no randomness, so simulations are reproducible.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::digest::Digest;
use crate::id::RunKey;

/// A trace id, a span id and flags.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TraceContext {
    trace: u128,
    span: u64,
    flags: u8,
}

/// The sampled flag.
const SAMPLED: u8 = 1;

impl TraceContext {
    /// The header or message attribute that carries the context.
    pub const HEADER: &str = "traceparent";

    /// The trace context of a run without a caller's trace.
    pub fn of_run(run: &RunKey) -> Self {
        let digest = Digest::of_parts("countersign/trace/v1", &[run.tenant.as_str(), run.run.as_str()]);
        let trace = u128::from_be_bytes(std::array::from_fn(|at| digest.as_bytes()[at]));
        Self { trace, span: span_of(&digest), flags: SAMPLED }
    }

    /// The context of the child span `what`.
    #[must_use]
    pub fn next(&self, what: &str) -> Self {
        let digest = Digest::of_parts("countersign/span/v1", &[&*self.trace_id(), &*self.span_id(), what]);
        Self { span: span_of(&digest), ..*self }
    }

    /// Whether both have the same trace id.
    pub fn same_trace_as(&self, other: &Self) -> bool {
        self.trace == other.trace
    }

    /// The trace id in hexadecimal.
    pub fn trace_id(&self) -> String {
        format!("{:032x}", self.trace)
    }

    /// The span id in hexadecimal.
    pub fn span_id(&self) -> String {
        format!("{:016x}", self.span)
    }
}

/// The last eight bytes. Zero would be an invalid span id, and is practically impossible.
fn span_of(digest: &Digest) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|at| digest.as_bytes()[24 + at]))
}

/// As in a `traceparent` header.
impl fmt::Display for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "00-{:032x}-{:016x}-{:02x}", self.trace, self.span, self.flags)
    }
}

impl fmt::Debug for TraceContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TraceContext({self})")
    }
}

/// The text is not a trace context.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "not a trace context: expected version, trace id, span id and flags, such as 00-<32 hex>-<16 hex>-01"
)]
pub struct NoTraceContext;

impl FromStr for TraceContext {
    type Err = NoTraceContext;

    /// Parses a `traceparent`. Unknown parts of later versions are ignored, as the standard requires.
    fn from_str(text: &str) -> Result<Self, NoTraceContext> {
        let mut parts = text.split('-');
        let mut part = |digits| number(parts.next().unwrap_or_default(), digits).ok_or(NoTraceContext);
        let (version, trace, span, flags) = (part(2)?, part(32)?, part(16)?, part(2)?);
        let more = parts.next().is_some();
        let (Ok(span), Ok(flags)) = (u64::try_from(span), u8::try_from(flags)) else {
            return Err(NoTraceContext);
        };
        if version == 0xff || (version == 0 && more) || trace == 0 || span == 0 {
            return Err(NoTraceContext);
        }
        Ok(Self { trace, span, flags: flags & SAMPLED })
    }
}

impl TryFrom<String> for TraceContext {
    type Error = NoTraceContext;
    fn try_from(text: String) -> Result<Self, NoTraceContext> {
        text.parse()
    }
}

impl From<TraceContext> for String {
    fn from(context: TraceContext) -> Self {
        context.to_string()
    }
}

/// A hexadecimal number of exactly `digits` lower-case digits.
fn number(hex: &str, digits: usize) -> Option<u128> {
    let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    let fits = hex.len() == digits && hex.as_bytes().iter().all(lower);
    fits.then(|| u128::from_str_radix(hex, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{RunId, TenantId};

    const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn run(name: &str) -> RunKey {
        RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new(name).unwrap() }
    }

    #[test]
    fn context_round_trips() {
        let context: TraceContext = GIVEN.parse().unwrap();
        assert_eq!(context.to_string(), GIVEN);
        assert_eq!(context.trace_id(), "4bf92f3577b34da6a3ce929d0e0e4736");
        assert_eq!(context.span_id(), "00f067aa0ba902b7");
    }

    #[test]
    fn later_version_is_parsed() {
        let later = "01-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-extra-part";
        assert_eq!(later.parse(), GIVEN.parse::<TraceContext>());
    }

    #[test]
    fn invalid_context_is_rejected() {
        for text in [
            "",
            "00",
            "hello",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-more",
            "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
            "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
            "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
            "00-4bf92f3577b34da6a3ce929d0e0e473-00f067aa0ba902b7-01",
            "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-é",
        ] {
            assert_eq!(text.parse::<TraceContext>(), Err(NoTraceContext), "{text}");
        }
    }

    #[test]
    fn each_run_has_its_own_trace() {
        let trace = TraceContext::of_run(&run("run-1"));
        assert_eq!(trace, TraceContext::of_run(&run("run-1")));
        assert_ne!(trace.trace_id(), TraceContext::of_run(&run("run-2")).trace_id());
        let (first, second) = (trace.next("advance 1"), trace.next("advance 2"));
        assert_eq!(first.trace_id(), trace.trace_id());
        assert_ne!(first.span_id(), second.span_id());
        assert_eq!(trace.to_string().parse(), Ok(trace));
    }
}
