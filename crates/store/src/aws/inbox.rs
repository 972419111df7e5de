//! What came in from outside, and the workflows it may start.
//!
//! An entry is two items written together: itself, under the run it may start, and a small one under what
//! proved where it comes from. Whichever of the two stands there already tells that it was here before. Where the same
//! may be told twice in other words there is a third, under what is told, with the time.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Applied, Digest, InboxEntry, InboxStatus, Millis, RunKey, TenantId, Timestamp, WorkflowName};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::inbox::{Accepted, Again, DueSchedule, Inbox};
use crate::ledger::Write;
use crate::queue::Queue;

use super::commit::{Guard, Transaction};
use super::error::Class;
use super::index::Due;
use super::item::{BODY, CAME_AT, Item, RUN, Unfit, number, read_number, read_text, text};
use super::key::Key;
use super::table::DUE;
use super::{AwsStore, Condition, TIME_TO_LIVE, was, with};

const ACCEPTING: &str = "keep an entry";
const APPLYING: &str = "put a workflow to use";
const SETTLING: &str = "settle an entry";

/// How long it is known what an entry told: longer than anybody asks, and clocks differ.
const ALIKE_KEPT: Millis = Millis::hours(1);

/// The part of the due index that schedules stand in. They are few, and move when they come round: one part is enough,
/// and every look at it is paid for.
const SCHEDULES: &str = "schedule";

/// The plan of a workflow, beside its body.
const OF_PLAN: &str = "of_plan";

/// What became of an entry, beside its body, which never changes.
const INBOX_STATUS: &str = "inbox_status";
/// How often it was refused or unwanted before that.
const TRIES: &str = "tries";

