//! What came in from outside, and the workflows it may start.
//!
//! An arrival is two items written together: itself, under the run it may start, and a small one under what
//! proved where it comes from. Whichever of the two stands there already tells that it was here before.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Applied, Arrival, Digest, Fate, RunKey, TenantId, WorkflowName};

use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::inbox::{Accepted, Inbox};
use crate::ledger::Write;
use crate::queue::Queue;

use super::commit::{Guard, Transaction};
use super::error::Class;
use super::item::{BODY, Item, Unfit, number, read_text, text};
use super::key::Key;
use super::{AwsStore, Condition, TIME_TO_LIVE, with};

const ACCEPTING: &str = "keep an arrival";
const APPLYING: &str = "put a workflow to use";
const SETTLING: &str = "settle an arrival";

/// What became of an arrival, beside its body, which never changes.
const FATE: &str = "fate";
/// The run that a proof stands for.
const RUN: &str = "run";

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
        Ok(Some(Arrival { fate, ..self.read(&item, doing).await? }))
    }

    async fn settle(&self, run: &RunKey, fate: Fate) -> Result<Write, StoreError> {
        let values =
            Item::from([(":waiting".to_owned(), told(&Fate::Waiting)?), (":fate".to_owned(), told(&fate)?)]);
        self.update(&Key::arrival(run), "SET fate = :fate", "fate = :waiting", values, SETTLING).await
    }

    async fn apply(&self, applied: Applied) -> Result<Write, StoreError> {
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
        let body = stands.and_then(|mut stands| stands.remove(BODY));
        let condition = body.map_or_else(Condition::is_new, Condition::body);
        let transaction = self.applying(&applied, condition).await?;
        let order = self.orders.next(self.clock.now());
        match self.transact(transaction, &applied_name(&applied, self.salt, order.as_str())).await {
            Ok(()) => Ok(Write::Committed),
            // Somebody put another one to use in between: it must be looked at first.
            Err(fault) if fault.class == Class::Superseded => Err(StoreError::Busy { doing }),
            Err(fault) => Err(fault.write(doing)),
        }
    }

    async fn applied(&self, tenant: &TenantId) -> Result<Vec<Applied>, StoreError> {
        let doing = "read the workflows in use";
        let ends = (Key::workflow(tenant, ""), Key::workflow(tenant, "~"));
        let mut applied: Vec<Applied> = Vec::new();
        for item in self.range((&ends.0, &ends.1), doing).await? {
            applied.push(self.read(&item, doing).await?);
        }
        Ok(applied)
    }

    async fn versions(&self, tenant: &TenantId, workflow: &WorkflowName) -> Result<Vec<Applied>, StoreError> {
        let doing = "read a workflow's versions";
        let end = |version| Key::version(tenant, workflow.as_str(), version);
        let mut versions: Vec<Applied> = Vec::new();
        for item in self.range((&end(0), &end(u32::MAX)), doing).await? {
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
        // The table forgets by the second.
        let forget = || number(arrival.forgotten_at().0 / 1_000);
        let body = self.body(tenant, arrival, ACCEPTING).await?;
        let item = with(
            &Key::arrival(&arrival.run),
            [(BODY, body), (FATE, told(&arrival.fate)?), (TIME_TO_LIVE, forget())],
        );
        let proof = with(
            &Key::proof(tenant, &arrival.proof),
            [(RUN, text(arrival.run.run.as_str())), (TIME_TO_LIVE, forget())],
        );
        let mut transaction = Transaction::default();
        self.put_in(&mut transaction, Guard::Version, item, Condition::is_new())?;
        self.put_in(&mut transaction, Guard::Version, proof, Condition::is_new())?;
        Ok(transaction)
    }

    /// The version that is in use from now on, and its place among all versions.
    async fn applying(&self, applied: &Applied, condition: Condition) -> Result<Transaction, StoreError> {
        let (tenant, name) = (&applied.tenant, applied.workflow.as_str());
        let body = self.body(tenant, applied, APPLYING).await?;
        let mut transaction = Transaction::default();
        let in_use = with(&Key::workflow(tenant, name), [(BODY, body.clone())]);
        self.put_in(&mut transaction, Guard::Version, in_use, condition)?;
        // What is in use guards it.
        let version = Key::version(tenant, name, applied.version);
        let values = Item::from([(":body".to_owned(), body)]);
        self.update_in(&mut transaction, &version, "SET body = :body", None, values)?;
        Ok(transaction)
    }

    /// The arrival with the same key, or else the one with the same proof.
    async fn known(&self, arrival: &Arrival) -> Result<Option<Arrival>, StoreError> {
        if let Some(known) = self.arrival(&arrival.run).await? {
            return Ok(Some(known));
        }
        let proof = self.get(&Key::proof(&arrival.run.tenant, &arrival.proof), ACCEPTING).await?;
        let run = proof.as_ref().and_then(|proof| read_text(proof, RUN)).and_then(|run| run.parse().ok());
        let Some(run) = run else { return Ok(None) };
        self.arrival(&RunKey { tenant: arrival.run.tenant.clone(), run }).await
    }
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
