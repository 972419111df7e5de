//! `RemindApprovers`: an approval is still open. Approvers get one reminder; at the SLA the approval is escalated. The run keeps
//! waiting: the passage of time approves nothing.

use crate::draft::Draft;
use crate::event::EventBody;
use crate::record::StepState;
use crate::refusal::Refusal;

use super::Command;

/// Sends the reminder or the escalation that is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemindApprovers;

impl Command for RemindApprovers {
    type Output = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        draft.ensure_active()?;
        let now = draft.now();
        let StepState::WaitingApproval { approval: id, attempt, open, next_reminder_at, deadline } =
            draft.record.step_state.clone()
        else {
            return Err(Refusal::WrongState { expected: "a step that waits for approval" });
        };
        if next_reminder_at > now {
            return Err(Refusal::NotBefore { at: next_reminder_at });
        }
        let mut approval = draft.approval(&id)?;
        let body = if approval.sla_at <= now {
            approval.escalated_at = Some(now);
            EventBody::ApprovalEscalated { approval: id.clone() }
        } else {
            approval.reminders = approval.reminders.saturating_add(1);
            EventBody::ApprovalReminded { approval: id.clone() }
        };
        draft.record_event(body);
        let next_reminder_at = approval.next_reminder_at();
        draft.record.step_state =
            StepState::WaitingApproval { approval: id, attempt, open, next_reminder_at, deadline };
        draft.publish_approval(approval);
        Ok(())
    }
}
