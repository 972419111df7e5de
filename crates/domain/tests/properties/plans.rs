//! Plans of every shape, and the actions that their steps propose.
//!
//! The effect class follows from the tool's name. A call may name its key, so that two steps or two runs propose the
//! same effect.

use domain::plan::{ApprovalTiming, Call, Environment, OnReject, OnTimeout, Undo, Work};
use domain::retry_policy::{Backoff, RetryPolicy};
use domain::tenant::Person;
use domain::{
    Action, ApprovalRequirement, ApproverCount, BlastRadius, Digest, EffectClass, EventName, GroupName,
    IdempotencyKey, Millis, PersonId, Plan, PlannedStep, Reason, Reversibility, Ruling, RunId, StepId,
    StepSeq, Tenant, TenantId, Tier, ToolName, Verdict, WorkflowName,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::scenario::USERS;

/// Enough to start, continue, roll back more than one step, and end.
const STEPS_MAX: usize = 5;

/// A tool for each effect class; one more that forgets its keys after a short time, and one that destroys data.
const TOOLS: [&str; 7] = ["read", "native", "native.forgetful", "native.destructive", "set", "find", "shell"];

/// How long `native.forgetful` remembers a key.
const REMEMBERED_FOR: Millis = Millis::mins(30);

/// Any plan.
pub(crate) fn any_plan() -> impl Strategy<Value = Plan> {
    prop::collection::vec(any_step(), 1..=STEPS_MAX).prop_map(plan)
}

/// A plan of waits and of calls that need an approval, each with a rollback.
pub(crate) fn governed_plan() -> impl Strategy<Value = Plan> {
    let effects: Vec<&str> = TOOLS.into_iter().filter(|tool| *tool != "read").collect();
    let governed = (prop::sample::select(effects), any_on_reject(), any::<bool>());
    let governed = governed.prop_map(|(tool, on_reject, two)| PlannedStep {
        rollback: Some(Undo::Call(call(tool, None))),
        blast_radius: if two { BlastRadius::High } else { BlastRadius::Medium },
        on_reject,
        ..step(Work::Call(call(tool, None)))
    });
    let step = prop_oneof![2 => governed, 1 => any_wait().prop_map(step)];
    prop::collection::vec(step, 1..=3).prop_map(plan)
}

/// A plan of these steps.
pub(crate) fn plan(mut steps: Vec<PlannedStep>) -> Plan {
    for (seq, step) in steps.iter_mut().enumerate() {
        step.id = StepId::new(&format!("step-{seq}")).unwrap();
    }
    let workflow = WorkflowName::new("any").unwrap();
    Plan {
        author: Some(PersonId::new("person-3").unwrap()),
        approval_timing: ApprovalTiming { sla: Millis::mins(30), expires_after: Millis::hours(1) },
        ..Plan::new(workflow, Environment::Dev, steps)
    }
}

fn any_step() -> impl Strategy<Value = PlannedStep> {
    prop_oneof![
        6 => (any_call(), prop::option::of(any_call())).prop_map(|(call, rollback)| {
            PlannedStep { rollback: rollback.map(Undo::Call), ..step(Work::Call(call)) }
        }),
        2 => any_wait().prop_map(step),
        1 => any_gate().prop_map(step),
    ]
    .prop_flat_map(|step| {
        (any_retry(), any_blast(), any_on_reject(), prop::bool::weighted(0.03)).prop_map(
            move |(retry, blast_radius, on_reject, critical)| PlannedStep {
                retry,
                blast_radius,
                on_reject,
                critical,
                ..step.clone()
            },
        )
    })
}

fn any_blast() -> impl Strategy<Value = BlastRadius> {
    prop_oneof![6 => Just(BlastRadius::Low), 2 => Just(BlastRadius::Medium), 1 => Just(BlastRadius::High)]
}

fn any_on_reject() -> impl Strategy<Value = OnReject> {
    prop_oneof![Just(OnReject::Fail), Just(OnReject::Pause)]
}

/// The verdict of policy number `policy` on the action of `step`: the larger the blast radius, the more approvals.
/// Critical steps are denied.
pub(crate) fn verdict(step: &PlannedStep, policy: u8) -> Verdict {
    let ruling = match (step.critical, step.blast_radius) {
        (true, _) => Ruling::Deny,
        (false, BlastRadius::Low) => Ruling::Allow,
        (false, BlastRadius::Medium) => Ruling::NeedsApproval(ApprovalRequirement::default()),
        (false, BlastRadius::High) => Ruling::NeedsApproval(two_people()),
    };
    Verdict {
        ruling,
        reasons: vec![Reason::runtime("test", "so it is")],
        policy: Digest::of_bytes(&[policy]),
    }
}

/// The verdict with a rule of the policy that requires an approval.
pub(crate) fn requiring_approval(verdict: Verdict) -> Verdict {
    let rule =
        Reason { file: Some("policy.rego".to_owned()), ..Reason::runtime("strict", "approval required") };
    verdict.tightened(Ruling::NeedsApproval(ApprovalRequirement::default()), rule)
}

/// Two users of the group that has two members.
fn two_people() -> ApprovalRequirement {
    ApprovalRequirement {
        tier: Tier::High,
        people: ApproverCount::Two,
        groups: vec![GroupName::new("few").unwrap()],
        ..ApprovalRequirement::default()
    }
}

/// User number `number`. User 0 requests every run, user 3 wrote and user 4 applied its workflow.
pub(crate) fn person(number: u8) -> PersonId {
    PersonId::new(&format!("person-{number}")).unwrap()
}

/// Users 1 and 2 are the members of `few`.
pub(crate) fn tenant() -> Tenant {
    let few = [person(1), person(2)];
    let mut tenant = Tenant::new(TenantId::new("acme").unwrap());
    tenant.people = (0..USERS).map(|number| (person(number), Person::default())).collect();
    tenant.groups.insert(GroupName::new("few").unwrap(), few.into());
    tenant
}

/// A step that does `work`.
pub(crate) fn step(work: Work) -> PlannedStep {
    PlannedStep::new(StepId::new("unnamed").unwrap(), work)
}

/// A call of `tool`; `key` names an effect that is shared with other steps.
pub(crate) fn call(tool: &str, key: Option<&str>) -> Call {
    let with = key.map_or_else(|| json!({}), |key| json!({ "key": key }));
    Call { tool: ToolName::new(tool).unwrap(), connection: None, with }
}

fn any_call() -> impl Strategy<Value = Call> {
    let key = prop::option::weighted(0.3, prop::sample::select(vec!["shared:0", "shared:1"]));
    (prop::sample::select(TOOLS.to_vec()), key).prop_map(|(tool, key)| call(tool, key))
}

fn any_wait() -> impl Strategy<Value = Work> {
    let on_timeout = prop_oneof![Just(OnTimeout::Fail), Just(OnTimeout::Continue)];
    (0..2_u8, 1..7_200_000_u64, on_timeout).prop_map(|(event, timeout, on_timeout)| Work::Wait {
        event: event_name(event),
        timeout: Millis(timeout),
        on_timeout,
    })
}

/// Event number `number`.
pub(crate) fn event_name(number: u8) -> EventName {
    EventName::new(&format!("event-{number}")).unwrap()
}

fn any_gate() -> impl Strategy<Value = Work> {
    let requirement = prop_oneof![Just(ApprovalRequirement::default()), Just(two_people())];
    (1..7_200_000_u64, any_on_reject(), requirement).prop_map(|(expires_after, on_reject, requirement)| {
        Work::Gate {
            message: "Go on?".to_owned(),
            expires_after: Millis(expires_after),
            on_reject,
            requirement,
        }
    })
}

/// Any retry policy.
pub(crate) fn any_retry() -> impl Strategy<Value = RetryPolicy> {
    let backoff = prop_oneof![
        Just(Backoff::Table),
        (0..3_600_000_u64).prop_map(|base| Backoff::Exponential { base: Millis(base) }),
    ];
    (1..5_u32, any::<bool>(), backoff, 0..7_200_000_u64).prop_map(
        |(attempts, once_if_risky, backoff, cap)| RetryPolicy {
            attempts,
            once_if_risky,
            backoff,
            cap: Millis(cap),
        },
    )
}

/// The action that the step at `seq`, or its rollback, proposes. A step that is not a call proposes one too, so that tests
/// can try to claim it.
pub(crate) fn action(plan: &Plan, run: &RunId, seq: StepSeq, rollback: bool) -> Action {
    let step = plan.step(seq).unwrap();
    let done = match &step.work {
        Work::Call(call) => call.clone(),
        Work::Wait { .. } | Work::Gate { .. } => call("read", None),
    };
    let key = key_of(&done, run, &step.id);
    match (&step.rollback, rollback) {
        (Some(Undo::Call(undoing)), true) => action_of(undoing, key.reverse()),
        _ => action_of(&done, key),
    }
}

fn key_of(call: &Call, run: &RunId, step: &StepId) -> IdempotencyKey {
    match call.with["key"].as_str() {
        Some(shared) => IdempotencyKey::new(shared).unwrap(),
        None => IdempotencyKey::for_step(&call.tool, run, step),
    }
}

fn action_of(call: &Call, key: IdempotencyKey) -> Action {
    Action {
        tool: call.tool.clone(),
        contract: 1,
        class: class_of(call.tool.as_str()),
        reversibility: Reversibility::Compensable,
        target: format!("target of {key}"),
        key,
        key_retention: (call.tool.as_str() == "native.forgetful").then_some(REMEMBERED_FOR),
        changes: Vec::new(),
        destructive: call.tool.as_str() == "native.destructive",
        estimate_microusd: None,
        connection: None,
        fields: Value::Null,
    }
}

fn class_of(tool: &str) -> EffectClass {
    match tool {
        "read" => EffectClass::ReadOnly,
        "native" | "native.forgetful" | "native.destructive" => EffectClass::NativeKey,
        "set" => EffectClass::CompareAndSet,
        "find" => EffectClass::LookUp,
        _ => EffectClass::Opaque,
    }
}
