//! Verdicts in words.

use domain::verdict::RequiredAssurance;
use domain::{ApprovalRequirement, Reason, Ruling};

/// A ruling in one line.
pub fn ruling(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Deny => "denied".to_owned(),
        Ruling::Allow => "allowed".to_owned(),
        Ruling::NeedsApproval(requirement) => format!("needs approval by {}", people(requirement)),
    }
}

fn people(requirement: &ApprovalRequirement) -> String {
    let count = match requirement.people.count() {
        1 => "one person".to_owned(),
        many => format!("{many} different people"),
    };
    let groups: Vec<_> = requirement.groups.iter().map(ToString::to_string).collect();
    let of = if groups.is_empty() { String::new() } else { format!(" of {}", groups.join(" or ")) };
    let signed_in = match requirement.assurance {
        RequiredAssurance::Any => "",
        RequiredAssurance::IdentityProvider => ", signed in through the identity provider",
    };
    format!("{count}{of}, {} tier{signed_in}", format!("{:?}", requirement.tier).to_lowercase())
}

/// A rule that led to a ruling, with its location.
pub fn reason(reason: &Reason) -> String {
    let location = match (&reason.file, reason.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => "built-in".to_owned(),
    };
    format!("{}: {} ({location})", reason.rule, reason.message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{ApproverCount, Tier};

    #[test]
    fn requirement_names_count_and_groups() {
        let groups = vec!["db".parse().unwrap(), "sre".parse().unwrap()];
        let assurance = RequiredAssurance::IdentityProvider;
        let requirement =
            ApprovalRequirement { tier: Tier::High, people: ApproverCount::Two, groups, assurance };
        assert_eq!(
            ruling(&Ruling::NeedsApproval(requirement)),
            "needs approval by 2 different people of db or sre, high tier, signed in through the identity provider"
        );
        assert_eq!(
            ruling(&Ruling::NeedsApproval(ApprovalRequirement::default())),
            "needs approval by one person, medium tier"
        );
    }
}
