//! What came in from outside, and the workflows it may start.
//!
//! An arrival is two items written together: itself, under the run it may start, and a small one under what
//! proved where it comes from. Whichever of the two stands there already tells that it was here before. Where the same
//! may be told twice in other words there is a third, under what is told, with the time.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Applied, Arrival, Digest, Fate, Millis, RunKey, TenantId, Timestamp, WorkflowName};

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

const ACCEPTING: &str = "keep an arrival";
const APPLYING: &str = "put a workflow to use";
const SETTLING: &str = "settle an arrival";

/// How long it is known what an arrival told: longer than anybody asks, and clocks differ.
const ALIKE_KEPT: Millis = Millis::hours(1);

/// The part of the due index that schedules stand in. They are few, and move when they come round: one part is enough,
/// and every look at it is paid for.
const SCHEDULES: &str = "schedule";

/// The plan of a workflow, beside its body.
const OF_PLAN: &str = "of_plan";

/// What became of an arrival, beside its body, which never changes.
const FATE: &str = "fate";
/// How often it was refused or unwanted before that.
const TRIES: &str = "tries";

impl<Q, B> Inbox for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn accept(&self, arrival: Arrival) -> Result<Accepted, StoreError> {
        let transaction = self.arriving(&arrival).await?;
        let order = self.orders.next(self.clock.now());
        match self.transact(transaction, &name(&arrival, self.salt, order.as_str())).await {
            Ok(()) => Ok(Accepted::New),
            Err(fault) if fault.class == Class::Superseded => {
                let known = self.known(&arrival).await?;
                // What stood in the way is gone, as everything here is one day.
                known
                    .map(|known| Accepted::Known(Box::new(known)))
                    .ok_or(StoreError::Busy { doing: ACCEPTING })
            }
            Err(fault) => Err(fault.write(ACCEPTING)),
        }
    }

    async fn arrival(&self, run: &RunKey) -> Result<Option<Arrival>, StoreError> {
        let doing = "read an arrival";
        let Some(item) = self.get(&Key::arrival(run), doing).await? else { return Ok(None) };
        let fate = read_text(&item, FATE).and_then(|fate| serde_json::from_str(fate).ok());
        let fate = fate.ok_or_else(|| StoreError::broken(doing, Unfit::Missing(FATE)))?;
        let tries = read_number(&item, TRIES).unwrap_or_default();
        Ok(Some(Arrival { fate, tries, ..self.read(&item, doing).await? }))
    }

    async fn settle(&self, run: &RunKey, fate: Fate, forget_at: Timestamp) -> Result<Write, StoreError> {
        let values = Item::from([
            (":waiting".to_owned(), told(&Fate::Waiting)?),
            (":fate".to_owned(), told(&fate)?),
            (":ttl".to_owned(), seconds(forget_at)),
        ]);
        let words = "SET fate = :fate, #ttl = :ttl";
        self.update(&Key::arrival(run), words, "fate = :waiting", values, SETTLING).await
    }

    async fn reopen(&self, run: &RunKey, again: Again) -> Result<Write, StoreError> {
        let values = Item::from([
            (":waiting".to_owned(), told(&Fate::Waiting)?),
            (":tries".to_owned(), number(again.tries)),
            (":ttl".to_owned(), seconds(again.keep_until)),
            was(told(&again.was)?),
        ]);
        let words = "SET fate = :waiting, tries = :tries, #ttl = :ttl";
        self.update(&Key::arrival(run), words, "fate = :was", values, "reopen an arrival").await
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
        let alike = before.is_some_and(|before| before.triggered_by == applied.triggered_by);
        let was_due = stands.as_ref().filter(|_| alike).and_then(|item| read_number(item, DUE.range));
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
    async fn arriving(&self, arrival: &Arrival) -> Result<Transaction, StoreError> {
        let tenant = &arrival.run.tenant;
        let body = self.body(tenant, arrival, ACCEPTING).await?;
        let item = with(
            &Key::arrival(&arrival.run),
            [(BODY, body), (FATE, told(&arrival.fate)?), (TIME_TO_LIVE, seconds(arrival.kept_until()))],
        );
        let proof = with(
            &Key::proof(tenant, &arrival.proof),
            [(RUN, text(arrival.run.run.as_str())), (TIME_TO_LIVE, seconds(arrival.proof_forgotten_at()))],
        );
        let mut transaction = Transaction::default();
        let now = self.clock.now();
        for item in [item, proof] {
            self.put_in(&mut transaction, Guard::Version, item, Condition::is_forgotten(now))?;
        }
        if let Some(alike) = &arrival.alike {
            let key = Key::alike(tenant, alike);
            let forget_at = seconds(arrival.at + ALIKE_KEPT);
            let run = text(arrival.run.run.as_str());
            let item = with(&key, [(RUN, run), (CAME_AT, number(arrival.at.0)), (TIME_TO_LIVE, forget_at)]);
            self.put_in(&mut transaction, Guard::Version, item, Condition::is_no_echo(arrival.at))?;
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

    /// The arrival with the same key, or else the one with the same proof, or else the one that told the same.
    async fn known(&self, arrival: &Arrival) -> Result<Option<Arrival>, StoreError> {
        if let Some(known) = self.arrival(&arrival.run).await? {
            return Ok(Some(known));
        }
        let tenant = &arrival.run.tenant;
        if let Some(known) = self.arrival_under(tenant, &Key::proof(tenant, &arrival.proof)).await? {
            return Ok(Some(known));
        }
        let Some(alike) = &arrival.alike else { return Ok(None) };
        let known = self.arrival_under(tenant, &Key::alike(tenant, alike)).await?;
        Ok(known.filter(|known| arrival.echoes(known)))
    }

    /// The arrival that the item under `key` stands for.
    async fn arrival_under(&self, tenant: &TenantId, key: &Key) -> Result<Option<Arrival>, StoreError> {
        let item = self.get(key, ACCEPTING).await?;
        let run = item.as_ref().and_then(|item| read_text(item, RUN)).and_then(|run| run.parse().ok());
        let Some(run) = run else { return Ok(None) };
        self.arrival(&RunKey { tenant: tenant.clone(), run }).await
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

fn told(fate: &Fate) -> Result<AttributeValue, StoreError> {
    serde_json::to_string(fate).map(text).map_err(|error| StoreError::broken(SETTLING, error))
}

/// Names the write, which is its own every time.
fn applied_name(applied: &Applied, salt: u64, order: &str) -> Digest {
    let salt = salt.to_string();
    let parts = [applied.tenant.as_str(), applied.workflow.as_str(), &salt, order];
    Digest::of_parts("countersign/applied-name/v1", &parts)
}

/// Names the write. Each is its own, or of two deliveries at one moment both would be told that they are new.
fn name(arrival: &Arrival, salt: u64, order: &str) -> Digest {
    let salt = salt.to_string();
    let parts = [arrival.run.tenant.as_str(), arrival.run.run.as_str(), &salt, order];
    Digest::of_parts("countersign/arrival-name/v1", &parts)
}
