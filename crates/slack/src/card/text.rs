//! The wording of the domain's values on a card.

use domain::plan::OnReject;
use domain::{ApprovalStatus, ApproverCount, EffectClass, ParticipantRole, Reversibility, Tier, Timestamp};

use crate::escape::{self, TextLimit};

pub(super) fn status(status: ApprovalStatus) -> &'static str {
    match status {
        ApprovalStatus::Requested => "Approval needed",
        ApprovalStatus::Approved => "Approved",
        ApprovalStatus::Rejected => "Rejected",
        ApprovalStatus::Expired => "Expired",
        ApprovalStatus::Canceled => "Withdrawn",
    }
}

pub(super) fn participation(role: ParticipantRole) -> &'static str {
    match role {
        ParticipantRole::Requester => "requested the run",
        ParticipantRole::Author => "wrote the workflow",
        ParticipantRole::Applier => "applied the workflow",
        ParticipantRole::Signaler => "sent an event to the run",
        ParticipantRole::Resumer => "resumed the run",
        ParticipantRole::Canceler => "canceled or rolled back the run",
        ParticipantRole::Rejecter => "rejected an action, which started the rollback",
    }
}

pub(super) fn tier(tier: Tier) -> &'static str {
    match tier {
        Tier::Low => "low (a mistake is easy to correct)",
        Tier::Medium => "medium (users notice a mistake)",
        Tier::High => "high (a mistake can cause an outage)",
    }
}

pub(super) fn people(people: ApproverCount) -> &'static str {
    match people {
        ApproverCount::One => "One person",
        ApproverCount::Two => "Two different people",
    }
}

pub(super) fn on_reject(on_reject: OnReject) -> &'static str {
    match on_reject {
        OnReject::Fail => "A rejection fails the run.",
        OnReject::Pause => "A rejection pauses the run until an operator decides.",
    }
}

/// Why the action cannot be undone.
pub(super) fn reversibility_reason(reversibility: &Reversibility) -> &str {
    match reversibility {
        Reversibility::Irreversible(why) => why,
        Reversibility::NoEffect | Reversibility::Inverse | Reversibility::Compensable => "",
    }
}

/// Whether the action can be undone, and how.
pub(super) fn reversibility(reversibility: &Reversibility, why_units_max: usize) -> String {
    match reversibility {
        Reversibility::NoEffect => "Not applicable: the action changes nothing".to_owned(),
        Reversibility::Inverse => {
            "Yes: the receipt records the call that restores the previous state".to_owned()
        }
        Reversibility::Compensable => {
            "Not directly: the workflow can define a call that compensates for it".to_owned()
        }
        Reversibility::Irreversible(why) => {
            format!("No: {}", escape::line(why, TextLimit::hashed(why_units_max)))
        }
    }
}

/// What happens if the worker stops between the request and the reply.
pub(super) fn class(class: EffectClass) -> &'static str {
    match class {
        EffectClass::Pure | EffectClass::ReadOnly => "Safe to retry: it only reads",
        EffectClass::NativeKey => {
            "Safe to retry: the external system ignores a second request with the same key"
        }
        EffectClass::CompareAndSet => "Safe to retry: it applies only if the target has not changed since",
        EffectClass::LookUp => "Safe to retry: the worker first checks whether it already happened",
        EffectClass::Opaque => "Outcome unknown: the run pauses until an operator decides",
    }
}

/// An RFC 3339 timestamp in UTC.
pub(super) fn utc(at: Timestamp) -> String {
    at.to_string()
}

/// A timestamp in each reader's time zone. It is Slack markup and must not be escaped.
pub(super) fn local(at: Timestamp) -> String {
    format!("<!date^{}^{{date_short_pretty}} {{time}}|{}>", at.0.div_euclid(1_000), utc(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_rfc_3339_utc() {
        assert_eq!(utc(Timestamp(1_750_000_000_000)), "2025-06-15T15:06:40Z");
        assert_eq!(utc(Timestamp(i64::MAX)), "9223372036854775807ms");
        let local = local(Timestamp(1_750_000_000_999));
        assert_eq!(local, "<!date^1750000000^{date_short_pretty} {time}|2025-06-15T15:06:40Z>");
    }
}
