//! A run with an approval, and a fake Slack in which users decide it.

#![expect(dead_code, reason = "each test target uses a part of it")]

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::approval::Card;
use domain::command::{Admit, Cancel, ClaimResult, Command, RemindApprovers, TimeOut, VoteResult, admit};
use domain::plan::{ApprovalTiming, Call, Environment, Validation, Work};
use domain::tenant::Person;
use domain::{
    Action, Approval, ApprovalId, ApprovalRequirement, ApproverCount, Cause, Decision, DecisionContext,
    EffectClass, FieldChange, GroupName, Initiator, Millis, PersonId, Plan, PlannedStep, Reason, Refusal,
    Reversibility, Role, Ruling, StepId, Tenant, TenantId, Tier, Timestamp, ToolName, WorkflowName,
};
use fakes::slack::{ButtonPress, Callback, FakeSlack, Submission};
use serde_json::{Value, json};
use slack::client::SlackClientSettings;
use slack::interaction::parse;
use slack::signature::verify;
use slack::{Click, Interaction, InvalidClick, InvalidInteraction, Secrets, Slack, answer};
use testkit::ledger::{self, LedgerRun};

pub(crate) const TEAM: &str = "T0SIM";
pub(crate) const ANNA: &str = "U0ANNA";
pub(crate) const BEN: &str = "U0BEN";
/// A tenant user in no group.
pub(crate) const CARA: &str = "U0CARA";
/// In the group, but the requester of the run.
pub(crate) const RITA: &str = "U0RITA";
pub(crate) const SECRET: &str = "fake-signing-secret";

/// Why a click does not count.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum ClickError {
    Invalid(InvalidClick),
    Refused(Refusal),
}

/// A run with an approval, the directory of its tenant, and a clock.
pub(crate) struct PendingRun {
    pub(crate) now: Timestamp,
    pub(crate) run: LedgerRun,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    pub(crate) tenant: Tenant,
    people: ApproverCount,
}

impl PendingRun {
    /// A run whose first action waits for `people` approvals.
    pub(crate) fn asking(people: ApproverCount) -> Self {
        Self::asking_about(people, action("db-oncall"))
    }

    /// A run whose first action is `action` and waits for approval.
    pub(crate) fn asking_about(people: ApproverCount, action: Action) -> Self {
        let (plan, now) = (plan(), Timestamp(1_750_000_000_000));
        let request =
            Admit { trigger_kind: "cli".to_owned(), ..ledger::admit_command("acme", "cli:1", &Value::Null) };
        let by = Initiator::new(Cause::User, "rita");
        let record = admit(request, &plan, DecisionContext { by, ..ledger::context(now) }).record;
        let run = LedgerRun { plan: Arc::new(plan), record, approval: None };
        let mut env = Self { now, run, approvals: BTreeMap::new(), tenant: tenant(), people };
        assert_eq!(env.claim(action), ClaimResult::AwaitingApproval);
        env
    }

    /// The newest request for approval.
    pub(crate) fn approval(&self) -> Approval {
        self.run.approval.clone().unwrap()
    }

    /// Commits a decision. Returns false if the record changed since.
    pub(crate) fn commit(&mut self, decision: &Decision) -> bool {
        if decision.replaces != Some(self.run.record.version) {
            return false;
        }
        self.run.apply(decision);
        let approvals = decision.approvals.iter().map(|approval| (approval.id.clone(), approval.clone()));
        self.approvals.extend(approvals);
        true
    }

    /// A worker claims `action`, for which policy requires approval.
    pub(crate) fn claim(&mut self, action: Action) -> ClaimResult {
        let groups = vec![GroupName::new("oncall").unwrap()];
        let requirement = ApprovalRequirement {
            tier: Tier::High,
            people: self.people,
            groups,
            ..ApprovalRequirement::default()
        };
        let mut claim = ledger::claim_of(action, Ruling::NeedsApproval(requirement));
        let reasons = vec![Reason::runtime("prod-write", "a write in prod needs approval")];
        claim.assessment.as_mut().unwrap().verdict.reasons = reasons;
        self.run_command(claim)
    }

    fn try_decide<C: Command>(&self, command: C) -> Result<(C::Output, Decision), Refusal> {
        let (decision, output) = self.run.try_decide(ledger::context(self.now), command)?;
        Ok((output, decision))
    }

    /// Decides `command` and commits the decision.
    fn run_command<C: Command>(&mut self, command: C) -> C::Output {
        let (output, decision) = self.try_decide(command).unwrap();
        assert!(self.commit(&decision));
        output
    }

    /// Decides `click` without a commit.
    pub(crate) fn decide(&self, click: Click) -> Result<(VoteResult, Decision), ClickError> {
        let Some(approval) = self.approvals.get(&click.approval) else {
            return Err(ClickError::Invalid(InvalidClick::OtherApproval));
        };
        let answer = answer(click, approval.clone(), self.tenant.clone()).map_err(ClickError::Invalid)?;
        self.try_decide(answer).map_err(ClickError::Refused)
    }

    /// Decides `click` and commits the decision.
    pub(crate) fn answer(&mut self, click: Click) -> Result<VoteResult, ClickError> {
        let (answered, decision) = self.decide(click)?;
        assert!(self.commit(&decision));
        Ok(answered)
    }

    pub(crate) fn cancel(&mut self) {
        self.run_command(Cancel { reason: "not needed".to_owned() });
    }

