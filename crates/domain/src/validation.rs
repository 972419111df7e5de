//! The runtime's own rules on top of policy: limits, and approvals that the workflow's validation mode requires. They
//! can only make a verdict stricter.

use serde_json::Number;

use crate::connection::ConnectionKind;
use crate::effect::{Action, ActionOrigin, EffectClass};
use crate::id::{BlastRadius, StepSeq};
use crate::plan::{Environment, Plan, PlannedStep, Validation};
use crate::record::{RunRecord, StepState};
use crate::tenant::Caps;
use crate::verdict::{ApprovalRequirement, ApproverCount, Reason, Ruling, Tier, Verdict};

/// The context of an action.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ActionContext<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The run.
    pub record: &'a RunRecord,
    /// The step.
    pub seq: StepSeq,
    /// The limits of a run.
    pub caps: &'a Caps,
    /// The number of effects that the run has performed, including one that is being recorded.
    pub writes_done: u32,
    /// Where the call of the action comes from.
    pub origin: ActionOrigin,
    /// The number of failed attempts at the action.
    pub attempt: u32,
    /// Whether an earlier attempt may have performed the action.
    pub may_have_happened: bool,
    /// The confidence in the action, in thousandths.
    pub confidence: Option<u16>,
    /// Whether a later step is certain to have an effect.
    pub has_later_effect: bool,
}

/// Applies the limits and the validation mode of the workflow to `verdict`.
pub fn tighten(verdict: Verdict, action: &Action, context: &ActionContext<'_>) -> Verdict {
    let verdict = within_budget(verdict, action, context);
    if !action.class.has_effect() {
        return without_approval(verdict);
    }
    let Some(step) = context.plan.step(context.seq) else { return verdict };
    let verdict = within_caps(verdict, context);
    let verdict = require_two_people(verdict, action, step, context);
    let verdict = approve_repeats(verdict, action, step, context);
    match (&verdict.ruling, validation_reason(step, context)) {
        (Ruling::Allow, Some(reason)) if !is_auto_approved(action, step, context) => {
            let requirement = ApprovalRequirement {
                tier: tier(step),
                people: ApproverCount::One,
                groups: Vec::new(),
                ..ApprovalRequirement::default()
            };
            verdict.tightened(Ruling::NeedsApproval(requirement), reason)
        }
        _ => verdict,
    }
}

/// The verdict on a read. Limits and validation are about changes. A read is not shown to approvers, so a verdict that
/// requires an approval denies it.
pub(crate) fn without_approval(verdict: Verdict) -> Verdict {
    match verdict.ruling {
        Ruling::NeedsApproval(_) => {
            let message = "a read cannot wait for an approval; the policy must allow or deny it";
            verdict.tightened(Ruling::Deny, Reason::runtime("reads/no_approval", message))
        }
        Ruling::Allow | Ruling::Deny => verdict,
    }
}

/// A number from 0 to 1 in thousandths, rounded down, so that the confidence is never overstated.
pub fn thousandths(number: &Number) -> Option<u16> {
    let number = number.as_f64().filter(|number| (0.0..=1.0).contains(number))?;
    // Between 0 and 1,000, so nothing is truncated.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    let thousandths = (number * 1_000.0 + 1e-9) as u16;
    Some(thousandths)
}

fn within_caps(verdict: Verdict, context: &ActionContext<'_>) -> Verdict {
    let (done, max) = (context.writes_done, context.caps.max_writes_in(&context.record.workspace));
    if context.record.is_rolling_back() || done < max {
        return verdict;
    }
    let message = format!("the run has performed {done} effects; the tenant allows {max} per run");
    verdict.tightened(Ruling::Deny, Reason::runtime("caps/max_writes_per_run", message))
}

/// Denies a call of a model that could exceed the budget of the run. The cost so far includes failed attempts.
fn within_budget(verdict: Verdict, action: &Action, context: &ActionContext<'_>) -> Verdict {
    let is_metered = action.connection.as_ref().is_some_and(|on| on.kind == ConnectionKind::Model);
    let max = context.caps.max_cost_in(&context.record.workspace);
    let (Some(max), true) = (max, is_metered) else { return verdict };
    let spent = context.record.cost_microusd;
    let message = match action.estimate_microusd {
        Some(estimate) if spent.saturating_add(estimate) <= max => return verdict,
        Some(estimate) => format!(
            "the call may cost {estimate} microdollars, and the run has cost {spent}; the tenant allows {max} per run"
        ),
        None => {
            "the tenant limits the cost of a run, and the connection has no price for this model".to_owned()
        }
    };
    verdict.tightened(Ruling::Deny, Reason::runtime("caps/max_cost_per_run", message))
}

