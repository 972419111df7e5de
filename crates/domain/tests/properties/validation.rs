//! The runtime's own rules, on top of a policy that allows everything.

use domain::connection::ActionConnection;
use domain::plan::{Environment, Validation, Work};
use domain::tenant::{Caps, WorkspaceCaps};
use domain::validation::{ActionContext, tighten};
use domain::{
    Action, ActionOrigin, ApproverCount, BlastRadius, ConnectionKind, Plan, PlannedStep, Ruling, RunRecord,
    StepSeq, Verdict, WorkspaceId,
};
use proptest::{option, prelude::*};

use crate::env::LedgerEnv;
use crate::plans::{self, call, step};
use crate::scenario::Scenario;

const FIRST: StepSeq = StepSeq(0);

/// A plan with one call of `tool`.
fn one_call(tool: &str, blast_radius: BlastRadius) -> Plan {
    plans::plan(vec![PlannedStep { blast_radius, ..step(Work::Call(call(tool, None))) }])
}

/// The rule that requires an approval of the first action of `plan`.
fn rule_for(plan: &Plan, change: impl FnOnce(&mut ActionContext<'_>)) -> Option<String> {
    let verdict = verdict_for(plan, change);
    let needs = matches!(verdict.ruling, Ruling::NeedsApproval(_));
    needs.then(|| verdict.reasons.last().unwrap().rule.clone())
}

fn ruling_for(plan: &Plan, change: impl FnOnce(&mut ActionContext<'_>)) -> Ruling {
    verdict_for(plan, change).ruling
}

fn verdict_for(plan: &Plan, change: impl FnOnce(&mut ActionContext<'_>)) -> Verdict {
    verdict_on(plan, &Caps::default(), |_, _| {}, change)
}

fn verdict_on(
    plan: &Plan,
    caps: &Caps,
    prepare: impl FnOnce(&mut RunRecord, &mut Action),
    change: impl FnOnce(&mut ActionContext<'_>),
) -> Verdict {
    let env = LedgerEnv::new(&Scenario { plans: [plan.clone(), plan.clone()], ops: Vec::new() }, |_, _| {});
    let mut record = env.runs[0].record.clone();
    let mut action: Action = plans::action(plan, &record.key.run, FIRST, false);
    prepare(&mut record, &mut action);
    let mut context = ActionContext {
        plan,
        record: &record,
        seq: FIRST,
        caps,
        writes_done: 0,
        origin: ActionOrigin::Forward,
        attempt: 0,
        may_have_happened: false,
        confidence: None,
        has_later_effect: true,
    };
    change(&mut context);
    let allowed = Verdict { ruling: Ruling::Allow, ..plans::verdict(&plan.steps[0], 0) };
    tighten(allowed, &action, &context)
}

fn rule(
    tool: &str,
    blast_radius: BlastRadius,
    change: impl FnOnce(&mut ActionContext<'_>),
) -> Option<String> {
    rule_for(&one_call(tool, blast_radius), change)
}

#[test]
fn each_attempt_at_a_risky_action_needs_an_approval() {
    let again = |context: &mut ActionContext<'_>| context.attempt = 1;
    for (tool, blast_radius, first, needs) in [
        ("set", BlastRadius::Low, None, None),
        ("set", BlastRadius::Medium, None, Some("retry/risky")),
        ("native.destructive", BlastRadius::Low, Some("approval/two_people"), Some("retry/risky")),
    ] {
        assert_eq!(rule(tool, blast_radius, |_| {}).as_deref(), first, "{tool} {blast_radius:?}");
        assert_eq!(rule(tool, blast_radius, again).as_deref(), needs, "{tool} {blast_radius:?}");
    }
}

/// The policy allows the action. A recorded inverse restores what was approved.
#[test]
fn risky_action_needs_two_people_under_any_policy() {
    for (tool, blast_radius, people) in [
        ("set", BlastRadius::Medium, None),
        ("set", BlastRadius::High, Some(ApproverCount::Two)),
        ("native.destructive", BlastRadius::Low, Some(ApproverCount::Two)),
    ] {
        for origin in [ActionOrigin::Forward, ActionOrigin::DeclaredRollback, ActionOrigin::RecordedInverse] {
            let needed = people.filter(|_| origin != ActionOrigin::RecordedInverse);
            let ruling = ruling_for(&one_call(tool, blast_radius), |context| context.origin = origin);
            let asked = match ruling {
                Ruling::NeedsApproval(requirement) => Some(requirement.people),
                Ruling::Allow | Ruling::Deny => None,
            };
            assert_eq!(asked, needed, "{tool} {blast_radius:?} {origin:?}");
        }
    }
}

#[test]
fn repeating_what_may_have_happened_needs_an_approval() {
    let may_have_happened = |context: &mut ActionContext<'_>| context.may_have_happened = true;
    for (tool, needs) in [
        ("shell", Some("retry/opaque")),
        ("native.forgetful", Some("retry/key_retention")),
        ("native", None),
        ("set", None),
    ] {
        assert_eq!(rule(tool, BlastRadius::Low, may_have_happened).as_deref(), needs, "{tool}");
    }
}

/// The check of a workflow refuses such a plan. An older version may have stored one.
#[test]
fn final_only_validates_every_step_above_a_low_blast_radius() {
    for (blast_radius, needs) in [(BlastRadius::Low, None), (BlastRadius::Medium, Some("validation/mode"))] {
        let plan = Plan { validation: Validation::FinalOnly, ..one_call("set", blast_radius) };
        assert_eq!(rule_for(&plan, |_| {}).as_deref(), needs, "{blast_radius:?}");
        let last = rule_for(&plan, |context| context.has_later_effect = false);
        assert_eq!(last.as_deref(), Some("validation/mode"), "{blast_radius:?}");
    }
}

#[test]
fn model_call_stays_within_the_budget_of_the_run() {
    let plan = one_call("read", BlastRadius::Low);
    let ruling = |max: Option<u64>, kind: ConnectionKind, estimate: Option<u64>, spent: u64| {
        let caps = Caps { max_cost_per_run_microusd: max, ..Caps::default() };
        let on = ActionConnection { name: "model".parse().unwrap(), kind, environment: Environment::Dev };
        let prepare = |record: &mut RunRecord, action: &mut Action| {
            record.cost_microusd = spent;
            action.connection = Some(on);
            action.estimate_microusd = estimate;
        };
        let verdict = verdict_on(&plan, &caps, prepare, |_| {});
        (verdict.ruling == Ruling::Deny).then(|| verdict.reasons.last().unwrap().rule.clone())
    };
    let over = Some("caps/max_cost_per_run".to_owned());
    assert_eq!(ruling(Some(100), ConnectionKind::Model, Some(40), 60), None);
    assert_eq!(ruling(Some(100), ConnectionKind::Model, Some(41), 60), over);
    assert_eq!(ruling(Some(100), ConnectionKind::Model, Some(u64::MAX), 60), over);
    assert_eq!(
        ruling(Some(100), ConnectionKind::Model, None, 0),
        over,
        "without a price the cost is unknown"
    );
    assert_eq!(ruling(Some(100), ConnectionKind::Http, None, 1_000), None);
    assert_eq!(ruling(None, ConnectionKind::Model, Some(u64::MAX), 60), None);
}

#[test]
fn run_obeys_the_limits_of_its_workspace() {
    let own = WorkspaceCaps { max_writes_per_run: Some(1), max_cost_per_run_microusd: None };
    let caps = Caps { workspaces: [("payments".parse().unwrap(), own)].into(), ..Caps::default() };
    let ruling = |workspace: &str| {
        let workspace: WorkspaceId = workspace.parse().unwrap();
        let prepare = |record: &mut RunRecord, _: &mut Action| record.workspace = workspace;
        let plan = one_call("set", BlastRadius::Low);
        verdict_on(&plan, &caps, prepare, |context| context.writes_done = 1).ruling
    };
    assert_eq!((ruling("main"), ruling("payments")), (Ruling::Allow, Ruling::Deny));
}

proptest! {
    #[test]
    fn workspace_limits_only_tighten(
        writes in 0..9_u32, cost in option::of(0..9_u64),
        own_writes in option::of(0..9_u32), own_cost in option::of(0..9_u64),
    ) {
        let own = WorkspaceCaps { max_writes_per_run: own_writes, max_cost_per_run_microusd: own_cost };
        let (workspace, other): (WorkspaceId, WorkspaceId) = ("payments".parse().unwrap(), "main".parse().unwrap());
        let workspaces = [(workspace.clone(), own)].into();
        let caps = Caps { max_writes_per_run: writes, max_cost_per_run_microusd: cost, workspaces };
        prop_assert_eq!((caps.max_writes_in(&other), caps.max_cost_in(&other)), (writes, cost));
        prop_assert_eq!(caps.max_writes_in(&workspace), writes.min(own_writes.unwrap_or(u32::MAX)));
        let unlimited = |max: Option<u64>| max.unwrap_or(u64::MAX);
        prop_assert_eq!(unlimited(caps.max_cost_in(&workspace)), unlimited(cost).min(unlimited(own_cost)));
    }
}
