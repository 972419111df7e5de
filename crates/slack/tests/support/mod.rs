//! A run that asks people, and a simulated Slack in which they answer.

#![expect(dead_code, reason = "each test target uses a part of it")]

use std::collections::BTreeMap;

use domain::approval::Card;
use domain::command::{Admit, Answered, Cancel, Claim, Claimed, Command as _, Governed, TimeOut, admit};
use domain::payload::Fingerprint;
use domain::plan::{Call, Environment, OnReject, Patience, Phase, Reads, Validation, Work};
use domain::schedule::RetryPolicy;
use domain::tenant::Person;
use domain::{
    Action, Approval, ApprovalId, Blast, Cause, Decision, Demand, Digest, Draft, EffectClass, FieldChange,
    GroupName, IdempotencyKey, Initiator, Millis, OpId, People, PersonId, Plan, PlannedStep, Reason, Refusal,
    Reversibility, Ruling, RunRecord, Stamp, StepId, Tenant, TenantId, Tier, Timestamp, ToolName, Verdict,
    WorkerId, WorkflowName, WorkspaceId,
};
use fakes::slack::{Callback, Press, SimulatedSlack, Submission};
use serde_json::{Value, json};
use slack::client::Settings;
use slack::interaction::parse;
use slack::signature::verify;
use slack::{Click, Interaction, InvalidInteraction, Secrets, Slack, Unanswerable, answer};

pub(crate) const TEAM: &str = "T0SIM";
pub(crate) const ANNA: &str = "U0ANNA";
pub(crate) const BEN: &str = "U0BEN";
/// Known, but in no group.
pub(crate) const CARA: &str = "U0CARA";
/// In the group, but asked for the run.
pub(crate) const RITA: &str = "U0RITA";
pub(crate) const SECRET: &str = "simulated-signing-secret";

/// Why a click came to nothing.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum No {
    Unanswerable(Unanswerable),
    Refused(Refusal),
}

/// All that a ledger keeps of one run, and a clock.
pub(crate) struct Story {
    pub(crate) now: Timestamp,
    pub(crate) record: RunRecord,
    pub(crate) approvals: BTreeMap<ApprovalId, Approval>,
    pub(crate) tenant: Tenant,
    plan: Plan,
    people: People,
    writes: u32,
}

impl Story {
    /// A run whose first action waits for so many people.
    pub(crate) fn asking(people: People) -> Self {
        Self::asking_about(people, action("db-oncall"))
    }

    /// A run whose first action is `action`, and waits for people.
    pub(crate) fn asking_about(people: People, action: Action) -> Self {
        let (plan, now) = (plan(), Timestamp(1_750_000_000_000));
        let wish = Admit {
            tenant: TenantId::new("acme").unwrap(),
            workspace: WorkspaceId::new("main").unwrap(),
            trigger_kind: "cli".to_owned(),
            record: None,
            trace: None,
            key: IdempotencyKey::new("cli:1").unwrap(),
            input: Fingerprint::of(&Value::Null),
        };
        let by = Initiator::new(Cause::User, "rita");
        let stamp = Stamp { op: OpId::new("op-0").unwrap(), now, by };
        let record = admit(wish, &plan, stamp).record;
        let approvals = BTreeMap::new();
        let mut story = Self { now, record, approvals, tenant: tenant(), plan, people, writes: 0 };
        assert_eq!(story.claim(action), Claimed::Asked);
        story
    }

    /// The newest request for approval.
    pub(crate) fn approval(&self) -> Approval {
        let newest = ApprovalId::derive(&self.record.key, self.record.approvals - 1);
        self.approvals[&newest].clone()
    }