    pub(crate) fn time_out(&mut self) {
        self.run_command(TimeOut);
    }

    pub(crate) fn remind(&mut self) {
        self.run_command(RemindApprovers);
    }

    pub(crate) fn now_secs(&self) -> i64 {
        self.now.0 / 1_000
    }
}

fn tenant() -> Tenant {
    let mut tenant = Tenant::new(TenantId::new("acme").unwrap());
    for (name, user) in [("anna", ANNA), ("ben", BEN), ("cara", CARA), ("rita", RITA)] {
        let slack_roles = [Role::Approver].into_iter().collect();
        let person = Person { slack: Some(format!("{TEAM}:{user}")), oidc: None, slack_roles };
        tenant.people.insert(PersonId::new(name).unwrap(), person);
    }
    let oncall = ["anna", "ben", "rita"].map(|name| PersonId::new(name).unwrap());
    tenant.groups.insert(GroupName::new("oncall").unwrap(), oncall.into());
    tenant
}

fn plan() -> Plan {
    let tool = ToolName::new("servicenow.update").unwrap();
    let step = PlannedStep::new(
        StepId::new("assign").unwrap(),
        Work::Call(Call { tool, connection: None, with: json!({}) }),
    );
    Plan {
        author: Some(PersonId::new("alan").unwrap()),
        validation: Validation::PerStep,
        approval_timing: ApprovalTiming { sla: Millis::mins(10), expires_after: Millis::hours(1) },
        ..Plan::new(WorkflowName::new("incident-triage").unwrap(), Environment::Prod, vec![step])
    }
}

/// Assigns an incident to `group`.
pub(crate) fn action(group: &str) -> Action {
    Action {
        tool: ToolName::new("servicenow.update").unwrap(),
        class: EffectClass::CompareAndSet,
        reversibility: Reversibility::Inverse,
        target: "incident/46d44a".to_owned(),
        fields: json!({ "assignment_group": group }),
        changes: vec![FieldChange {
            field: "assignment_group".to_owned(),
            before: Some(json!("service desk")),
            after: json!(group),
        }],
        ..ledger::action("sn:incident:update:46d44a")
    }
}

/// A fake Slack and a client for it.
pub(crate) struct Workspace {
    pub(crate) fake: FakeSlack,
    pub(crate) slack: Slack,
}

impl Workspace {
    pub(crate) async fn start() -> Self {
        let fake = FakeSlack::start().await.unwrap();
        let slack = client(&fake, "xoxb-fake", "C0APPROVALS");
        Self { fake, slack }
    }

    /// Posts the card of the newest approval.
    pub(crate) async fn post_card(&self, env: &PendingRun) -> Card {
        self.slack.sync_card(&env.approval(), None).await.unwrap()
    }

    /// `user` presses a button of `card`.
    pub(crate) fn press(&self, card: &Card, action_id: &str, user: &str, env: &PendingRun) -> Callback {
        let press =
            ButtonPress { place: &card.message, action_id, user, team: TEAM, at_secs: env.now_secs() };
        self.fake.press(&press).unwrap()
    }

    /// `user` presses Approve on `card`. Returns the parsed click.
    pub(crate) fn press_approve(&self, card: &Card, user: &str, env: &PendingRun) -> Click {
        let callback = self.press(card, slack::card::APPROVE, user, env);
        self.read_decision(&callback, env)
    }

    /// `user` presses Reject on `card` and enters a reason.
    pub(crate) async fn submit_rejection(
        &self,
        card: &Card,
        user: &str,
        reason: &str,
        env: &PendingRun,
    ) -> Click {
        let pressed = self.press(card, slack::card::REJECT, user, env);
        let Ok(Interaction::RejectPressed(click)) = self.read(&pressed, env) else {
            unreachable_click(&pressed)
        };
        self.slack.open_reject_modal(&click).await.unwrap();
        let view = self.fake.views().pop().unwrap().id;
        let submission =
            Submission { view: &view, user, team: TEAM, text: reason, choice: None, at_secs: env.now_secs() };
        self.read_decision(&self.fake.submit_view(&submission).unwrap(), env)
    }

    /// Verifies and parses a request.
    pub(crate) fn read(
        &self,
        callback: &Callback,
        env: &PendingRun,
    ) -> Result<Interaction, InvalidInteraction> {
        let secrets = Secrets::new(SECRET.into()).unwrap();
        let Callback { timestamp, signature, body } = callback;
        verify(&secrets, Some(timestamp), Some(signature), body, env.now).unwrap();
        parse(body, &self.slack.response_origin())
    }

    fn read_decision(&self, callback: &Callback, env: &PendingRun) -> Click {
        match self.read(callback, env) {
            Ok(Interaction::Decision(click)) => click,
            _ => unreachable_click(callback),
        }
    }

    /// The blocks of the message of `card`, as text.
    pub(crate) fn card_text(&self, card: &Card) -> String {
        let message = self.fake.message(&card.message).unwrap();
        message.blocks.to_string()
    }
}

#[expect(clippy::panic, reason = "a test fails by it")]
fn unreachable_click(callback: &Callback) -> ! {
    panic!("not the click that was expected: {}", callback.payload())
}

pub(crate) fn client(fake: &FakeSlack, token: &str, channel: &str) -> Slack {
    let base_url = format!("{}/api", fake.url()).parse().unwrap();
    Slack::new(SlackClientSettings { base_url, token: token.into(), channel: channel.to_owned() }).unwrap()
}
