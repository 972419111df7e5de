//! The domain: the rules for runs.
//!
//! Ids, the run and step state machines, one file for each command, idempotency keys, receipts and the event chain. A
//! command takes the current state (a [`RunRecord`], a [`Plan`] and the time) and returns a [`Decision`] or a typed
//! [`Refusal`]. A decision contains the new record, its events, and everything else that the same commit writes and
//! sends. Nothing here does I/O, reads a clock or waits. The same arguments give the same decision, so tests can
//! simulate and model the rules.

#![warn(missing_docs)]

pub mod access;
pub mod applied_workflow;
pub mod approval;
pub mod audit;
pub mod audit_chain;
pub mod card_route;
pub mod chain;
pub mod command;
pub mod concurrency;
pub mod connection;
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
pub mod money;
pub mod next;
pub mod participant;
pub mod payload;
pub mod plan;
pub mod queue;
pub mod re2;
pub mod receipt;
pub mod record;
pub mod record_name;
pub mod refusal;
pub mod retry_policy;
pub mod tenant;
mod text;
pub mod time;
pub mod trace;
pub mod validation;
pub mod verdict;
pub mod view;
pub mod worker_registry;

pub use access::{ApiKey, Role, Roles};
pub use applied_workflow::AppliedWorkflow;
pub use approval::{Approval, ApprovalStatus, Card, Channel, Page, PageStatus, Subject, Vote};
pub use card_route::CardRoute;
pub use chain::{ChainError, ChainedEvent};
pub use command::{Command, Inherited};
pub use concurrency::{ConcurrencyKey, ConcurrencyRule, ConcurrencyScope, OnConflict};
pub use connection::{Connection, ConnectionKind, SecretRef};
pub use digest::Digest;
pub use dispatch::{DispatchStop, Fleet};
pub use draft::{Decision, DecisionContext, Draft, Job, Outgoing, ReceiptChange, ReceiptCheck, SignalChange};
pub use effect::{Action, ActionOrigin, EffectClass, FieldChange, Reversibility};
pub use event::{Event, EventBody};
pub use failure::Failure;
pub use id::{
    ApprovalId, BlastRadius, ConnectionName, EventName, Fence, GroupName, KeyId, OpId, PersonId, RunId,
    RunKey, SignalId, StepId, StepSeq, TenantId, ToolName, Version, WorkerId, WorkflowName, WorkspaceId,
};
pub use inbox::{InboxEntry, InboxStatus, Source, StartRequest};
pub use initiator::{Cause, Initiator};
pub use key::IdempotencyKey;
pub use machine::{RunStatus, StepStatus};
pub use participant::{Participant, ParticipantRole, Participants};
pub use payload::{BlobRef, Payload};
pub use plan::{Plan, PlannedStep};
pub use queue::QueueName;
pub use receipt::Receipt;
pub use record::{Charge, Evidence, Lease, ModelUsage, RunRecord, StepRecord, StepState};
pub use record_name::{InvalidRecord, RecordName};
pub use refusal::{Code, Refusal};
pub use tenant::Tenant;
pub use time::{Millis, Timestamp};
pub use trace::TraceContext;
pub use verdict::{ApprovalRequirement, ApproverCount, Reason, Ruling, Tier, Verdict};
pub use worker_registry::{DrainRequest, WorkerRecord, WorkerReport, WorkerStatus};
