//! The SQL statements. Every function runs inside a transaction that the caller begins and commits.
//!
//! A conditional write checks all its conditions before it writes. A superseded decision therefore leaves nothing
//! to roll back, and many decisions can share one transaction.

use std::collections::BTreeSet;

use domain::chain::StoredEvent;
use domain::record::Signal;
use domain::{
    BlobRef, ConcurrencyKey, Decision, Digest, IdempotencyKey, Job, Millis, Outgoing, Payload, Plan,
    QueueName, Receipt, ReceiptChange, ReceiptCheck, RecordName, RunId, RunKey, RunRecord, RunStatus,
    SignalChange, SignalId, StepRecord, StepSeq, TenantId, Timestamp, TraceContext, WorkspaceId,
};
use rusqlite::types::Type;
use rusqlite::{Connection, OptionalExtension, Params, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::blobs::BlobKind;
use crate::cursor::Cursor;
use crate::ledger::{Due, KeyAcquisition, KeyHolder, ORDER_SLACK, RunPage, RunQuery, Waiter, Write};
use crate::queue::{DeadLetter, Delivery, Handle};

pub(super) type Sql<T> = rusqlite::Result<T>;

/// How long a message that asks for evidence stays a dead letter: as long as its run had ended before, within these
/// bounds. The AWS store waits as long between two requests.
const EVIDENCE_RETRY_MIN: Millis = Millis::mins(15);
const EVIDENCE_RETRY_MAX: Millis = Millis::hours(24);

#[derive(Debug)]
pub(super) struct Received {
    pub(super) deliveries: Vec<Delivery>,
    /// When the next message becomes visible.
    pub(super) next: Option<Timestamp>,
}

/// Values that only the first commit of a run stores.
pub(super) struct FirstCommit {
    pub(super) input: Payload,
    pub(super) hold: Option<KeyAcquisition>,
}

pub(super) struct Db {
    pub(super) conn: Connection,
}

impl Db {
    /// Runs `BEGIN`, `COMMIT` or `ROLLBACK`.
    pub(super) fn transaction(&self, statement: &'static str) -> Sql<()> {
        self.conn.prepare_cached(statement)?.execute([]).map(|_| ())
    }

    pub(super) fn run_id(&self, run: &RunKey) -> Sql<Option<(i64, i64)>> {
        self.get(
            "SELECT id, version FROM runs WHERE tenant = ?1 AND run = ?2",
            (run.tenant.as_str(), run.run.as_str()),
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }

    pub(super) fn commit(
        &self,
        decision: &Decision,
        first: Option<&FirstCommit>,
        trace: TraceContext,
        now: Timestamp,
    ) -> Sql<Write> {
        let current = self.run_id(&decision.record.key)?;
        let expected = decision.replaces.map(|version| to_i64(version.0));
        if current.map(|(_, version)| version) != expected {
            return Ok(Write::Superseded);
        }
        let id = current.map(|(id, _)| id);
        if !self.receipts_are_current(&decision.receipts)?
            || !self.receipts_are_unchanged(&decision.record.key.tenant, &decision.receipt_checks)?
            || !self.signals_are_current(id, &decision.signals)?
            || !self.approvals_are_current(&decision.approvals)?
        {
            return Ok(Write::Superseded);
        }
        let hold = first.and_then(|first| first.hold.as_ref());
        if !self.acquire_concurrency_key(&decision.record.key, hold)? {
            return Ok(Write::Superseded);
        }
        let id = self.write_record(id, &decision.record)?;
        self.write_history(id, decision, first.map(|first| &first.input))?;
        self.write_receipts(&decision.receipts)?;
        self.write_signals(id, &decision.signals)?;
        self.write_approvals(id, &decision.approvals)?;
        for message in &decision.outgoing {
            self.send(message, trace, now)?;
        }
        Ok(Write::Committed)
    }

    /// Makes `run` the holder of the concurrency key. Returns `false` and writes nothing if the previous holder is
    /// another run.
    fn acquire_concurrency_key(&self, run: &RunKey, hold: Option<&KeyAcquisition>) -> Sql<bool> {
        let Some(KeyAcquisition { concurrency_key, previous_holder }) = hold else { return Ok(true) };
        if self.holder(&run.tenant, concurrency_key)?.map(|holder| holder.run) != *previous_holder {
            return Ok(false);
        }
        self.run(
            "INSERT OR REPLACE INTO concurrency_keys (tenant, concurrency_key, run) VALUES (?1, ?2, ?3)",
            params![run.tenant.as_str(), concurrency_key.as_bytes(), run.run.as_str()],
        )?;
        Ok(true)
    }

    pub(super) fn holder(
        &self,
        tenant: &TenantId,
        concurrency_key: &ConcurrencyKey,
    ) -> Sql<Option<KeyHolder>> {
        let key = params![tenant.as_str(), concurrency_key.as_bytes()];
        let parse_run = |row: &Row<'_>| -> Sql<RunId> {
            row.get_ref(0)?.as_str()?.parse().map_err(|error| conversion_error(0, error))
        };
        let sql = "SELECT run FROM concurrency_keys WHERE tenant = ?1 AND concurrency_key = ?2";
        let Some(run) = self.get(sql, key, parse_run)? else { return Ok(None) };
        let next = self.get(
            "SELECT run, since, woken_at FROM waiters WHERE tenant = ?1 AND concurrency_key = ?2 \
             ORDER BY since, run LIMIT 1",
            key,
            |row| {
                let woken = row.get::<_, Option<i64>>(2)?.map(Timestamp);
                Ok(Waiter { run: parse_run(row)?, since: Timestamp(row.get(1)?), woken })
            },
        )?;
        Ok(Some(KeyHolder { run, next }))
    }

    pub(super) fn enqueue_waiter(
        &self,
        (tenant, concurrency_key): (&TenantId, &ConcurrencyKey),
        Waiter { run, since, woken }: &Waiter,
    ) -> Sql<()> {
        self.run(
            "INSERT OR REPLACE INTO waiters (tenant, concurrency_key, since, run, woken_at) \
             VALUES (?1, ?2, ?3, ?4, ?5)",
            params![
                tenant.as_str(),
                concurrency_key.as_bytes(),
                since.0,
                run.as_str(),
                woken.map(|woken| woken.0)
            ],
        )
    }

    pub(super) fn remove_waiter(
        &self,
        (tenant, concurrency_key): (&TenantId, &ConcurrencyKey),
        Waiter { run, since, .. }: &Waiter,
    ) -> Sql<()> {
        self.run(
            "DELETE FROM waiters WHERE tenant = ?1 AND concurrency_key = ?2 AND since = ?3 AND run = ?4",
            params![tenant.as_str(), concurrency_key.as_bytes(), since.0, run.as_str()],
        )
    }

    fn receipts_are_current(&self, changes: &[ReceiptChange]) -> Sql<bool> {
        // With several changes to one key, the first one names the revision to replace and the last one is stored.
        for (index, change) in changes.iter().enumerate() {
            let key = &change.receipt.key;
            if changes[..index].iter().any(|earlier| earlier.receipt.key == *key) {
                continue;
            }
            if self.receipt_revision(&change.receipt.tenant, key)? != change.replaces {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn receipts_are_unchanged(&self, tenant: &TenantId, checks: &[ReceiptCheck]) -> Sql<bool> {
        for ReceiptCheck { key, revision } in checks {
            if self.receipt_revision(tenant, key)? != Some(*revision) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn receipt_revision(&self, tenant: &TenantId, key: &IdempotencyKey) -> Sql<Option<u32>> {
        self.get(
            "SELECT revision FROM receipts WHERE tenant = ?1 AND key = ?2",
            (tenant.as_str(), key.as_str()),
            |row| row.get(0),
        )
    }

    fn signals_are_current(&self, run: Option<i64>, changes: &[SignalChange]) -> Sql<bool> {
        for change in changes {
            let (id, must_exist) = match change {
                SignalChange::Record(signal) => (&signal.id, false),
                SignalChange::Use(id) => (id, true),
            };
            if self.signal_of(run.unwrap_or_default(), id)?.is_some() != must_exist {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn write_record(&self, id: Option<i64>, record: &RunRecord) -> Sql<i64> {
        let body = to_json(record)?;
        let due = record.due_at.map(|due| due.0);
        let (status, version) = (record.status.as_str(), to_i64(record.version.0));
        if let Some(id) = id {
            self.run(
                "UPDATE runs SET status = ?2, version = ?3, due_at = ?4, body = ?5 WHERE id = ?1",
                params![id, status, version, due, body],
            )?;
            return Ok(id);
        }
        let record_name = record.trigger.record.as_ref().map(RecordName::as_str);
        let (tenant, run) = (record.key.tenant.as_str(), record.key.run.as_str());
        self.run(
            "INSERT INTO runs (tenant, run, status, version, due_at, body, created_at, record) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            params![tenant, run, status, version, due, body, record.created_at.0, record_name],
        )?;
        Ok(self.conn.last_insert_rowid())
    }

    fn write_history(&self, id: i64, decision: &Decision, input: Option<&Payload>) -> Sql<()> {
        for chained in &decision.events {
            let n = chained.event.n;
            let step = decision.steps.iter().find(|step| step.event == n);
            let payload = match (step, input) {
                (Some(step), _) => Some(to_json(step)?),
                (None, Some(input)) if n == 0 => Some(to_json(input)?),
                (None, _) => None,
            };
            self.run(
                "INSERT INTO history (run, n, hash, event, seq, is_rollback, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![
                    id,
                    n,
                    chained.hash.as_bytes(),
                    chained.canonical,
                    step.map(|step| step.seq.0),
                    step.map(|step| step.rollback),
                    payload
                ],
            )?;
        }
        Ok(())
    }

    fn write_receipts(&self, changes: &[ReceiptChange]) -> Sql<()> {
        for ReceiptChange { receipt, displaces, .. } in changes {
            if let Some(displaced) = displaces {
                self.run(
                    "INSERT OR REPLACE INTO displaced (tenant, run, key, body) VALUES (?1, ?2, ?3, ?4)",
                    params![
                        displaced.tenant.as_str(),
                        displaced.run.as_str(),
                        displaced.key.as_str(),
                        to_json(displaced)?
                    ],
                )?;
            }
            self.run(
                "INSERT OR REPLACE INTO receipts (tenant, key, revision, body) VALUES (?1, ?2, ?3, ?4)",
                params![receipt.tenant.as_str(), receipt.key.as_str(), receipt.revision, to_json(receipt)?],
            )?;
        }
        Ok(())
    }

    fn write_signals(&self, run: i64, changes: &[SignalChange]) -> Sql<()> {
        for change in changes {
            let signal = match change {
                SignalChange::Record(signal) => signal.as_ref().clone(),
                SignalChange::Use(id) => match self.signal_of(run, id)? {
                    Some(signal) => Signal { buffered: false, ..signal },
                    None => continue,
                },
            };
            self.run(
                "INSERT OR REPLACE INTO signals (run, id, body) VALUES (?1, ?2, ?3)",
                params![run, signal.id.as_str(), to_json(&signal)?],
            )?;
        }
        Ok(())
    }

    pub(super) fn put_plan(&self, tenant: &TenantId, plan: &Plan) -> Sql<()> {
        self.run(
            "INSERT OR IGNORE INTO plans (tenant, hash, body) VALUES (?1, ?2, ?3)",
            params![tenant.as_str(), plan.hash().as_bytes(), to_json(plan)?],
        )
    }

    pub(super) fn plan(&self, tenant: &TenantId, hash: &Digest) -> Sql<Option<Plan>> {
        self.get(
            "SELECT body FROM plans WHERE tenant = ?1 AND hash = ?2",
            params![tenant.as_str(), hash.as_bytes()],
            body,
        )
    }

    pub(super) fn load(&self, run: &RunKey) -> Sql<Option<RunRecord>> {
        self.get(
            "SELECT body FROM runs WHERE tenant = ?1 AND run = ?2",
            (run.tenant.as_str(), run.run.as_str()),
            body,
        )
    }

    pub(super) fn input(&self, run: &RunKey) -> Sql<Option<Payload>> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(None) };
        self.get("SELECT payload FROM history WHERE run = ?1 AND n = 0", [id], body)
    }

    pub(super) fn steps(&self, run: &RunKey, only: Option<(StepSeq, bool)>) -> Sql<Vec<StepRecord>> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(Vec::new()) };
        let (seq, rollback) = only.map_or((None, None), |(seq, rollback)| (Some(seq.0), Some(rollback)));
        self.all(
            "SELECT payload FROM history WHERE run = ?1 AND seq IS NOT NULL \
             AND (?2 IS NULL OR (seq = ?2 AND is_rollback = ?3)) ORDER BY n",
            params![id, seq, rollback],
            body,
        )
    }

    pub(super) fn events(&self, run: &RunKey, from: u32, limit: u32) -> Sql<Vec<StoredEvent>> {
        let Some((id, _)) = self.run_id(run)? else { return Ok(Vec::new()) };
        self.all(
            "SELECT event, hash FROM history WHERE run = ?1 AND n >= ?2 ORDER BY n LIMIT ?3",
            params![id, from, limit],
            |row| Ok(StoredEvent { canonical: row.get(0)?, hash: digest(row.get(1)?)? }),
        )
    }

    pub(super) fn receipt(&self, tenant: &TenantId, key: &IdempotencyKey) -> Sql<Option<Receipt>> {
        self.get(
            "SELECT body FROM receipts WHERE tenant = ?1 AND key = ?2",
            (tenant.as_str(), key.as_str()),
            body,
        )
    }

    pub(super) fn displaced(&self, run: &RunKey, key: &IdempotencyKey) -> Sql<Option<Receipt>> {
        self.get(
            "SELECT body FROM displaced WHERE tenant = ?1 AND run = ?2 AND key = ?3",
            (run.tenant.as_str(), run.run.as_str(), key.as_str()),
            body,
        )
    }

    pub(super) fn signal(&self, run: &RunKey, id: &SignalId) -> Sql<Option<Signal>> {
        match self.run_id(run)? {
            Some((run, _)) => self.signal_of(run, id),
            None => Ok(None),
        }
    }

    fn signal_of(&self, run: i64, id: &SignalId) -> Sql<Option<Signal>> {
        self.get("SELECT body FROM signals WHERE run = ?1 AND id = ?2", params![run, id.as_str()], body)
    }

    pub(super) fn runs(&self, tenant: &TenantId, query: &RunQuery, before: Option<i64>) -> Sql<RunPage> {
        let (after, until) = self.row_bounds(tenant, query.since, query.until)?;
        let before = before.unwrap_or(i64::MAX).min(until);
        let row = |row: &Row<'_>| Ok((row.get::<_, i64>(1)?, body(row)?));
        let status = query.status.map(RunStatus::as_str);
        let record = query.record.as_ref().map(RecordName::as_str);
        // One run more than the limit shows whether there is a next page.
        let limit = query.limit.saturating_add(1);
        let mut found: Vec<(i64, RunRecord)> = self.all(
            &runs_statement(query),
            params![
                tenant.as_str(),
                status,
                record,
                after,
                before,
                query.since.map(|since| since.0),
                query.until.map(|until| until.0),
                limit,
                query.workspace.as_ref().map(WorkspaceId::as_str)
            ],
            row,
        )?;
        let more = found.len() > usize::try_from(query.limit).unwrap_or(usize::MAX);
        if more {
            found.pop();
        }
        let next = found.last().filter(|_| more).map(|(id, _)| Cursor::new(id.to_string()));
        Ok(RunPage { runs: found.into_iter().map(|(_, run)| run).collect(), next })
    }

    /// The rows between which the runs of a time range lie, both exclusive.
    fn row_bounds(
        &self,
        tenant: &TenantId,
        since: Option<Timestamp>,
        until: Option<Timestamp>,
    ) -> Sql<(i64, i64)> {
        let row = |row: &Row<'_>| row.get(0);
        let after = match since {
            Some(since) => self.get(
                "SELECT id FROM runs INDEXED BY runs_by_time WHERE tenant = ?1 AND created_at < ?2 \
                 ORDER BY created_at DESC LIMIT 1",
                params![tenant.as_str(), since.earlier(ORDER_SLACK).0],
                row,
            )?,
            None => None,
        };
        let before = match until {
            Some(until) => self.get(
                "SELECT id FROM runs INDEXED BY runs_by_time WHERE tenant = ?1 AND created_at >= ?2 \
                 ORDER BY created_at LIMIT 1",
                params![tenant.as_str(), (until + ORDER_SLACK).0],
                row,
            )?,
            None => None,
        };
        Ok((after.unwrap_or(0), before.unwrap_or(i64::MAX)))
    }

    pub(super) fn due_excluding(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Sql<Vec<Due>> {
        let mut due: Vec<(i64, Due)> = self.all(
            "SELECT tenant, run, due_at FROM runs INDEXED BY runs_by_due WHERE due_at IS NOT NULL AND due_at <= ?1 \
             AND tenant NOT IN (SELECT value FROM json_each(?3)) ORDER BY due_at LIMIT ?2",
            params![now.0, limit, to_json(excluded)?],
            |row| Ok((row.get(2)?, Due::Run(run_key(row, 0)?))),
        )?;
        due.extend(self.due_entries(excluded, now, limit)?);
        due.sort_by_key(|(at, _)| *at);
        Ok(due.into_iter().map(|(_, due)| due).take(usize::try_from(limit).unwrap_or(usize::MAX)).collect())
    }

    /// The first tenants after `after` with runs. The recursive query jumps from tenant to tenant in the index instead of
    /// reading every run.
    pub(super) fn tenants(&self, after: Option<&TenantId>, limit: u32) -> Sql<Vec<TenantId>> {
        self.all(
            "WITH RECURSIVE owners(tenant) AS (\
                 SELECT min(tenant) FROM runs WHERE tenant > ?1 \
                 UNION ALL \
                 SELECT (SELECT min(tenant) FROM runs WHERE tenant > owners.tenant) FROM owners \
                 WHERE owners.tenant IS NOT NULL) \
             SELECT tenant FROM owners WHERE tenant IS NOT NULL LIMIT ?2",
            params![after.map_or("", TenantId::as_str), limit],
            |row| row.get_ref(0)?.as_str()?.parse().map_err(|error| conversion_error(0, error)),
        )
    }

    pub(super) fn send(&self, message: &Outgoing, trace: TraceContext, now: Timestamp) -> Sql<()> {
        let Outgoing { run, queue, job, delay } = message;
        let (tenant, run) = (run.tenant.as_str(), run.run.as_str());
        self.run(
            "INSERT INTO messages (visible_at, queue, tenant, run, job, trace) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
            params![(now + *delay).0, queue.as_str(), tenant, run, job.to_string(), trace.to_string()],
        )
    }

    pub(super) fn next_visible(&self, queue: QueueName) -> Sql<Option<Timestamp>> {
        let mut earliest =
            self.conn.prepare_cached("SELECT min(visible_at) FROM messages WHERE queue = ?1")?;
        let next: Option<i64> = earliest.query_row([queue.as_str()], |row| row.get(0))?;
        Ok(next.map(Timestamp))
    }

    /// Whether a message that is not about a tenant in `except` is visible.
    pub(super) fn is_visible(
        &self,
        queue: QueueName,
        except: &BTreeSet<TenantId>,
        now: Timestamp,
    ) -> Sql<bool> {
        let found = self.get(
            "SELECT 1 FROM messages WHERE queue = ?1 AND visible_at <= ?2 \
             AND tenant NOT IN (SELECT value FROM json_each(?3)) LIMIT 1",
            params![queue.as_str(), now.0, to_json(except)?],
            |_| Ok(()),
        )?;
        Ok(found.is_some())
    }

    pub(super) fn receive(
        &self,
        (queue, except): (QueueName, &BTreeSet<TenantId>),
        max: usize,
        now: Timestamp,
        visibility: Millis,
        receives_max: u32,
    ) -> Sql<Received> {
        let max = i64::try_from(max).unwrap_or(i64::MAX);
        let found: Vec<(i64, Sql<Message>)> = self.all(
            "SELECT id, receives, tenant, run, job, trace FROM messages WHERE queue = ?1 AND visible_at <= ?2 \
             AND tenant NOT IN (SELECT value FROM json_each(?4)) ORDER BY visible_at, id LIMIT ?3",
            params![queue.as_str(), now.0, max, to_json(except)?],
            |row| Ok((row.get(0)?, Message::read(row))),
        )?;
        let mut deliveries = Vec::with_capacity(found.len());
        for (message, read) in found {
            let Message { receives, run, job, trace } = match read {
                Ok(read) => read,
                // It must not block the messages behind it.
                Err(error) => {
                    tracing::error!(
                        event = "message_undecodable", %queue, id = message, %error,
                        "message cannot be decoded; it is now a dead letter"
                    );
                    self.move_to_dead_letters(message, now)?;
                    continue;
                }
            };
            if receives >= receives_max {
                self.move_to_dead_letters(message, now)?;
                continue;
            }
            let handle = Handle::new(message.to_string(), receives.saturating_add(1));
            self.run(
                "UPDATE messages SET receives = ?2, visible_at = ?3 WHERE id = ?1",
                params![message, handle.receive(), (now + visibility).0],
            )?;
            let trace = trace.unwrap_or_else(|| TraceContext::of_run(&run));
            deliveries.push(Delivery { run, queue, job, trace, handle });
        }
        Ok(Received { deliveries, next: self.next_visible(queue)? })
    }

    fn move_to_dead_letters(&self, message: i64, now: Timestamp) -> Sql<()> {
        self.run(
            "INSERT INTO dead_letters (moved_at, receives, queue, tenant, run, job, trace) \
             SELECT ?2, receives, queue, tenant, run, job, trace FROM messages WHERE id = ?1",
            params![message, now.0],
        )?;
        self.run("DELETE FROM messages WHERE id = ?1", [message])
    }

    pub(super) fn extend(&self, handle: &Handle, visible_at: Timestamp) -> Sql<bool> {
        self.changed(
            "UPDATE messages SET visible_at = ?3 WHERE id = ?1 AND receives = ?2",
            params![message_id(handle), handle.receive(), visible_at.0],
        )
    }

    pub(super) fn delete(&self, handle: &Handle) -> Sql<bool> {
        self.changed(
            "DELETE FROM messages WHERE id = ?1 AND receives = ?2",
            params![message_id(handle), handle.receive()],
        )
    }

    pub(super) fn dead_letters(&self, limit: u32) -> Sql<Vec<DeadLetter>> {
        self.all(
            "SELECT id, receives, tenant, run, job, trace, moved_at, queue FROM dead_letters ORDER BY id LIMIT ?1",
            [limit],
            |row| {
                Ok(DeadLetter {
                    message: Message::read(row).ok().map(|message| (message.run, message.job)),
                    receives: row.get(1).unwrap_or_default(),
                    at: Timestamp(row.get(6)?),
                    queue: queue(row, 7)?,
                })
            },
        )
    }

    /// The dead letters that ask for evidence and are old enough to be tried again.
    pub(super) fn evidence_to_retry(&self, now: Timestamp, limit: u32) -> Sql<Vec<i64>> {
        self.all(
            "SELECT d.id FROM dead_letters d LEFT JOIN runs r ON r.tenant = d.tenant AND r.run = d.run \
             WHERE d.job = ?1 AND ?2 - d.moved_at >= \
             min(max(d.moved_at - coalesce(json_extract(r.body, '$.completed_at'), 0), ?3), ?4) \
             ORDER BY d.id LIMIT ?5",
            params![
                Job::BuildEvidence.to_string(),
                now.0,
                to_i64(EVIDENCE_RETRY_MIN.0),
                to_i64(EVIDENCE_RETRY_MAX.0),
                limit
            ],
            |row| row.get(0),
        )
    }

    /// Moves them back to their queue. Nothing else would request the evidence of their runs again.
    pub(super) fn retry_evidence(&self, now: Timestamp, limit: u32) -> Sql<u32> {
        let found = self.evidence_to_retry(now, limit)?;
        for id in &found {
            self.run(
                "INSERT INTO messages (queue, visible_at, tenant, run, job, trace) \
                 SELECT queue, ?2, tenant, run, job, trace FROM dead_letters WHERE id = ?1",
                params![id, now.0],
            )?;
            self.run("DELETE FROM dead_letters WHERE id = ?1", [id])?;
        }
        Ok(u32::try_from(found.len()).unwrap_or(u32::MAX))
    }

    /// An unreadable message stays where it is.
    pub(super) fn redrive(&self, limit: u32, now: Timestamp) -> Sql<u32> {
        let mut moved = 0;
        let mut after = 0;
        while moved < limit {
            let dead: Vec<(i64, Sql<Message>, QueueName)> = self.all(
                "SELECT id, receives, tenant, run, job, trace, queue FROM dead_letters WHERE id > ?2 \
                 ORDER BY id LIMIT ?1",
                params![limit - moved, after],
                |row| Ok((row.get(0)?, Message::read(row), queue(row, 6)?)),
            )?;
            let Some((last, ..)) = dead.last() else { break };
            after = *last;
            for (id, read, queue) in dead {
                let Ok(Message { run, job, trace, .. }) = read else { continue };
                let trace = trace.unwrap_or_else(|| TraceContext::of_run(&run));
                self.send(&Outgoing { run, queue, job, delay: Millis(0) }, trace, now)?;
                self.run("DELETE FROM dead_letters WHERE id = ?1", [id])?;
                moved += 1;
            }
        }
        Ok(moved)
    }

    pub(super) fn depth(&self, queue: QueueName) -> Sql<u64> {
        self.count("SELECT count(*) FROM messages WHERE queue = ?1", [queue.as_str()])
    }

    pub(super) fn visible(&self, queue: QueueName, now: Timestamp) -> Sql<u64> {
        let sql = "SELECT count(*) FROM messages WHERE queue = ?1 AND visible_at <= ?2";
        self.count(sql, params![queue.as_str(), now.0])
    }

    pub(super) fn jobs(&self, before: Timestamp) -> Sql<u64> {
        let sql = "SELECT count(*) FROM messages WHERE job <> 'advance' AND visible_at <= ?1";
        self.count(sql, [before.0])
    }

    fn count(&self, sql: &str, params: impl Params) -> Sql<u64> {
        let count: i64 = self.conn.prepare_cached(sql)?.query_row(params, |row| row.get(0))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }

    pub(super) fn put_blob(&self, owner: (BlobKind, &TenantId), blob: &BlobRef, bytes: &[u8]) -> Sql<()> {
        let (kind, tenant) = owner;
        self.run(
            "INSERT OR IGNORE INTO blobs (sha256, body) VALUES (?1, ?2)",
            params![blob.sha256.as_bytes(), bytes],
        )?;
        self.run(
            "INSERT OR IGNORE INTO blob_owners (kind, tenant, sha256) VALUES (?1, ?2, ?3)",
            params![kind.as_str(), tenant.as_str(), blob.sha256.as_bytes()],
        )
    }

    pub(super) fn blob(&self, (kind, tenant): (BlobKind, &TenantId), blob: &BlobRef) -> Sql<Option<Vec<u8>>> {
        self.get(
            "SELECT body FROM blob_owners JOIN blobs USING (sha256) WHERE kind = ?1 AND tenant = ?2 AND sha256 = ?3",
            params![kind.as_str(), tenant.as_str(), blob.sha256.as_bytes()],
            |row| row.get(0),
        )
    }

    pub(super) fn run(&self, sql: &str, params: impl Params) -> Sql<()> {
        self.conn.prepare_cached(sql)?.execute(params)?;
        Ok(())
    }

    pub(super) fn changed(&self, sql: &str, params: impl Params) -> Sql<bool> {
        Ok(self.conn.prepare_cached(sql)?.execute(params)? > 0)
    }

    pub(super) fn get<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnOnce(&Row<'_>) -> Sql<T>,
    ) -> Sql<Option<T>> {
        self.conn.prepare_cached(sql)?.query_row(params, read).optional()
    }

    pub(super) fn all<T>(
        &self,
        sql: &str,
        params: impl Params,
        read: impl FnMut(&Row<'_>) -> Sql<T>,
    ) -> Sql<Vec<T>> {
        self.conn.prepare_cached(sql)?.query_map(params, read)?.collect()
    }
}

/// The statement for a query. `INDEXED BY` makes SQLite return an error instead of scanning the table. A record has
/// few runs, so a query by record filters the status without an index.
fn runs_statement(query: &RunQuery) -> String {
    let (index, filter) = match (&query.record, query.status) {
        (Some(_), _) => ("runs_by_record", "record = ?3 AND (?2 IS NULL OR status = ?2)"),
        (None, Some(_)) => ("runs_by_status", "status = ?2 AND ?3 IS NULL"),
        (None, None) => ("runs_by_tenant", "?2 IS NULL AND ?3 IS NULL"),
    };
    format!(
        "SELECT body, id FROM runs INDEXED BY {index} WHERE tenant = ?1 AND {filter} AND id > ?4 AND id < ?5 \
         AND (?6 IS NULL OR created_at >= ?6) AND (?7 IS NULL OR created_at < ?7) \
         AND (?9 IS NULL OR json_extract(body, '$.workspace') = ?9) ORDER BY id DESC LIMIT ?8"
    )
}

/// SQLite integers are signed. No run reaches a version beyond `i64::MAX`.
fn to_i64(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn to_json(value: &impl Serialize) -> Sql<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(error.into()))
}

pub(super) fn body<T: DeserializeOwned>(row: &Row<'_>) -> Sql<T> {
    let text = row.get_ref(0)?.as_str()?;
    serde_json::from_str(text).map_err(|error| conversion_error(0, error))
}

/// The row id in a handle; `None` if this store did not issue the handle.
fn message_id(handle: &Handle) -> Option<i64> {
    handle.text().parse().ok()
}

fn digest(bytes: Vec<u8>) -> Sql<Digest> {
    let bytes: [u8; 32] = bytes.try_into().map_err(|_| conversion_error(1, "a hash must have 32 bytes"))?;
    Ok(Digest::from(bytes))
}

pub(super) fn run_key(row: &Row<'_>, first: usize) -> Sql<RunKey> {
    let tenant = row.get_ref(first)?.as_str()?.parse().map_err(|error| conversion_error(first, error))?;
    let run =
        row.get_ref(first + 1)?.as_str()?.parse().map_err(|error| conversion_error(first + 1, error))?;
    Ok(RunKey { tenant, run })
}

fn job(row: &Row<'_>, column: usize) -> Sql<Job> {
    row.get_ref(column)?.as_str()?.parse().map_err(|error| conversion_error(column, error))
}

/// The trace context of a message. A context that cannot be parsed is ignored.
fn trace(row: &Row<'_>, column: usize) -> Sql<Option<TraceContext>> {
    Ok(row.get_ref(column)?.as_str_or_null()?.and_then(|text| text.parse().ok()))
}

fn queue(row: &Row<'_>, column: usize) -> Sql<QueueName> {
    row.get_ref(column)?.as_str()?.parse().map_err(|error| conversion_error(column, error))
}

/// The content of a message.
struct Message {
    receives: u32,
    run: RunKey,
    job: Job,
    trace: Option<TraceContext>,
}

impl Message {
    /// Reads the columns `receives`, `tenant`, `run`, `job` and `trace`, after the id.
    fn read(row: &Row<'_>) -> Sql<Self> {
        let (receives, run) = (row.get(1)?, run_key(row, 2)?);
        Ok(Self { receives, run, job: job(row, 4)?, trace: trace(row, 5)? })
    }
}

fn conversion_error(
    column: usize,
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> rusqlite::Error {
    rusqlite::Error::FromSqlConversionFailure(column, Type::Text, error.into())
}
