//! SQL statements for the inbox and for the workflows that its entries may start.

use std::collections::BTreeSet;

use domain::{AppliedWorkflow, Digest, InboxEntry, InboxStatus, RunKey, TenantId, Timestamp, WorkflowName};
use rusqlite::params;

use crate::inbox::{DueSchedule, Reopen, StoredEntry};
use crate::ledger::{Due, Write};

use super::db::{Db, Sql, body, run_key, to_json};

/// How many expired entries each accepted entry deletes: more than one, so that the table shrinks.
const EXPIRED_MAX: u32 = 8;

impl Db {
    pub(super) fn accept(&self, entry: &InboxEntry, now: Timestamp) -> Sql<StoredEntry> {
        self.run(
            "DELETE FROM inbox_entries WHERE (tenant, run) IN \
             (SELECT tenant, run FROM inbox_entries WHERE expires_at IS NOT NULL AND expires_at <= ?1 \
             ORDER BY expires_at LIMIT ?2)",
            params![now.0, EXPIRED_MAX],
        )?;
        let (tenant, proof) = (entry.run.tenant.as_str(), entry.proof.as_bytes());
        if let Some(duplicate) = self.duplicate(entry, now)? {
            return Ok(StoredEntry::Duplicate(Box::new(duplicate)));
        }
        self.run(
            "INSERT OR REPLACE INTO inbox_entries \
             (tenant, run, proof, expires_at, due_at, body, dedupe_key, received_at) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![
                tenant,
                entry.run.run.as_str(),
                proof,
                entry.expires_at().map(|at| at.0),
                entry.due_at().map(|at| at.0),
                to_json(entry)?,
                entry.dedupe_key.as_ref().map(Digest::as_bytes),
                entry.at.0
            ],
        )?;
        Ok(StoredEntry::New)
    }

    /// The entry with the same run id, the same proof, or a recent one with the same dedupe key.
    ///
    /// Each condition is its own query. With one combined query SQLite may choose to scan the whole table.
    fn duplicate(&self, entry: &InboxEntry, now: Timestamp) -> Sql<Option<InboxEntry>> {
        let tenant = entry.run.tenant.as_str();
        let same: Option<InboxEntry> = self.get(
            "SELECT body FROM inbox_entries WHERE tenant = ?1 AND run = ?2 AND (expires_at IS NULL OR +expires_at > ?3)",
            params![tenant, entry.run.run.as_str(), now.0],
            body,
        )?;
        if same.is_some() {
            return Ok(same);
        }
        let same_proof: Option<InboxEntry> = self.get(
            "SELECT body FROM inbox_entries INDEXED BY inbox_entries_by_proof \
             WHERE tenant = ?1 AND proof = ?2 AND (expires_at IS NULL OR +expires_at > ?3)",
            params![tenant, entry.proof.as_bytes(), now.0],
            body,
        )?;
        match same_proof {
            Some(entry) => Ok(Some(entry)),
            None => self.recent_duplicate(entry),
        }
    }

    /// The latest entry with the same dedupe key, if it is recent.
    fn recent_duplicate(&self, entry: &InboxEntry) -> Sql<Option<InboxEntry>> {
        let Some(dedupe_key) = &entry.dedupe_key else { return Ok(None) };
        let latest: Option<InboxEntry> = self.get(
            "SELECT body FROM inbox_entries INDEXED BY inbox_entries_by_dedupe_key \
             WHERE tenant = ?1 AND dedupe_key = ?2 ORDER BY received_at DESC LIMIT 1",
            params![entry.run.tenant.as_str(), dedupe_key.as_bytes()],
            body,
        )?;
        Ok(latest.filter(|latest| entry.is_duplicate_of(latest)))
    }

    pub(super) fn entry(&self, run: &RunKey) -> Sql<Option<InboxEntry>> {
        self.get(
            "SELECT body FROM inbox_entries WHERE tenant = ?1 AND run = ?2",
            (run.tenant.as_str(), run.run.as_str()),
            body,
        )
    }

    pub(super) fn set_status(&self, run: &RunKey, status: InboxStatus, expires_at: Timestamp) -> Sql<Write> {
        let update = |entry| InboxEntry { status, ..entry };
        self.change_status(run, &InboxStatus::Pending, update, (Some(expires_at), None))
    }

    pub(super) fn reopen(&self, run: &RunKey, reopen: &Reopen) -> Sql<Write> {
        let update = |entry| InboxEntry { status: InboxStatus::Pending, tries: reopen.tries, ..entry };
        self.change_status(run, &reopen.was, update, (None, Some(reopen.due_at)))
    }

    pub(super) fn postpone_entry(&self, run: &RunKey, due_at: Timestamp) -> Sql<Write> {
        self.change_status(run, &InboxStatus::Pending, |entry| entry, (None, Some(due_at)))
    }

    /// Pending entries that are due, with their due times.
    pub(super) fn due_entries(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Sql<Vec<(i64, Due)>> {
        self.all(
            "SELECT tenant, run, due_at FROM inbox_entries INDEXED BY inbox_entries_by_due \
             WHERE due_at IS NOT NULL AND due_at <= ?1 AND tenant NOT IN (SELECT value FROM json_each(?3)) \
             ORDER BY due_at LIMIT ?2",
            params![now.0, limit, to_json(excluded)?],
            |row| Ok((row.get(2)?, Due::Entry(run_key(row, 0)?))),
        )
    }

    fn change_status(
        &self,
        run: &RunKey,
        was: &InboxStatus,
        change: impl FnOnce(InboxEntry) -> InboxEntry,
        (expires_at, due_at): (Option<Timestamp>, Option<Timestamp>),
    ) -> Sql<Write> {
        let Some(entry) = self.entry(run)?.filter(|entry| entry.status == *was) else {
            return Ok(Write::Superseded);
        };
        self.run(
            "UPDATE inbox_entries SET body = ?3, expires_at = ?4, due_at = ?5 WHERE tenant = ?1 AND run = ?2",
            params![
                run.tenant.as_str(),
                run.run.as_str(),
                to_json(&change(entry))?,
                expires_at.map(|at| at.0),
                due_at.map(|at| at.0)
            ],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn apply(&self, applied: &AppliedWorkflow, due: Option<Timestamp>) -> Sql<Write> {
        let current = self.current_version(&applied.tenant, applied.workflow.as_str())?;
        if !applied.may_replace(current.as_ref().map(|(current, _)| current)) {
            return Ok(Write::Superseded);
        }
        let same_trigger = current.filter(|(current, _)| current.triggered_by == applied.triggered_by);
        let due = same_trigger.map_or(due, |(_, was_due)| was_due.or(due));
        let (name, body) = ((applied.tenant.as_str(), applied.workflow.as_str()), to_json(applied)?);
        self.run(
            "INSERT OR REPLACE INTO workflows (tenant, workflow, body, due_at) VALUES (?1, ?2, ?3, ?4)",
            params![name.0, name.1, body, due.map(|due| due.0)],
        )?;
        self.run(
            "INSERT OR REPLACE INTO workflow_versions (tenant, workflow, version, body) VALUES (?1, ?2, ?3, ?4)",
            params![name.0, name.1, applied.version, body],
        )?;
        Ok(Write::Committed)
    }

    /// The current version of a workflow, and its due time.
    fn current_version(
        &self,
        tenant: &TenantId,
        workflow: &str,
    ) -> Sql<Option<(AppliedWorkflow, Option<Timestamp>)>> {
        self.get(
            "SELECT body, due_at FROM workflows WHERE tenant = ?1 AND workflow = ?2",
            (tenant.as_str(), workflow),
            |row| Ok((body(row)?, row.get::<_, Option<i64>>(1)?.map(Timestamp))),
        )
    }

    pub(super) fn due_schedules(&self, now: Timestamp, limit: u32) -> Sql<Vec<DueSchedule>> {
        let due = self.all(
            "SELECT body, due_at FROM workflows WHERE due_at IS NOT NULL AND due_at <= ?1 ORDER BY due_at LIMIT ?2",
            params![now.0, limit],
            |row| {
                let at = Timestamp(row.get(1)?);
                // A schedule that cannot be decoded must not block the others.
                let log = |error| {
                    tracing::warn!(event = "schedule_undecodable", %error, "skipped an undecodable schedule");
                };
                Ok(body(row).map_err(log).ok().map(|applied| DueSchedule { applied, at }))
            },
        )?;
        Ok(due.into_iter().flatten().collect())
    }

    pub(super) fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Sql<Write> {
        let DueSchedule { applied, at } = due;
        let current = self.current_version(&applied.tenant, applied.workflow.as_str())?;
        if current.is_none_or(|(current, was_due)| current.plan != applied.plan || was_due != Some(*at)) {
            return Ok(Write::Superseded);
        }
        self.run(
            "UPDATE workflows SET due_at = ?3 WHERE tenant = ?1 AND workflow = ?2",
            params![applied.tenant.as_str(), applied.workflow.as_str(), to.map(|to| to.0)],
        )?;
        Ok(Write::Committed)
    }

    pub(super) fn applied(&self, tenant: &TenantId) -> Sql<Vec<AppliedWorkflow>> {
        self.all("SELECT body FROM workflows WHERE tenant = ?1 ORDER BY workflow", [tenant.as_str()], body)
    }

    pub(super) fn versions(&self, tenant: &TenantId, workflow: &WorkflowName) -> Sql<Vec<AppliedWorkflow>> {
        self.all(
            "SELECT body FROM workflow_versions WHERE tenant = ?1 AND workflow = ?2 ORDER BY version DESC",
            (tenant.as_str(), workflow.as_str()),
            body,
        )
    }
}
