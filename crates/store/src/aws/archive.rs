//! The location of the evidence of runs.

use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Digest, Evidence, RunId, RunKey, RunRecord};

use crate::archive::{Archive, LogPosition};
use crate::blobs::Blobs;
use crate::error::StoreError;
use crate::ledger::Write;
use crate::queue::Queue;

use super::AwsStore;
use super::item::{self, EVIDENCE, Item};
use super::key::Key;

const RECORDING: &str = "record evidence";
const FINDING: &str = "find the evidence of a run";

impl<Q, B> Archive for AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// The bucket outlives the table. A copy of the table has another name.
    fn bundle_name(&self, run: &RunId) -> String {
        format!("{}/{run}", self.table)
    }

    async fn append_log(&self, run: &RunKey, leaf: Digest) -> Result<LogPosition, StoreError> {
        let position = self.append_entry(run, leaf).await?;
        Ok(LogPosition { log: run.tenant.to_string(), position })
    }

    async fn put_evidence(&self, run: &RunKey, evidence: Evidence) -> Result<Write, StoreError> {
        let evidence = self.encode_body(&run.tenant, &evidence, RECORDING).await?;
        let values = || Item::from([(":evidence".to_owned(), evidence.clone())]);
        let key = Key::run(run);
        let (set, condition) =
            ("SET evidence = :evidence", "attribute_exists(pk) AND attribute_not_exists(evidence)");
        // A finished run with evidence leaves the due index.
        let (set_finished, finished) = (
            format!("{set} REMOVE due_pk, due_at, evidence_pending"),
            format!("{condition} AND evidence_pending = :yes"),
        );
        let mut finished_values = values();
        finished_values.insert(":yes".to_owned(), AttributeValue::Bool(true));
        match self.update(&key, &set_finished, &finished, finished_values, RECORDING).await? {
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
        Ok(Some((self.decode_body(&item, FINDING).await?, self.decode_evidence(&item).await?)))
    }

    async fn evidence(&self, run: &RunKey) -> Result<Option<Evidence>, StoreError> {
        match self.get(&Key::run(run), FINDING).await? {
            Some(item) => self.decode_evidence(&item).await,
            None => Ok(None),
        }
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    /// The location of evidence in the item of a run.
    async fn decode_evidence(&self, item: &Item) -> Result<Option<Evidence>, StoreError> {
        if !item.contains_key(EVIDENCE) {
            return Ok(None);
        }
        item::decode_attribute(&self.blobs, item, EVIDENCE, FINDING).await.map(Some)
    }
}
