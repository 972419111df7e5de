//! Operations: what operators do with runs, workers, tenants and the fleet.

mod backout;
pub(crate) mod dispatch;
mod evidence;
mod health;
mod inspect;
mod pages;
mod run_commands;
mod tenants;
mod undo;
mod worker_registry;

pub use backout::{Backout, BackoutProgress, CountProgress};
pub use dispatch::{DispatchScope, DispatchState, STOP_VISIBLE_AFTER, StartProgress};
pub use evidence::EvidenceSigner;
pub use health::{FleetHealth, QueueHealth, TenantEntries};
pub use inspect::RunView;
pub use run_commands::SignalRun;
pub use tenants::{NewApiKey, TenantUpdate};
pub use undo::{NotUndoable, UndoCall, UndoEffect, UndoPlan};