impl<Q, B> Inbox for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn accept(&self, entry: InboxEntry) -> Result<Accepted, StoreError> {
        let transaction = self.arriving(&entry).await?;
        let order = self.orders.next(self.clock.now());
        match self.transact(transaction, &name(&entry, self.salt, order.as_str())).await {
            Ok(()) => Ok(Accepted::New),
            Err(fault) if fault.class == Class::Superseded => {
                let known = self.known(&entry).await?;
                // What stood in the way is gone, as everything here is one day.
                known
                    .map(|known| Accepted::Known(Box::new(known)))
                    .ok_or(StoreError::Busy { doing: ACCEPTING })
            }
            Err(fault) => Err(fault.write(ACCEPTING)),
        }
    }

    async fn entry(&self, run: &RunKey) -> Result<Option<InboxEntry>, StoreError> {
        let doing = "read an entry";
        let Some(item) = self.get(&Key::entry(run), doing).await? else { return Ok(None) };
        let status = read_text(&item, INBOX_STATUS).and_then(|status| serde_json::from_str(status).ok());
        let status = status.ok_or_else(|| StoreError::broken(doing, Unfit::Missing(INBOX_STATUS)))?;
        let tries = read_number(&item, TRIES).unwrap_or_default();
        Ok(Some(InboxEntry { status, tries, ..self.read(&item, doing).await? }))
    }

    async fn settle(
        &self,
        run: &RunKey,
        status: InboxStatus,
        forget_at: Timestamp,
    ) -> Result<Write, StoreError> {
        let values = Item::from([
            (":pending".to_owned(), told(&InboxStatus::Pending)?),
            (":status".to_owned(), told(&status)?),
            (":ttl".to_owned(), seconds(forget_at)),
        ]);
        let words = "SET inbox_status = :status, #ttl = :ttl";
        self.update(&Key::entry(run), words, "inbox_status = :pending", values, SETTLING).await
    }

    async fn reopen(&self, run: &RunKey, again: Again) -> Result<Write, StoreError> {
        let values = Item::from([
            (":pending".to_owned(), told(&InboxStatus::Pending)?),
            (":tries".to_owned(), number(again.tries)),
            (":ttl".to_owned(), seconds(again.keep_until)),
            was(told(&again.was)?),
        ]);
        let words = "SET inbox_status = :pending, tries = :tries, #ttl = :ttl";
        self.update(&Key::entry(run), words, "inbox_status = :was", values, "reopen an entry").await
    }

    async fn apply(&self, applied: Applied, due: Option<Timestamp>) -> Result<Write, StoreError> {
        let doing = APPLYING;
        let key = Key::workflow(&applied.tenant, applied.workflow.as_str());
        let stands = self.get(&key, doing).await?;
        let before: Option<Applied> = match &stands {
            Some(item) => Some(self.read(item, doing).await?),
            None => None,
        };
        if !applied.follows(before.as_ref()) {
            return Ok(Write::Superseded);
        }
        let dedupe_key = before.is_some_and(|before| before.triggered_by == applied.triggered_by);
        let was_due = stands.as_ref().filter(|_| dedupe_key).and_then(|item| read_number(item, DUE.range));
        let due = was_due.map(Timestamp).or(due);
        let body = stands.and_then(|mut stands| stands.remove(BODY));
        let condition = body.map_or_else(Condition::is_new, Condition::body);
        let transaction = self.applying(&applied, due, condition).await?;
        let order = self.orders.next(self.clock.now());
        match self.transact(transaction, &applied_name(&applied, self.salt, order.as_str())).await {
            Ok(()) => Ok(Write::Committed),
            // Somebody put another one to use in between: it must be looked at first.
            Err(fault) if fault.class == Class::Superseded => Err(StoreError::Busy { doing }),
            Err(fault) => Err(fault.write(doing)),
        }
    }

    async fn due_schedules(&self, now: Timestamp, limit: u32) -> Result<Vec<DueSchedule>, StoreError> {
        let doing = "find due schedules";
        let found = self.due_in(SCHEDULES, Due::of_all(now, limit, doing)).await?;
        let keys: Vec<Key> = found.iter().filter_map(Key::of).collect();
        let mut due = Vec::new();
        for item in self.get_all(&keys, doing).await? {
            // The index may be late.
            let at = read_number(&item, DUE.range).map(Timestamp).filter(|at| *at <= now);
            let Some(at) = at else { continue };
            let applied = self.read_or_pass_over(&item, doing).await?;
            due.extend(applied.map(|applied| DueSchedule { applied, at }));
        }
        due.sort_by_key(|due| due.at);
        Ok(due)
    }

    async fn reschedule(&self, due: &DueSchedule, to: Option<Timestamp>) -> Result<Write, StoreError> {
        let DueSchedule { applied, at } = due;
        let mut values =
            Item::from([was(number(at.0)), (":plan".to_owned(), text(applied.plan.to_string()))]);
        let words = match to {
            Some(to) => {
                values.insert(":to".to_owned(), number(to.0));
                "SET due_at = :to"
            }
            None => "REMOVE due_in, due_at",
        };
        let key = Key::workflow(&applied.tenant, applied.workflow.as_str());
        let stands = "due_at = :was AND of_plan = :plan";
        self.update(&key, words, stands, values, "reschedule a workflow").await
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<Applied>, StoreError> {
        let doing = "read the workflows in use";
        let ends = (Key::workflow(tenant, ""), Key::workflow(tenant, "~"));
        let mut applied: Vec<Applied> = Vec::new();
        for item in self.range((&ends.0, &ends.1), u32::MAX, doing).await? {
            applied.push(self.read(&item, doing).await?);
        }
        Ok(applied)
    }

    async fn versions(&self, tenant: &TenantId, workflow: &WorkflowName) -> Result<Vec<Applied>, StoreError> {
        let doing = "read a workflow's versions";
        let end = |version| Key::version(tenant, workflow.as_str(), version);
        let mut versions: Vec<Applied> = Vec::new();
        for item in self.range((&end(0), &end(u32::MAX)), u32::MAX, doing).await? {
            versions.push(self.read(&item, doing).await?);
        }
        versions.reverse();
        Ok(versions)
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn arriving(&self, entry: &InboxEntry) -> Result<Transaction, StoreError> {
        let tenant = &entry.run.tenant;
        let body = self.body(tenant, entry, ACCEPTING).await?;
        let item = with(
            &Key::entry(&entry.run),
            [(BODY, body), (INBOX_STATUS, told(&entry.status)?), (TIME_TO_LIVE, seconds(entry.kept_until()))],
        );
        let proof = with(
            &Key::proof(tenant, &entry.proof),
            [(RUN, text(entry.run.run.as_str())), (TIME_TO_LIVE, seconds(entry.proof_forgotten_at()))],
        );
        let mut transaction = Transaction::default();
        let now = self.clock.now();
        for item in [item, proof] {
            self.put_in(&mut transaction, Guard::Version, item, Condition::is_forgotten(now))?;
        }
        if let Some(dedupe_key) = &entry.dedupe_key {
            let key = Key::dedupe_key(tenant, dedupe_key);
            let forget_at = seconds(entry.at + ALIKE_KEPT);
            let run = text(entry.run.run.as_str());
            let item = with(&key, [(RUN, run), (CAME_AT, number(entry.at.0)), (TIME_TO_LIVE, forget_at)]);
            self.put_in(&mut transaction, Guard::Version, item, Condition::is_no_echo(entry.at))?;
        }
        Ok(transaction)
    }

    /// The version that is in use from now on, when it is due, and its place among all versions.
    async fn applying(
        &self,
        applied: &Applied,
        due: Option<Timestamp>,
        condition: Condition,
    ) -> Result<Transaction, StoreError> {
        let (tenant, name) = (&applied.tenant, applied.workflow.as_str());
        let body = self.body(tenant, applied, APPLYING).await?;
        let mut transaction = Transaction::default();
        let attributes = [(BODY, body.clone()), (OF_PLAN, text(applied.plan.to_string()))];
        let mut in_use = with(&Key::workflow(tenant, name), attributes);
        if let Some(due) = due {
            in_use.extend(due_at(due));
        }
        self.put_in(&mut transaction, Guard::Version, in_use, condition)?;
        // What is in use guards it.
        let version = Key::version(tenant, name, applied.version);
        let values = Item::from([(":body".to_owned(), body)]);
        self.update_in(&mut transaction, &version, "SET body = :body", None, values)?;
        Ok(transaction)
    }

    /// The entry with the same key, or else the one with the same proof, or else the one that told the same.
    async fn known(&self, entry: &InboxEntry) -> Result<Option<InboxEntry>, StoreError> {
        if let Some(known) = self.entry(&entry.run).await? {
            return Ok(Some(known));
        }
        let tenant = &entry.run.tenant;
        if let Some(known) = self.arrival_under(tenant, &Key::proof(tenant, &entry.proof)).await? {
            return Ok(Some(known));
        }
        let Some(dedupe_key) = &entry.dedupe_key else { return Ok(None) };
        let known = self.arrival_under(tenant, &Key::dedupe_key(tenant, dedupe_key)).await?;
        Ok(known.filter(|known| entry.is_duplicate_of(known)))
    }

    /// The entry that the item under `key` stands for.
    async fn arrival_under(&self, tenant: &TenantId, key: &Key) -> Result<Option<InboxEntry>, StoreError> {
        let item = self.get(key, ACCEPTING).await?;
        let run = item.as_ref().and_then(|item| read_text(item, RUN)).and_then(|run| run.parse().ok());
        let Some(run) = run else { return Ok(None) };
        self.entry(&RunKey { tenant: tenant.clone(), run }).await
    }
}

/// What puts a workflow into the due index.
fn due_at(at: Timestamp) -> Item {
    [(DUE.hash, text(SCHEDULES)), (DUE.range, number(at.0))]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
}

/// The table forgets by the second.
fn seconds(at: Timestamp) -> AttributeValue {
    number(at.0 / 1_000)
}

fn told(status: &InboxStatus) -> Result<AttributeValue, StoreError> {
    serde_json::to_string(status).map(text).map_err(|error| StoreError::broken(SETTLING, error))
}

/// Names the write, which is its own every time.
fn applied_name(applied: &Applied, salt: u64, order: &str) -> Digest {
    let salt = salt.to_string();
    let parts = [applied.tenant.as_str(), applied.workflow.as_str(), &salt, order];
    Digest::of_parts("countersign/applied-name/v1", &parts)
}

/// Names the write. Each is its own, or of two deliveries at one moment both would be told that they are new.
fn name(entry: &InboxEntry, salt: u64, order: &str) -> Digest {
    let salt = salt.to_string();
    let parts = [entry.run.tenant.as_str(), entry.run.run.as_str(), &salt, order];
    Digest::of_parts("countersign/entry-name/v1", &parts)
}
