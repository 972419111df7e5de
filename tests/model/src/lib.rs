//! The protocol that keeps a run from being lost and its effects from happening twice, as a model
//! small enough to be explored completely.
//!
//! **What is modelled.** One run of up to three steps in one ledger; a queue that delivers at least
//! once; workers that receive, claim, perform, commit and delete; a service outside; an approver and a
//! timer who race for a wait; an operator who cancels; a person who answers for a paused run. Between
//! any two steps of any of them anything else may happen: a worker dies or freezes, a lease lapses
//! under a living holder, a message comes twice, the reply to a commit is lost, a request arrives long
//! after its sender lost the lease, a service refuses or keeps silent. How often is the world's
//! [`Budget`]; in what order is every order there is.
//!
//! **What is left out, and why it may be.**
//! - *Time.* A lease may lapse whenever the budget allows and a message may return whenever it likes, so
//!   no clock is trusted, right or wrong. A dead holder's lease always lapses, so no budget can make a
//!   run look stuck, or look well.
//! - *Versions and `op_id`s.* Both are only ever compared for equality. Whoever has read or written the
//!   record carries the answer to that comparison, and every write by somebody else makes it "no".
//! - *Requests that are lost.* Such a request is one that stays under way for ever, and every beginning
//!   of that story is explored.
//! - *Receiving a message only to leave it.* It changes nothing, so it is not a step.
//! - *Which worker is which.* Workers are interchangeable, and a state keeps them sorted; states are
//!   counted once for all the orders of the same workers.
//! - *Policy, approvals' contents, the event chain, payloads.* They decide what is proposed; this is
//!   about what becomes of it.
//!
//! Every step uses something up (a stage, a message, a request, a part of the budget), so every story
//! ends. "Nothing is lost" is therefore a property of single states: where nothing more is certain to
//! happen, the run has ended or waits for a person.
//!
//! **Why believe it.** A model that cannot fail proves nothing. Each [`Mutant`] takes one rule away, in
//! one branch of the code, and must break the promise that the rule is there for, in a world in which
//! the whole protocol keeps it. And a list of situations, from a take-over to a lost reply, must all
//! have been reached.
//!
//! Read `ledger` first: its `begin` is the table of the protocol, and the rest of it the transactions.

mod action;
mod check;
mod ledger;
mod model;
mod people;
mod properties;
mod report;
mod service;
mod state;
mod variants;
mod worker;
mod world;

pub use check::{Checked, Progress, Violation, check};
pub use report::{MutantReport, PropertyReport, Report, UNIQUE_STATES_MIN, check_mutant};
pub use variants::{Experiment, Variant, ci_variant, experiment, long_variant, small_variant};
pub use world::{Budget, Class, Mutant, Step, World};
