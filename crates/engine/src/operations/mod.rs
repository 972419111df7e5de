//! Operations: what operators do with runs, workers and the fleet. `sweep` wakes runs whose due time has passed.

mod backout;
mod dispatch;
mod evidence;
mod fleet;
mod health;
mod inspect;
mod pages;
mod run_commands;
mod sweep;
mod undo;
mod worker_registry;

pub use backout::{Backout, BackoutProgress, CountProgress};
pub use dispatch::{DispatchScope, STOP_VISIBLE_AFTER, StartProgress};
pub use health::{FleetHealth, QueueHealth, TenantEntries};
pub use inspect::RunView;
pub use run_commands::SignalRun;
pub use sweep::SweepResult;
pub use undo::{NotUndoable, UndoCall, UndoEffect, UndoPlan};

crate::core::service! {
    /// What operators do with runs, workers and the fleet.
    OperationsService
}