/// Two people must approve an action that destroys data, and one with a high blast radius, also if the tenant's own policy
/// requires less. A recorded inverse restores what was approved.
fn require_two_people(
    verdict: Verdict,
    action: &Action,
    step: &PlannedStep,
    context: &ActionContext<'_>,
) -> Verdict {
    let is_risky = action.destructive || step.blast_radius == BlastRadius::High;
    let has_two = matches!(&verdict.ruling, Ruling::NeedsApproval(requirement) if requirement.people == ApproverCount::Two);
    let is_denied = verdict.ruling == Ruling::Deny;
    if !is_risky || has_two || is_denied || context.origin == ActionOrigin::RecordedInverse {
        return verdict;
    }
    let requirement = ApprovalRequirement {
        tier: Tier::High,
        people: ApproverCount::Two,
        groups: Vec::new(),
        ..ApprovalRequirement::default()
    };
    let message = "an action that destroys data or has a high blast radius needs two approvers";
    verdict.tightened(Ruling::NeedsApproval(requirement), Reason::runtime("approval/two_people", message))
}

/// Whether an attempt after a failed one needs an approval of its own. An approval covers one attempt at a risky action.
pub(crate) fn repeats_need_approval(step: &PlannedStep, is_destructive: bool) -> bool {
    is_destructive || step.blast_radius >= BlastRadius::Medium
}

/// A repeated opaque action can cause a second effect. So can a repeated action whose key the external system has
/// forgotten. Such an attempt needs an approval at any blast radius.
fn approve_repeats(
    verdict: Verdict,
    action: &Action,
    step: &PlannedStep,
    context: &ActionContext<'_>,
) -> Verdict {
    let is_continued = is_continued(&context.record.step_state);
    let repeats = context.attempt > 0 && !is_continued && repeats_need_approval(step, action.destructive);
    let reason = match action.class {
        EffectClass::Opaque if context.may_have_happened => {
            Reason::runtime("retry/opaque", "another attempt at an opaque action needs an approval")
        }
        // While the key is certainly retained, a continued attempt is the same effect. Later, an operator decides.
        EffectClass::NativeKey
            if action.key_retention.is_some() && context.may_have_happened && !is_continued =>
        {
            Reason::runtime(
                "retry/key_retention",
                "another attempt needs an approval, because the external system may have forgotten the key",
            )
        }
        _ if repeats => Reason::runtime(
            "retry/risky",
            "another attempt at an action with a medium or high blast radius, or at a destructive one, needs an approval",
        ),
        _ => return verdict,
    };
    let requirement = ApprovalRequirement {
        tier: tier(step),
        people: ApproverCount::One,
        groups: Vec::new(),
        ..ApprovalRequirement::default()
    };
    verdict.tightened(Ruling::NeedsApproval(requirement), reason)
}

/// Whether the next attempt continues an effect that may have happened, after a crash or a lost reply. It is the effect
/// that was approved, so it continues under that approval, or an operator decides.
fn is_continued(state: &StepState) -> bool {
    match state {
        StepState::Running(_) => true,
        StepState::Retrying { open, .. } => open.as_ref().is_some_and(|open| !open.foreign),
        _ => false,
    }
}

/// Why the action needs an approval although policy allows it, if it does. A recorded inverse is not validated: the
/// effect that it restores was approved, or allowed by policy.
fn validation_reason(step: &PlannedStep, context: &ActionContext<'_>) -> Option<Reason> {
    if context.origin == ActionOrigin::RecordedInverse {
        return None;
    }
    let message = match context.plan.validation {
        Validation::PerStep => Some("every action of this workflow needs an approval"),
        Validation::PerPhase if context.record.phase != Some(step.phase) => {
            Some("the first action of each phase needs an approval")
        }
        Validation::CriticalOnly if step.critical => Some("the step is critical"),
        Validation::CriticalOnly if context.plan.auto_approve.is_some() => {
            Some("`auto_approve` does not cover the action")
        }
        // The workflow check enforces a low blast radius; a plan that has another one is validated at every step.
        Validation::FinalOnly if step.blast_radius > BlastRadius::Low => {
            Some("validation `final_only` needs a low blast radius in every step")
        }
        Validation::FinalOnly if !context.has_later_effect => {
            Some("the last action of the run needs an approval")
        }
        Validation::PerPhase | Validation::CriticalOnly | Validation::FinalOnly => None,
    };
    message.map(|message| Reason::runtime("validation/mode", message))
}

/// Whether the validation can be skipped: the confidence is high enough, the step is not critical, the blast radius is at
/// most medium, and the environment is not production.
fn is_auto_approved(action: &Action, step: &PlannedStep, context: &ActionContext<'_>) -> bool {
    let both = context.confidence.zip(context.plan.auto_approve);
    let confident = both.is_some_and(|(confidence, min)| confidence >= min);
    confident
        && !step.critical
        && step.blast_radius <= BlastRadius::Medium
        && action.environment(context.plan.environment) != Environment::Prod
}

fn tier(step: &PlannedStep) -> Tier {
    match step.blast_radius {
        BlastRadius::Low => Tier::Low,
        BlastRadius::Medium => Tier::Medium,
        BlastRadius::High => Tier::High,
    }
}
