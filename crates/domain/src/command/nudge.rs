//! Nudge: people have not answered yet. They are reminded once; when the answer is overdue, others are
//! told. The run keeps waiting: no passing of time approves anything.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::record::Live;
use crate::refusal::Refusal;

use super::Command;

/// It is time to remind, or to tell others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nudge;

impl Command for Nudge {
    type Answer = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        draft.open()?;
        let now = draft.now();
        let Live::WaitingApproval { approval: id, attempt, open, nudge_at, deadline } =
            draft.record.live.clone()
        else {
            return Err(Refusal::WrongWork { expected: "a step that asks people" });
        };
        if nudge_at > now {
            return Err(Refusal::NotBefore { at: nudge_at });
        }
        let mut approval = draft.asked(&id)?;
        let body = if approval.sla_at <= now {
            approval.escalated_at = Some(now);
            EventBody::ApprovalEscalated { approval: id.clone() }
        } else {
            approval.reminders = approval.reminders.saturating_add(1);
            EventBody::ApprovalReminded { approval: id.clone() }
        };
        draft.record_event(body);
        let nudge_at = approval.nudge_at();
        draft.record.live = Live::WaitingApproval { approval: id, attempt, open, nudge_at, deadline };
        draft.show_approval(approval);
        Ok(())
    }
}
