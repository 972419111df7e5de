//! Verdicts in words.

use domain::{Demand, Reason, Ruling};

/// A ruling in one line.
pub fn ruling(ruling: &Ruling) -> String {
    match ruling {
        Ruling::Deny => "denied".to_owned(),
        Ruling::Allow => "allowed".to_owned(),
        Ruling::NeedsApproval(demand) => format!("needs approval by {}", people(demand)),
    }
}

fn people(demand: &Demand) -> String {
    let count = match demand.people.count() {
        1 => "one person".to_owned(),
        many => format!("{many} different people"),
    };
    let groups: Vec<_> = demand.groups.iter().map(ToString::to_string).collect();
    let of = if groups.is_empty() { String::new() } else { format!(" of {}", groups.join(" or ")) };
    format!("{count}{of}, {} tier", format!("{:?}", demand.tier).to_lowercase())
}

/// A rule that led to a ruling, and where it stands.
pub fn reason(reason: &Reason) -> String {
    let place = match (&reason.file, reason.line) {
        (Some(file), Some(line)) => format!("{file}:{line}"),
        _ => "the runtime's own".to_owned(),
    };
    format!("{}: {} ({place})", reason.rule, reason.says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{People, Tier};

    #[test]
    fn a_demand_says_how_many_of_whom() {
        let groups = vec!["db".parse().unwrap(), "sre".parse().unwrap()];
        let demand = Demand { tier: Tier::High, people: People::Two, groups };
        assert_eq!(
            ruling(&Ruling::NeedsApproval(demand)),
            "needs approval by 2 different people of db or sre, high tier"
        );
        assert_eq!(
            ruling(&Ruling::NeedsApproval(Demand::default())),
            "needs approval by one person, medium tier"
        );
    }
}
