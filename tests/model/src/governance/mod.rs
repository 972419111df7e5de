//! A model of governance: no effect happens without the approvals that it needs.
//!
//! **Modelled.** One workflow, which a person applies and another starts; a second run that undoes the first or shares
//! its idempotency key; a worker that serves them. Every person may give every command at any time: start, apply,
//! signal, approve, reject, resume, roll back, undo, cancel. The directory, the policy and the external state change
//! in between; steps fail, workers crash and replies are lost. `Limits` bound how often each of these happens; all
//! orders are explored.
//!
//! **Real code decides.** Each transition runs the commands of the crate `domain` on real records, as the engine does.
//! Policy is a table. People give commands under one spelling of their names and vote under another.
//!
//! **The oracle** (`oracle`) is a small record of its own: who gave which command, who voted on which action, who was
//! in the directory. It reads no participants, approvals or verdicts of the domain. At each effect it decides by itself
//! whether enough people approved exactly this action, none of whom shaped it.
//!
//! **Not modelled, and why that is sound.** Versions, fences and stale workers are the subject of the protocol's model;
//! here each command is atomic. Time stands still, so approvals do not expire; `crates/domain/tests/properties` covers
//! expiry. Numbers and texts that no command compares (event numbers, reasons) are reset after every command, so that
//! histories with the same future are one state.
//!
//! **Validation.** Each [`Mutant`] removes one rule. It must violate the invariant that the rule protects.

mod actions;
mod config;
mod oracle;
mod properties;
mod state;
mod variants;

use config::Mutant;

use crate::report::{self, CheckEvent, Report};

pub(crate) fn run(long: bool, on_event: &mut dyn FnMut(CheckEvent<'_>)) -> Report {
    let variant = if long { variants::long_variant() } else { variants::ci_variant() };
    report::run(&variant, &Mutant::ALL.map(variants::experiment), on_event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::check;

    #[test]
    fn governance_holds_in_small_configurations() {
        let violations: Vec<_> = variants::small_variant()
            .configs
            .iter()
            .flat_map(|config| check(config, &mut |_| {}).violations)
            .collect();
        assert!(violations.is_empty(), "{violations:#?}");
    }

    #[test]
    fn every_governance_mutant_is_caught() {
        for mutant in Mutant::ALL {
            let report = report::check_mutant(&variants::experiment(mutant), &mut |_| {});
            assert!(report.is_as_expected(), "{report:#?}");
        }
    }
}
