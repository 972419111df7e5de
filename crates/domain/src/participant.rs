//! Participants: the users whose input shaped a run.
//!
//! Separation of duties: a participant may not approve the run's actions. The events of the run name every participant
//! except the author of the workflow, so an auditor can derive the same list from the evidence.

use serde::{Deserialize, Serialize};
use strum::IntoStaticStr;

use crate::event::{Event, EventBody};
use crate::id::PersonId;
use crate::initiator::{Cause, Initiator};
use crate::record::Trigger;

/// A user whose input shaped a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Participant {
    /// The user.
    pub person: PersonId,
    /// What the user did first.
    pub role: ParticipantRole,
}

/// What a participant did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, IntoStaticStr)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ParticipantRole {
    /// Requested the run.
    Requester,
    /// Wrote the workflow.
    Author,
    /// Applied the version of the workflow.
    Applier,
    /// Sent an event whose payload the run can read.
    Signaler,
    /// Resumed the run, and so asked for another attempt.
    Resumer,
    /// Canceled the run or requested its rollback.
    Canceler,
    /// Rejected an action, so that the run is rolled back.
    Rejecter,
}

impl ParticipantRole {
    /// The role as a noun.
    pub fn as_str(self) -> &'static str {
        self.into()
    }
}

/// The participants of a run, each once, with their first role.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Participants(Vec<Participant>);

impl Participants {
    /// Adds a user, unless the user is a participant already.
    pub fn add(&mut self, person: PersonId, role: ParticipantRole) {
        if self.role_of(&person).is_none() {
            self.0.push(Participant { person, role });
        }
    }

    /// Adds the users whose input `event` records.
    pub fn add_from(&mut self, event: &Event) {
        if let EventBody::RunAdmitted { trigger, .. } = &event.body {
            self.add_trigger(trigger);
        }
        if let (Some(role), Some(person)) = (role(event), user(&event.by)) {
            self.add(person, role);
        }
    }

    /// Adds the users whose input started the run.
    pub(crate) fn add_trigger(&mut self, trigger: &Trigger) {
        self.add_optional(trigger.requester.as_ref(), ParticipantRole::Requester);
        self.add_optional(trigger.applied_by.as_ref(), ParticipantRole::Applier);
        self.add_all(&trigger.shaped_by);
    }

    pub(crate) fn add_all(&mut self, others: &Self) {
        for Participant { person, role } in others.each() {
            self.add(person.clone(), *role);
        }
    }

    fn add_optional(&mut self, person: Option<&PersonId>, role: ParticipantRole) {
        if let Some(person) = person {
            self.add(person.clone(), role);
        }
    }

    /// The same, with the author of the workflow.
    #[must_use]
    pub fn with_author(mut self, author: Option<&PersonId>) -> Self {
        self.add_optional(author, ParticipantRole::Author);
        self
    }

    /// The role of `person`, if the user is a participant.
    pub fn role_of(&self, person: &PersonId) -> Option<ParticipantRole> {
        self.0.iter().find(|participant| participant.person == *person).map(|participant| participant.role)
    }

    /// Every participant, in the order of their first input.
    pub fn each(&self) -> impl Iterator<Item = &Participant> {
        self.0.iter()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The role that the cause of an event has, if its input shapes what the run does.
fn role(event: &Event) -> Option<ParticipantRole> {
    match (&event.body, event.by.cause) {
        // A vote decides about the action that it names. Only a rejection that starts a rollback leads to other actions.
        (EventBody::RollbackStarted { .. }, Cause::Approval) => Some(ParticipantRole::Rejecter),
        (_, Cause::Approval) => None,
        (EventBody::EventDelivered { .. } | EventBody::EventBuffered { .. }, _) => {
            Some(ParticipantRole::Signaler)
        }
        (EventBody::RunResumed { .. }, _) => Some(ParticipantRole::Resumer),
        (EventBody::RollbackStarted { .. } | EventBody::CancelRequested { .. }, _) => {
            Some(ParticipantRole::Canceler)
        }
        _ => None,
    }
}

/// The user that `by` names, if a user caused the event.
pub(crate) fn user(by: &Initiator) -> Option<PersonId> {
    match by.cause {
        Cause::User | Cause::Approval => PersonId::new(&by.id).ok(),
        Cause::System | Cause::Timeout | Cause::Policy | Cause::Webhook => None,
    }
}
