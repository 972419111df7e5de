//! What the domain's values are called on a card.

use domain::plan::{Environment, OnReject};
use domain::{ApprovalStatus, EffectClass, People, Reversibility, Tier, Timestamp};

use crate::escape::{self, Bound};

/// A reason why something cannot be taken back is one sentence.
const WHY_UNITS_MAX: usize = 300;

pub(super) fn environment(environment: Environment) -> &'static str {
    match environment {
        Environment::Dev => "dev",
        Environment::Staging => "staging",
        Environment::Prod => "prod",
    }
}

pub(super) fn status(status: ApprovalStatus) -> &'static str {
    match status {
        ApprovalStatus::Requested => "Approval needed",
        ApprovalStatus::Approved => "Approved",
        ApprovalStatus::Rejected => "Rejected",
        ApprovalStatus::Expired => "Expired",
        ApprovalStatus::Canceled => "Withdrawn",
    }
}

pub(super) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Low => "low: a mistake is easily mended",
        Tier::Medium => "medium: a mistake is felt",
        Tier::High => "high: a mistake is an outage",
    }
}

pub(super) fn people(people: People) -> &'static str {
    match people {
        People::One => "One person",
        People::Two => "Two different people",
    }
}

pub(super) fn on_reject(on_reject: OnReject) -> &'static str {
    match on_reject {
        OnReject::Fail => "A no fails the run.",
        OnReject::Pause => "A no pauses the run until an operator says what to do.",
    }
}

/// Whether it can be taken back, and how.
pub(super) fn reversibility(reversibility: &Reversibility) -> String {
    match reversibility {
        Reversibility::NoEffect => "Nothing to take back: it changes nothing".to_owned(),
        Reversibility::Inverse => {
            "Reversible: its receipt will hold the call that restores what was there".to_owned()
        }
        Reversibility::Compensable => {
            "Compensable: it cannot be undone, but the workflow may name a call that makes up for it"
                .to_owned()
        }
        Reversibility::Irreversible(why) => {
            format!("Irreversible: {}", escape::line(why, Bound::hashed(WHY_UNITS_MAX)))
        }
    }
}

/// What happens if it is interrupted between the request and the reply.
pub(super) fn class(class: EffectClass) -> &'static str {
    match class {
        EffectClass::ReadOnly => "Safe to ask again: it only reads",
        EffectClass::NativeKey => {
            "Safe to ask again: the other side drops a second request with the same key"
        }
        EffectClass::CompareAndSet => {
            "Safe to ask again: it applies only to the state that it was proposed for"
        }
        EffectClass::LookUp => "Looked up before it is done again, so it happens once",
        EffectClass::Opaque => "Nobody can tell whether it happened: the run pauses until a person decides",
    }
}

/// Millionths of a dollar, as people write money.
pub(super) fn money(microusd: u64) -> String {
    let digits = format!("{:06}", microusd % 1_000_000);
    let (cents, rest) = digits.split_at(2);
    format!("${}.{cents}{}", microusd / 1_000_000, rest.trim_end_matches('0'))
}

/// A moment, the same for every reader.
pub(super) fn utc(at: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => at.to_string(),
    }
}

/// A moment, in each reader's own time zone. It is Slack's markup, so it must not be escaped.
pub(super) fn local(at: Timestamp) -> String {
    format!("<!date^{}^{{date_short_pretty}} {{time}}|{}>", at.0.div_euclid(1_000), utc(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_has_cents_and_as_many_digits_more_as_it_needs() {
        for (microusd, text) in [(0, "$0.00"), (1, "$0.000001"), (12_300, "$0.0123"), (7_500_000, "$7.50")] {
            assert_eq!(money(microusd), text);
        }
    }

    #[test]
    fn a_moment_reads_as_a_date() {
        assert_eq!(utc(Timestamp(1_750_000_000_000)), "2025-06-15 15:06:40 UTC");
        assert_eq!(utc(Timestamp(i64::MAX)), "9223372036854775807ms");
        let local = local(Timestamp(1_750_000_000_999));
        assert_eq!(local, "<!date^1750000000^{date_short_pretty} {time}|2025-06-15 15:06:40 UTC>");
    }
}
