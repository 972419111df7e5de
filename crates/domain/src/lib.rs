//! What may happen.
//!
//! Ids, the run machine and the step machine, one file per command, idempotency keys, receipts, the event
//! chain. A command looks at what is known (a [`RunRecord`], a [`Plan`], the time it is given) and answers
//! with a [`Decision`] — the new record, the events, what is to be written and sent beside it — or with a
//! typed [`Refusal`]. Nothing here does I/O, reads a clock or waits: two calls with the same arguments give
//! the same answer, which is what makes the simulation and the model worth believing.

pub mod access;
pub mod approval;
pub mod chain;
pub mod command;
pub mod cron;
pub mod digest;
pub mod dispatch;
pub mod draft;
pub mod effect;
pub mod event;
pub mod failure;
pub mod id;
pub mod inbox;
pub mod initiator;
pub mod json;
pub mod key;
pub mod machine;
pub mod merkle;
pub mod next;
pub mod payload;
pub mod plan;
pub mod queue;
pub mod receipt;
pub mod record;
pub mod record_name;
pub mod refusal;
pub mod registry;
pub mod schedule;
pub mod tenant;
mod text;
pub mod ticket;
pub mod time;
pub mod trace;
pub mod validation;
pub mod verdict;
pub mod view;
pub mod worker_registry;

pub use access::{ApiKey, Role, Roles};
pub use approval::{Approval, ApprovalStatus, Card, Channel, Subject, Vote};
pub use chain::{ChainFault, SealedEvent};
pub use command::Command;
pub use digest::Digest;
pub use dispatch::{Fleet, Stopped};
pub use draft::{Decision, Draft, Job, Outgoing, ReceiptChange, SignalChange, Stamp};
pub use effect::{Action, EffectClass, FieldChange, Reversibility};
pub use event::{Event, EventBody};
pub use failure::Failure;
pub use id::{
    ApprovalId, Blast, EventName, Fence, GroupName, KeyId, OpId, PersonId, RunId, RunKey, SignalId, StepId,
    StepSeq, TenantId, ToolName, Version, WorkerId, WorkflowName, WorkspaceId,
};
pub use inbox::{Asked, InboxEntry, InboxStatus, Source};
pub use initiator::{Cause, Initiator};
pub use key::IdempotencyKey;
pub use machine::{RunStatus, StepStatus};
pub use payload::{BlobRef, Payload};
pub use plan::{Plan, PlannedStep};
pub use queue::QueueName;
pub use receipt::Receipt;
pub use record::{Evidence, Lease, Live, RunRecord, StepRecord, Usage};
pub use record_name::{InvalidRecord, RecordName};
pub use refusal::{Code, Refusal};
pub use registry::Applied;
pub use tenant::Tenant;
pub use ticket::{Ticket, TicketRule, WhenTaken};
pub use time::{Millis, Timestamp};
pub use trace::TraceContext;
pub use verdict::{Demand, People, Reason, Ruling, Tier, Verdict};
pub use worker_registry::{DrainRequest, WorkerRecord, WorkerReport, WorkerStatus};
