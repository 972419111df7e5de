//! The log of runs and where their evidence is.
//!
//! Each tenant has a log of its own: its right edge is one item, which every append replaces, and where a
//! run stands is kept with the run, in the same transaction, so that a run is appended once however often it
//! is tried.

use std::time::Duration;

use domain::merkle::{Frontier, Position};
use domain::{Digest, Evidence, RunKey};

use crate::archive::Archive;
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;

use super::commit::{Guard, Transaction};
use super::error::{Class, Fault};
use super::item::{BODY, REVISION, number};
use super::key::Key;
use super::{AwsStore, Condition, with};

const APPENDING: &str = "append to the log";

/// How often an append that others overtook is tried again. Each round means that somebody else got their
/// place; a tenant with more runs ending at once than this waits for the message to come again.
const ROUNDS_MAX: u32 = 64;

/// How long the wait after an overtaken round is at most, by how many rounds there were.
const ROUND_AFTER: Duration = Duration::from_millis(2);

impl<Q, B> Archive for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        for round in 1..=ROUNDS_MAX {
            let (edge, position) = match self.edge(run).await? {
                Place::Known(position) => return Ok(position),
                Place::After(edge) => appended(edge, leaf),
            };
            let entry = self.entry(run, &edge, &position).await?;
            match self.transact(entry, &name(run, &position)).await {
                Ok(()) => return Ok(position),
                Err(fault) if overtaken(&fault) => tokio::time::sleep(pause(run, round)).await,
                // A table that is short of breath, or does not answer, is the caller's to be patient with: its
                // tries have taken seconds. Whether the append landed is seen when they ask again.
                Err(fault) => return Err(fault.write(APPENDING)),
            }
        }
        Err(StoreError::Busy { doing: APPENDING })
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        let doing = "record evidence";
        let item = with(&Key::evidence(run), [(BODY, self.body(&run.tenant, &evidence, doing).await?)]);
        self.put(item, Condition::is_new(), doing).await
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        self.get_body(&Key::evidence(run), "find evidence").await
    }
}

/// Where a run stands in the log, or would.
enum Place {
    Known(Position),
    After(Frontier),
}

fn appended(mut edge: Frontier, leaf: Digest) -> (Frontier, Position) {
    let position = edge.push(leaf);
    (edge, position)
}

/// Whether somebody else was faster, or there at the same moment: both are answered at once.
fn overtaken(fault: &Fault) -> bool {
    match fault.class {
        Class::Superseded => true,
        Class::Busy => fault.is("TransactionCanceledException"),
        Class::Unknown | Class::Broken => false,
    }
}

/// Spreads those who were overtaken together: the same for nobody else.
fn pause(run: &RunKey, round: u32) -> Duration {
    let parts = [run.tenant.as_str().as_bytes(), run.run.as_str().as_bytes(), &round.to_be_bytes()];
    let chance = Digest::of_parts("countersign/log-pause/v1", &parts).as_bytes()[0];
    ROUND_AFTER * round * u32::from(chance) / 255
}

/// Names the append of `run` at this position.
fn name(run: &RunKey, position: &Position) -> Digest {
    let parts = [run.tenant.as_str(), run.run.as_str(), &position.root.to_string()];
    Digest::of_parts("countersign/log-name/v1", &parts)
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    async fn edge(&self, run: &RunKey) -> Result<Place, StoreError> {
        let keys = [Key::run(run), Key::log_entry(run), Key::log_edge(&run.tenant)];
        let items = self.get_all(&keys, APPENDING).await?;
        let under = |key: &Key| items.iter().find(|item| Key::of(item).as_ref() == Some(key));
        let [record, entry, edge] = keys.each_ref().map(under);
        match (record, entry, edge) {
            (None, ..) => Err(StoreError::broken(APPENDING, format!("there is no run {run}"))),
            (Some(_), Some(entry), _) => Ok(Place::Known(self.read(entry, APPENDING).await?)),
            (Some(_), None, Some(edge)) => Ok(Place::After(self.read(edge, APPENDING).await?)),
            (Some(_), None, None) => Ok(Place::After(Frontier::default())),
        }
    }

    async fn entry(
        &self,
        run: &RunKey,
        edge: &Frontier,
        position: &Position,
    ) -> Result<Transaction, StoreError> {
        let mut transaction = Transaction::default();
        let entry = with(&Key::log_entry(run), [(BODY, self.body(&run.tenant, position, APPENDING).await?)]);
        self.put_in(&mut transaction, Guard::Version, entry, Condition::is_new())?;
        let size = [(REVISION, number(edge.size())), (BODY, self.body(&run.tenant, edge, APPENDING).await?)];
        let replaces = match position.index {
            0 => Condition::is_new(),
            index => Condition::revision(index),
        };
        let item = with(&Key::log_edge(&run.tenant), size);
        self.put_in(&mut transaction, Guard::Version, item, replaces)?;
        Ok(transaction)
    }
}