    fn draft(&self) -> Draft<'_> {
        let op = OpId::new(&format!("op-{}", self.writes + 1)).unwrap();
        let stamp = Stamp { op, now: self.now, by: Initiator::new(Cause::System, "test") };
        let asked = self.record.approvals.checked_sub(1).map(|_| self.approval());
        Draft::new(self.record.clone(), &self.plan, stamp).knowing(asked)
    }

    /// Keeps a decision if nobody was faster.
    pub(crate) fn commit(&mut self, decision: Decision) -> bool {
        if decision.replaces != Some(self.record.version) {
            return false;
        }
        self.writes += 1;
        self.approvals.extend(decision.approvals.into_iter().map(|approval| (approval.id.clone(), approval)));
        self.record = decision.record;
        true
    }

    /// A worker wants to do `action`, for which policy wants people.
    pub(crate) fn claim(&mut self, action: Action) -> Claimed {
        let groups = vec![GroupName::new("oncall").unwrap()];
        let demand = Demand { tier: Tier::High, people: self.people, groups };
        let because = vec![Reason::runtime("prod-write", "a write in prod needs people")];
        let verdict = Verdict { ruling: Ruling::NeedsApproval(demand), because, policy: Digest::ZERO };
        let claim = Claim {
            owner: WorkerId::new("worker").unwrap(),
            lease: Millis::secs(30),
            action,
            receipt: None,
            abandoned: false,
            governed: Some(Governed { verdict, found: None }),
        };
        let (claimed, decision) = self.decided(|draft| claim.decide(draft)).unwrap();
        assert!(self.commit(decision));
        claimed
    }

    fn decided<T>(
        &self,
        decide: impl FnOnce(&mut Draft<'_>) -> Result<T, Refusal>,
    ) -> Result<(T, Decision), Refusal> {
        let mut draft = self.draft();
        let said = decide(&mut draft)?;
        Ok((said, draft.close()))
    }

    /// What the rules say to `click`; nothing is kept yet.
    pub(crate) fn decide(&self, click: Click) -> Result<(Answered, Decision), No> {
        let Some(approval) = self.approvals.get(&click.approval) else {
            return Err(No::Unanswerable(Unanswerable::OtherApproval));
        };
        let answer = answer(click, approval.clone(), self.tenant.clone()).map_err(No::Unanswerable)?;
        self.decided(|draft| answer.decide(draft)).map_err(No::Refused)
    }

    /// `click` is decided, and kept if it is granted.
    pub(crate) fn answer(&mut self, click: Click) -> Result<Answered, No> {
        let (answered, decision) = self.decide(click)?;
        assert!(self.commit(decision));
        Ok(answered)
    }

    pub(crate) fn cancel(&mut self) {
        let cancel = Cancel { reason: "not needed".to_owned() };
        let (_, decision) = self.decided(|draft| cancel.decide(draft)).unwrap();
        assert!(self.commit(decision));
    }

    pub(crate) fn time_out(&mut self) {
        let (_, decision) = self.decided(|draft| TimeOut.decide(draft)).unwrap();
        assert!(self.commit(decision));
    }

    pub(crate) fn nudge(&mut self) {
        let ((), decision) = self.decided(|draft| domain::command::Nudge.decide(draft)).unwrap();
        assert!(self.commit(decision));
    }

    pub(crate) fn now_secs(&self) -> i64 {
        self.now.0 / 1_000
    }
}

fn tenant() -> Tenant {
    let mut tenant = Tenant::new(TenantId::new("acme").unwrap());
    for (name, user) in [("anna", ANNA), ("ben", BEN), ("cara", CARA), ("rita", RITA)] {
        let person = Person { slack: Some(format!("{TEAM}:{user}")) };
        tenant.people.insert(PersonId::new(name).unwrap(), person);
    }
    let oncall = ["anna", "ben", "rita"].map(|name| PersonId::new(name).unwrap());
    tenant.groups.insert(GroupName::new("oncall").unwrap(), oncall.into());
    tenant
}

fn plan() -> Plan {
    let tool = ToolName::new("servicenow.update").unwrap();
    let step = PlannedStep {
        id: StepId::new("assign").unwrap(),
        work: Work::Call(Call { tool, with: json!({}) }),
        retry: RetryPolicy::default(),
        blast: Blast::Low,
        critical: false,
        phase: Phase::Main,
        on_reject: OnReject::Fail,
        confidence: None,
        rollback: None,
        reads: Reads::default(),
        rollback_reads: Reads::default(),
    };
    Plan {
        workflow: WorkflowName::new("incident-triage").unwrap(),
        version: 1,
        environment: Environment::Prod,
        author: Some(PersonId::new("alan").unwrap()),
        validation: Validation::PerStep,
        patience: Patience { sla: Millis::mins(10), expires_after: Millis::hours(1) },
        auto_approve: None,
        triggered_by: None,
        ticket: None,
        sample: None,
        steps: vec![step],
    }
}

