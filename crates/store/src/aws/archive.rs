//! The log of runs and where their evidence is.
//!
//! Each tenant has a log of its own. Its right edge is one item, which every append replaces, and which also holds
//! the newest entry. Whoever replaces it first writes that entry down with its run, so an entry always stands in
//! at least one of the two places, and a run is appended once however often it is tried. Two single writes cost
//! half of one transaction.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::merkle::{Frontier, Position};
use domain::{Digest, Evidence, RunId, RunKey, RunRecord};
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;
use crate::spread;

use super::item::{self, BODY, EVIDENCE, Item, REVISION, number};
use super::key::Key;
use super::{AwsStore, Condition, with};

const APPENDING: &str = "append to the log";
const RECORDING: &str = "record evidence";
const FINDING: &str = "find evidence";

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
    const LOG_FOR_EACH_TENANT: bool = true;

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        for round in 1..=ROUNDS_MAX {
            let edge = match self.place(run).await? {
                Place::Known(position) => return Ok(position),
                Place::After(edge) => edge,
            };
            match self.replace(edge, run, leaf).await? {
                (Write::Committed, position) => return Ok(position),
                // A table that is short of breath, or does not answer, is the caller's to be patient with: its
                // tries have taken seconds. Whether the append landed is seen when they ask again.
                (Write::Superseded, _) => {
                    tokio::time::sleep(spread::part(ROUND_AFTER * round, &run.to_string(), round)).await;
                }
            }
        }
        Err(StoreError::Busy { doing: APPENDING })
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        let evidence = self.body(&run.tenant, &evidence, RECORDING).await?;
        let values = || Item::from([(":evidence".to_owned(), evidence.clone())]);
        let key = Key::run(run);
        let (set, unless) =
            ("SET evidence = :evidence", "attribute_exists(pk) AND attribute_not_exists(evidence)");
        // Nobody need look after it any more.
        let (done, over) =
            (format!("{set} REMOVE due_in, due_at, unsealed"), format!("{unless} AND unsealed = :yes"));
        let mut with_yes = values();
        with_yes.insert(":yes".to_owned(), AttributeValue::Bool(true));
        match self.update(&key, &done, &over, with_yes, RECORDING).await? {
            Write::Committed => Ok(Write::Committed),
            // It is recorded already, or the run has been taken up again and must stay where it is found.
            Write::Superseded => self.update(&key, set, unless, values(), RECORDING).await,
        }
    }

    async fn filed(&self, run: &RunKey) -> Result<Option<(RunRecord, Option<Evidence>)>, StoreError> {
        let Some(item) = self.get(&Key::run(run), FINDING).await? else { return Ok(None) };
        Ok(Some((self.read(&item, FINDING).await?, self.evidence_in(&item).await?)))
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        match self.get(&Key::run(run), FINDING).await? {
            Some(item) => self.evidence_in(&item).await,
            None => Ok(None),
        }
    }
}

/// Where a run stands in the log, or would.
enum Place {
    Known(Position),
    After(Edge),
}

/// The right edge of a log.
#[derive(Default, Serialize, Deserialize)]
struct Edge {
    frontier: Frontier,
    /// The newest entry. Its own item may not be there yet.
    newest: Option<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    run: RunId,
    position: Position,
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// The edge is read first. A run that was appended before that is the newest there, or its own item is written;
    /// one that is appended later makes the edge's replacement fail.
    async fn place(&self, run: &RunKey) -> Result<Place, StoreError> {
        let edge: Option<Edge> = self.get_body(&Key::log_head(&run.tenant), APPENDING).await?;
        let edge = edge.unwrap_or_default();
        if let Some(newest) = edge.newest.as_ref().filter(|newest| newest.run == run.run) {
            return Ok(Place::Known(newest.position.clone()));
        }
        let entry = self.get_body(&Key::log_entry(run), APPENDING).await?;
        Ok(entry.map_or_else(|| Place::After(edge), Place::Known))
    }

    /// The evidence that stands in the item of a run.
    async fn evidence_in(&self, item: &Item) -> Result<Option<Evidence>, StoreError> {
        if !item.contains_key(EVIDENCE) {
            return Ok(None);
        }
        item::read_from(&self.blobs, item, EVIDENCE, FINDING).await.map(Some)
    }

    /// Writes the newest entry down with its run, then puts one for `run` in its place.
    async fn replace(&self, edge: Edge, run: &RunKey, leaf: Digest) -> Result<(Write, Position), StoreError> {
        let Edge { mut frontier, newest } = edge;
        if let Some(Entry { run: of, position }) = newest {
            let of = RunKey { tenant: run.tenant.clone(), run: of };
            let body = self.body(&run.tenant, &position, APPENDING).await?;
            // Whoever wrote it before wrote the same.
            self.put(with(&Key::log_entry(&of), [(BODY, body)]), Condition::is_new(), APPENDING).await?;
        }
        let position = frontier.push(leaf);
        let newest = Some(Entry { run: run.run.clone(), position: position.clone() });
        let (size, edge) = (number(frontier.size()), Edge { frontier, newest });
        let body = self.body(&run.tenant, &edge, APPENDING).await?;
        let item = with(&Key::log_head(&run.tenant), [(REVISION, size), (BODY, body)]);
        let replaces = match position.index {
            0 => Condition::is_new(),
            index => Condition::revision(index),
        };
        Ok((self.put(item, replaces, APPENDING).await?, position))
    }
}
