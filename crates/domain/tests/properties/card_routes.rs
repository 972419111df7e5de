//! The channel of a card: the first route whose conditions all hold.

use domain::connection::ConnectionOptions;
use domain::participant::Participants;
use domain::plan::{Environment, OnReject};
use domain::verdict::RequiredAssurance;
use domain::{
    Approval, ApprovalId, ApprovalRequirement, ApprovalStatus, ApproverCount, CardRoute, GroupName, RunKey,
    StepSeq, Subject, Tier, Timestamp, WorkflowName,
};
use proptest::option;
use proptest::prelude::*;

const TIERS: [Tier; 3] = [Tier::Low, Tier::Medium, Tier::High];
const ENVIRONMENTS: [Environment; 3] = [Environment::Dev, Environment::Staging, Environment::Prod];
const NAMES: [&str; 3] = ["payments", "db", "network"];

fn group(name: &str) -> GroupName {
    name.parse().unwrap()
}

fn workflow(name: &str) -> WorkflowName {
    name.parse().unwrap()
}

prop_compose! {
    fn any_route()(
        tier in option::of(proptest::sample::select(TIERS.to_vec())),
        named in option::of(proptest::sample::select(NAMES.to_vec())),
        of in option::of(proptest::sample::select(NAMES.to_vec())),
        environment in option::of(proptest::sample::select(ENVIRONMENTS.to_vec())),
        number in 0..100u32,
    ) -> CardRoute {
        let channel = format!("C{number}");
        CardRoute { tier, group: named.map(group), workflow: of.map(workflow), environment, channel }
    }
}

prop_compose! {
    fn any_approval()(
        tier in proptest::sample::select(TIERS.to_vec()),
        groups in proptest::sample::subsequence(NAMES.to_vec(), 0..=2),
        of in proptest::sample::select(NAMES.to_vec()),
        environment in proptest::sample::select(ENVIRONMENTS.to_vec()),
    ) -> Approval {
        let groups = groups.into_iter().map(group).collect();
        let requirement = ApprovalRequirement { tier, people: ApproverCount::One, groups, assurance: RequiredAssurance::default() };
        approval(workflow(of), environment, requirement)
    }
}

fn approval(workflow: WorkflowName, environment: Environment, requirement: ApprovalRequirement) -> Approval {
    let run = RunKey { tenant: "acme".parse().unwrap(), run: "r-1".parse().unwrap() };
    Approval {
        id: ApprovalId::derive(&run, 0),
        run,
        workflow,
        environment,
        step: "ask".parse().unwrap(),
        seq: StepSeq(0),
        rollback: false,
        subject: Subject::Question { message: "Go on?".to_owned() },
        requirement,
        excluded: Participants::default(),
        attempted_at: None,
        rejected: None,
        on_reject: OnReject::default(),
        status: ApprovalStatus::Requested,
        votes: Vec::new(),
        requested_at: Timestamp(0),
        sla_at: Timestamp(1),
        expires_at: Timestamp(2),
        reminders: 0,
        escalated_at: None,
        consumed: None,
        revision: 1,
    }
}

/// Whether the request has every property that the route names, written as in the documentation.
fn holds(route: &CardRoute, approval: &Approval) -> bool {
    let conditions = [
        route.tier.map(|tier| approval.requirement.tier == tier),
        route.group.as_ref().map(|group| approval.requirement.groups.iter().any(|own| own == group)),
        route.workflow.as_ref().map(|workflow| approval.workflow == *workflow),
        route.environment.map(|environment| approval.environment == environment),
    ];
    !conditions.contains(&Some(false))
}

proptest! {
    #[test]
    fn first_matching_route_has_the_card(
        routes in proptest::collection::vec(any_route(), 0..6),
        approval in any_approval(),
    ) {
        let mut expected = "CDEFAULT";
        for route in routes.iter().rev() {
            if holds(route, &approval) {
                expected = &route.channel;
            }
        }
        let channel = Some("CDEFAULT".to_owned());
        let options = ConnectionOptions { channel, routes: routes.clone(), ..ConnectionOptions::default() };
        prop_assert_eq!(options.channel_of(&approval), Some(expected));
    }
}