/// Assigns an incident to `group`.
pub(crate) fn action(group: &str) -> Action {
    Action {
        tool: ToolName::new("servicenow.update").unwrap(),
        contract: 1,
        class: EffectClass::CompareAndSet,
        reversibility: Reversibility::Inverse,
        target: "incident/46d44a".to_owned(),
        key: IdempotencyKey::new("sn:incident:update:46d44a").unwrap(),
        key_retention: None,
        fields: json!({ "assignment_group": group }),
        changes: vec![FieldChange {
            field: "assignment_group".to_owned(),
            before: Some(json!("service desk")),
            after: json!(group),
        }],
        destructive: false,
        estimate_microusd: None,
    }
}

/// A simulated Slack and a client for it.
pub(crate) struct Workspace {
    pub(crate) simulated: SimulatedSlack,
    pub(crate) slack: Slack,
}

impl Workspace {
    pub(crate) async fn start() -> Self {
        let simulated = SimulatedSlack::start().await.unwrap();
        let slack = client(&simulated, "xoxb-simulated", "C0APPROVALS");
        Self { simulated, slack }
    }

    /// Shows the newest approval of `story` to people who have seen nothing.
    pub(crate) async fn show(&self, story: &Story) -> Card {
        self.slack.show(&story.approval(), None).await.unwrap()
    }

    /// Somebody presses a button of `card`.
    pub(crate) fn press(&self, card: &Card, action_id: &str, user: &str, story: &Story) -> Callback {
        let press = Press { place: &card.place, action_id, user, team: TEAM, at_secs: story.now_secs() };
        self.simulated.press(&press).unwrap()
    }

    /// Somebody presses Approve on `card`; their click, as it is read.
    pub(crate) fn approves(&self, card: &Card, user: &str, story: &Story) -> Click {
        let callback = self.press(card, slack::card::APPROVE, user, story);
        self.answered(&callback, story)
    }

    /// Somebody presses Reject on `card` and says why.
    pub(crate) async fn rejects(&self, card: &Card, user: &str, reason: &str, story: &Story) -> Click {
        let pressed = self.press(card, slack::card::REJECT, user, story);
        let Ok(Interaction::WantsToReject(click)) = self.read(&pressed, story) else {
            unreachable_click(&pressed)
        };
        self.slack.ask_reason(&click).await.unwrap();
        let view = self.simulated.views().pop().unwrap().id;
        let submission = Submission {
            view: &view,
            user,
            team: TEAM,
            text: reason,
            choice: None,
            at_secs: story.now_secs(),
        };
        self.answered(&self.simulated.submit_view(&submission).unwrap(), story)
    }

    /// A request from outside, verified and read.
    pub(crate) fn read(&self, callback: &Callback, story: &Story) -> Result<Interaction, InvalidInteraction> {
        let secrets = Secrets::new(SECRET.into()).unwrap();
        let Callback { timestamp, signature, body } = callback;
        verify(&secrets, Some(timestamp), Some(signature), body, story.now).unwrap();
        parse(body, &self.slack.hooks())
    }

    fn answered(&self, callback: &Callback, story: &Story) -> Click {
        match self.read(callback, story) {
            Ok(Interaction::Answered(click)) => click,
            _ => unreachable_click(callback),
        }
    }

    /// All that stands on the message of `card`, as text.
    pub(crate) fn seen(&self, card: &Card) -> String {
        let message = self.simulated.message(&card.place).unwrap();
        message.blocks.to_string()
    }
}

#[expect(clippy::panic, reason = "a test fails by it")]
fn unreachable_click(callback: &Callback) -> ! {
    panic!("not the click that was expected: {}", callback.payload())
}

pub(crate) fn client(simulated: &SimulatedSlack, token: &str, channel: &str) -> Slack {
    let base_url = simulated.url().parse().unwrap();
    Slack::new(Settings { base_url, token: token.into(), channel: channel.to_owned() }).unwrap()
}
