//! The audit log that a command reads: of the tenant through the API, or of the changes for all tenants from the store.

use api_types::{AuditedChange, LIMIT_MAX};
use domain::TenantId;
use domain::audit_chain::{AuditHead, AuditRecord};
use engine::{AuditQuery, Engine};
use evidence::AuditExport;
use store::{Cursor, Store};

use crate::any_store::{AnyStore, with_store};
use crate::api_session::ApiSession;
use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;

/// Which log a command reads.
#[derive(Debug, clap::Args)]
pub(crate) struct Scope {
    /// Use the log of the changes for all tenants: of the store, not through a server
    #[arg(long)]
    pub(super) all: bool,
}

pub(super) enum AuditLog {
    Tenant(Box<ApiSession>),
    Fleet(AnyStore),
}

/// A page of a log.
pub(super) struct Page {
    pub(super) changes: Vec<AuditedChange>,
    next: Option<String>,
}

impl AuditLog {
    pub(super) fn open(scope: &Scope, context: &Context) -> Result<Self, CliError> {
        if scope.all {
            context.require_store()?;
            return context.any_store(IfMissing::Fail).map(Self::Fleet);
        }
        context.connect().map(|session| Self::Tenant(Box::new(session)))
    }

    pub(super) fn tenant(&self) -> Option<&TenantId> {
        match self {
            Self::Tenant(session) => Some(&session.tenant),
            Self::Fleet(_) => None,
        }
    }

    /// The log in words.
    pub(super) fn name(&self) -> String {
        self.tenant().map_or_else(|| "all tenants".to_owned(), |tenant| format!("tenant {tenant}"))
    }

    /// Up to `limit` changes, newest first.
    pub(super) async fn newest(
        &self,
        kind: Option<&str>,
        limit: u32,
    ) -> Result<Vec<AuditedChange>, CliError> {
        let (mut changes, mut cursor) = (Vec::new(), None);
        loop {
            let left = limit.saturating_sub(u32::try_from(changes.len()).unwrap_or(u32::MAX)).min(LIMIT_MAX);
            if left == 0 {
                return Ok(changes);
            }
            let page = self.page(kind, cursor, left).await?;
            changes.extend(page.changes);
            cursor = page.next;
            if cursor.is_none() {
                return Ok(changes);
            }
        }
    }

    async fn page(&self, kind: Option<&str>, cursor: Option<String>, limit: u32) -> Result<Page, CliError> {
        match self {
            Self::Tenant(session) => {
                let page = session.client.audit(kind, cursor, limit).await?;
                Ok(Page { changes: page.changes, next: page.next })
            }
            Self::Fleet(store) => {
                let (after, kind) = (cursor.map(Cursor::new), kind.map(str::to_owned));
                let query = AuditQuery { after, limit, kind };
                with_store!(store.clone(), |store| fleet_page(&fleet(store)?, query).await)
            }
        }
    }

    pub(super) async fn entry(&self, sequence: u64) -> Result<Option<AuditedChange>, CliError> {
        match self {
            Self::Tenant(session) => match session.client.audit_entry(sequence).await {
                Err(error) if error.is("NOT_FOUND") => Ok(None),
                found => Ok(Some(found?)),
            },
            Self::Fleet(store) => with_store!(store.clone(), |store| {
                let record = fleet(store)?.operations().fleet_audit_record(sequence).await?;
                Ok(record.map(AuditedChange::from))
            }),
        }
    }

    async fn head(&self) -> Result<AuditHead, CliError> {
        match self {
            Self::Tenant(session) => Ok(session.client.audit_head().await?.into()),
            Self::Fleet(store) => with_store!(store.clone(), |store| {
                Ok(fleet(store)?.operations().fleet_audit_head().await?)
            }),
        }
    }

    /// The whole log, and the head that it had when the command started. An entry after that head is left out, unless
    /// the head is still the same at the end: then it was altered, which a verification reports.
    pub(super) async fn read(&self) -> Result<AuditExport, CliError> {
        let head = self.head().await?;
        let mut records: Vec<AuditRecord> =
            self.newest(None, u32::MAX).await?.into_iter().map(AuditRecord::from).collect();
        records.reverse();
        let newest = records.last().map_or(0, |record| record.sequence);
        if newest > head.sequence && self.head().await?.sequence >= newest {
            records.retain(|record| record.sequence <= head.sequence);
        }
        Ok(AuditExport::new(self.tenant().cloned(), records, head))
    }
}

/// `1 entry`, `2 entries`.
pub(super) fn entries(count: usize) -> String {
    if count == 1 { "1 entry".to_owned() } else { format!("{count} entries") }
}

fn fleet<S: Store>(store: S) -> Result<Engine<S>, CliError> {
    command_engine(store, default_tools())
}

async fn fleet_page<S: Store>(engine: &Engine<S>, query: AuditQuery) -> Result<Page, CliError> {
    let page = engine.operations().fleet_audit(query).await?;
    let next = page.next.as_ref().map(ToString::to_string);
    Ok(Page { changes: page.entries.into_iter().map(AuditedChange::from).collect(), next })
}
