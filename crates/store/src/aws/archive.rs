//! The transparency log and the location of evidence.
//!
//! Each tenant has its own log. The head of the log is one item, which every append replaces and which also holds
//! the newest entry. An append first copies that entry to an item of its run, then replaces the head. Every entry
//! is therefore in at least one of the two places, and repeated appends add a run once. Two single writes cost half
//! as much as one transaction.

use std::time::Duration;

use aws_sdk_dynamodb::types::AttributeValue;
use domain::merkle::{Frontier, Position};
use domain::{Digest, Evidence, RunId, RunKey, RunRecord};
use serde::{Deserialize, Serialize};

use crate::archive::Archive;
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::jitter;
use crate::ledger::Write;
use crate::queue::Queue;

use super::item::{self, BODY, EVIDENCE, Item, REVISION, number};
use super::key::Key;
use super::{AwsStore, Condition, with};

const APPENDING: &str = "append to the transparency log";
const RECORDING: &str = "record evidence";
const FINDING: &str = "find the evidence of a run";

/// How often an append retries after another append won. With more runs finishing at once, the append fails with
/// `Busy`, and the message is delivered again.
const APPEND_ATTEMPTS_MAX: u32 = 64;

/// The maximum delay before a retry, multiplied by the number of attempts.
const APPEND_BACKOFF: Duration = Duration::from_millis(2);

impl<Q, B> Archive for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    const LOG_FOR_EACH_TENANT: bool = true;

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<Position, StoreError> {
        for attempt in 1..=APPEND_ATTEMPTS_MAX {
            let head = match self.log_state(run).await? {
                LogState::Appended(position) => return Ok(position),
                LogState::Pending(head) => head,
            };
            match self.replace_head(head, run, leaf).await? {
                (Write::Committed, position) => return Ok(position),
                // A throttled or silent table is an error here, because the SDK has already retried for seconds.
                // The next call finds out whether the append was applied.
                (Write::Superseded, _) => {
                    tokio::time::sleep(jitter::up_to(APPEND_BACKOFF * attempt, &run.to_string(), attempt))
                        .await;
                }
            }
        }
        Err(StoreError::Busy { doing: APPENDING })
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        let evidence = self.body(&run.tenant, &evidence, RECORDING).await?;
        let values = || Item::from([(":evidence".to_owned(), evidence.clone())]);
        let key = Key::run(run);
        let (set, condition) =
            ("SET evidence = :evidence", "attribute_exists(pk) AND attribute_not_exists(evidence)");
        // A finished run with evidence leaves the due index.
        let (set_finished, finished) = (
            format!("{set} REMOVE due_pk, due_at, evidence_pending"),
            format!("{condition} AND evidence_pending = :yes"),
        );
        let mut with_yes = values();
        with_yes.insert(":yes".to_owned(), AttributeValue::Bool(true));
        match self.update(&key, &set_finished, &finished, with_yes, RECORDING).await? {
            Write::Committed => Ok(Write::Committed),
            // Evidence is already recorded, or the run was resumed and stays in the due index.
            Write::Superseded => self.update(&key, set, condition, values(), RECORDING).await,
        }
    }

    async fn load_with_evidence(
        &self,
        run: &RunKey,
    ) -> Result<Option<(RunRecord, Option<Evidence>)>, StoreError> {
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

/// Whether a run is in the log.
enum LogState {
    Appended(Position),
    Pending(LogHead),
}

/// The head of a log.
#[derive(Default, Serialize, Deserialize)]
struct LogHead {
    frontier: Frontier,
    /// The newest entry. Its own item may not exist yet.
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
    /// Reads the head first. A run that was appended before is the newest entry of the head, or has its own item. A
    /// run that is appended later changes the head, so replacing the head fails.
    async fn log_state(&self, run: &RunKey) -> Result<LogState, StoreError> {
        let head: Option<LogHead> = self.get_body(&Key::log_head(&run.tenant), APPENDING).await?;
        let head = head.unwrap_or_default();
        if let Some(newest) = head.newest.as_ref().filter(|newest| newest.run == run.run) {
            return Ok(LogState::Appended(newest.position.clone()));
        }
        let entry = self.get_body(&Key::log_entry(run), APPENDING).await?;
        Ok(entry.map_or_else(|| LogState::Pending(head), LogState::Appended))
    }

    /// The location of evidence in the item of a run.
    async fn evidence_in(&self, item: &Item) -> Result<Option<Evidence>, StoreError> {
        if !item.contains_key(EVIDENCE) {
            return Ok(None);
        }
        item::read_from(&self.blobs, item, EVIDENCE, FINDING).await.map(Some)
    }

    /// Copies the newest entry to an item of its run, then replaces the head with one that has an entry for `run`.
    async fn replace_head(
        &self,
        head: LogHead,
        run: &RunKey,
        leaf: Digest,
    ) -> Result<(Write, Position), StoreError> {
        let LogHead { mut frontier, newest } = head;
        if let Some(Entry { run: of, position }) = newest {
            let of = RunKey { tenant: run.tenant.clone(), run: of };
            let body = self.body(&run.tenant, &position, APPENDING).await?;
            // If the item exists, another append wrote the same entry.
            self.put(with(&Key::log_entry(&of), [(BODY, body)]), Condition::is_new(), APPENDING).await?;
        }
        let position = frontier.push(leaf);
        let newest = Some(Entry { run: run.run.clone(), position: position.clone() });
        let (size, head) = (number(frontier.size()), LogHead { frontier, newest });
        let body = self.body(&run.tenant, &head, APPENDING).await?;
        let item = with(&Key::log_head(&run.tenant), [(REVISION, size), (BODY, body)]);
        let replaces = match position.index {
            0 => Condition::is_new(),
            index => Condition::revision(index),
        };
        Ok((self.put(item, replaces, APPENDING).await?, position))
    }
}
