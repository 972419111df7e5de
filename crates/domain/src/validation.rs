//! What the runtime itself asks for on top of policy: caps, and the actions that a person sees even though
//! policy would allow them. Everything here can only make a verdict stricter.

use serde_json::Number;

use crate::effect::{Action, EffectClass};
use crate::id::{Blast, StepSeq};
use crate::plan::{Environment, Plan, PlannedStep, Validation};
use crate::record::RunRecord;
use crate::tenant::Caps;
use crate::verdict::{Demand, People, Reason, Ruling, Tier, Verdict};

/// What is known about an action beside the action itself.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Circumstances<'a> {
    /// The plan.
    pub plan: &'a Plan,
    /// The run.
    pub record: &'a RunRecord,
    /// The step whose action it is.
    pub seq: StepSeq,
    /// How much a run may do.
    pub caps: &'a Caps,
    /// How many effects the run has had, the one that is being recorded included.
    pub writes_done: u32,
    /// How many attempts at it failed.
    pub attempt: u32,
    /// How sure whoever proposed it is, in thousandths, if that is said.
    pub confidence: Option<u16>,
    /// Whether a later step is certain to have an effect too.
    pub more_to_come: bool,
}

/// `verdict`, held to the caps and to the workflow's validation mode.
pub fn tighten(verdict: Verdict, action: &Action, around: &Circumstances<'_>) -> Verdict {
    let Some(step) = around.plan.step(around.seq) else { return verdict };
    let verdict = within_caps(verdict, around);
    let verdict = ask_before_repeating(verdict, action, step, around);
    match (&verdict.ruling, asks(step, around)) {
        (Ruling::Allow, Some(because)) if !sure_enough(step, around) => {
            let demand = Demand { tier: tier(step), people: People::One, groups: Vec::new() };
            verdict.tightened(Ruling::NeedsApproval(demand), because)
        }
        _ => verdict,
    }
}

/// A number between 0 and 1 in thousandths, rounded down: nobody is surer than they say.
pub fn thousandths(number: &Number) -> Option<u16> {
    let number = number.as_f64().filter(|number| (0.0..=1.0).contains(number))?;
    // In range, so nothing is cut off.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
    let thousandths = (number * 1_000.0 + 1e-9) as u16;
    Some(thousandths)
}

fn within_caps(verdict: Verdict, around: &Circumstances<'_>) -> Verdict {
    let (done, max) = (around.writes_done, around.caps.max_writes_per_run);
    if around.record.is_undoing() || done < max {
        return verdict;
    }
    let says = format!("the run has had {done} effects, and the tenant allows {max} in one run");
    verdict.tightened(Ruling::Deny, Reason::runtime("caps/max_writes_per_run", says))
}

/// A second attempt at what cannot be asked about is a second effect if the first one happened after all.
fn ask_before_repeating(
    verdict: Verdict,
    action: &Action,
    step: &PlannedStep,
    around: &Circumstances<'_>,
) -> Verdict {
    if around.attempt == 0 || action.class != EffectClass::Opaque || step.blast < Blast::Medium {
        return verdict;
    }
    let demand = Demand { tier: tier(step), people: People::One, groups: Vec::new() };
    let reason = Reason::runtime("retry/asks-again", "another attempt at this kind of action needs a person");
    verdict.tightened(Ruling::NeedsApproval(demand), reason)
}

/// Why a person sees this action although policy allows it, if one does. Taking back is not validated again:
/// somebody has seen, or policy has allowed, what is taken back.
fn asks(step: &PlannedStep, around: &Circumstances<'_>) -> Option<Reason> {
    if around.record.is_undoing() {
        return None;
    }
    if step.blast == Blast::High {
        return Some(Reason::runtime("validation/blast_radius", "its blast radius is high"));
    }
    let asked = match around.plan.validation {
        Validation::PerStep => Some("every action of this workflow is seen by a person"),
        Validation::PerPhase if around.record.phase != Some(step.phase) => {
            Some("the first action of each phase is seen by a person")
        }
        Validation::CriticalOnly if step.critical => Some("the step is critical"),
        // Only where no step reaches far; a plan that claims otherwise is held to every step.
        Validation::FinalOnly if step.blast > Blast::Low => {
            Some("only the last action of a run with a low blast radius may go unseen")
        }
        Validation::FinalOnly if !around.more_to_come => {
            Some("the last action of the run is seen by a person")
        }
        Validation::PerPhase | Validation::CriticalOnly | Validation::FinalOnly => None,
    };
    asked.map(|says| Reason::runtime("validation/mode", says))
}

/// Whether nobody need see it after all: only where the proposer is sure, little can happen, and nothing
/// here matters to a customer.
fn sure_enough(step: &PlannedStep, around: &Circumstances<'_>) -> bool {
    let sure =
        matches!((around.confidence, around.plan.auto_approve), (Some(sure), Some(min)) if sure >= min);
    sure && step.blast <= Blast::Medium && around.plan.environment != Environment::Prod
}

fn tier(step: &PlannedStep) -> Tier {
    match step.blast {
        Blast::Low => Tier::Low,
        Blast::Medium => Tier::Medium,
        Blast::High => Tier::High,
    }
}
