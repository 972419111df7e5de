//! Two exhaustively explored models. [`World::Protocol`]: no run is lost, and no effect happens twice.
//! [`World::Governance`]: no effect happens without the approvals that it needs; see `governance`.
//!
//! # The protocol
//!
//! **Modelled.** One run of up to three steps in one ledger; an at-least-once queue; workers that receive,
//! claim, perform, commit and delete; an external service; an approver and a timer that race for a wait; an
//! operator who cancels; a person who decides about a paused run. Faults may happen between any two steps: a
//! worker crashes or freezes, a lease expires under a live holder, a message is delivered twice, the reply to
//! a commit is lost, a request arrives long after its sender lost the lease, a service refuses or does not
//! answer. The `Budget` of a configuration limits how often each fault happens; all orders are explored.
//!
//! **Not modelled, and why that is sound.**
//! - *Time.* A lease may expire whenever the budget allows, and a message may return at any time, so the model
//!   trusts no clock. A crashed holder's lease always expires, so a small budget cannot make a run look stuck.
//! - *Versions and `op_id`s.* Both are only compared for equality. Each reader or writer of the record stores
//!   the result of that comparison, and every write by another actor sets it to false.
//! - *Lost requests.* A lost request is a request that stays in transit for ever. Every prefix of such a trace
//!   is explored.
//! - *Receiving a message and leaving it.* It changes nothing, so it is not an action.
//! - *The identity of workers.* Workers are interchangeable. A state stores them sorted, so permutations of
//!   the same workers are one state.
//! - *Policy, approval contents, the event chain, payloads.* They decide which action is proposed; this model
//!   covers what happens to a proposed action, and `governance` covers policy and approvals.
//!
//! Every action consumes something (a stage, a message, a request, a part of the budget), so every trace
//! ends. "No run is lost" is therefore a property of single states: where no further action is certain to
//! happen, the run has ended or waits for a person.
//!
//! **Validation.** Each `Mutant` removes one rule, in one branch of the code. It must violate the invariant
//! that the rule protects, in a configuration in which the unchanged protocol holds it. In addition, every
//! situation in a list (a take-over, a lost reply, …) must have been reached.
//!
//! Read `ledger` first: its `plan_effect` is the table of the protocol; the rest of the module is the transactions.

mod action;
mod actors;
mod check;
mod config;
mod governance;
mod ledger;
mod model;
mod properties;
mod report;
mod service;
mod state;
mod variants;
mod worker;

pub use check::{CheckResult, Progress, Violation};
pub use report::{CheckEvent, MutantReport, PropertyReport, Report};

/// What is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum World {
    /// Leases, fences, receipts and messages.
    #[default]
    Protocol,
    /// Policy, approvals and separation of duties.
    Governance,
}

/// Explores the configurations for CI, or the long ones too, and checks the mutants.
pub fn run(world: World, long: bool, on_event: &mut dyn FnMut(CheckEvent<'_>)) -> Report {
    match world {
        World::Protocol => {
            let variant = if long { variants::long_variant() } else { variants::ci_variant() };
            report::run(&variant, &config::Mutant::ALL.map(variants::experiment), on_event)
        }
        World::Governance => governance::run(long, on_event),
    }
}
