//! Wake: the sweep found a run whose due time has passed, and sends somebody to look.

use crate::draft::Draft;
use crate::refusal::Refusal;

use super::Command;

/// Somebody should look at the run. Its due time moves, so that a fleet that is down does not find a
/// thousand messages for one run when it comes back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wake;

impl Command for Wake {
    type Answer = ();

    fn decide(self, draft: &mut Draft<'_>) -> Result<(), Refusal> {
        draft.open()?;
        match draft.record.due_at {
            Some(due) if due <= draft.now() => {
                draft.wake();
                Ok(())
            }
            // Somebody has looked, or has woken it, since the index was read.
            Some(due) => Err(Refusal::NotBefore { at: due }),
            None => Err(Refusal::Paused { run: draft.record.key.clone() }),
        }
    }
}
