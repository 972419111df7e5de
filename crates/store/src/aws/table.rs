//! The table and its global secondary indexes.
//!
//! Every GSI is sparse and projects keys only. An item is in an index while it has the index's key attributes. An
//! index finds candidates; the item itself decides. An attribute that changes with every step is in no index,
//! because each changed index entry is another billed write.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};

use crate::error::StoreError;

use super::error::AwsError;
use super::key::{PK, SK};

/// A GSI and its two key attributes. `runs_sk` and `open_sk` are texts that sort by time: the sequence of the commit that
/// created the run or the approval request, and its id. A paused run has only its id in `open_sk`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Index {
    pub(super) name: &'static str,
    pub(super) hash: &'static str,
    pub(super) range: &'static str,
}

/// Unfinished runs and pending inbox entries by due time, in [`DUE_PARTITIONS`](super::key::DUE_PARTITIONS) partitions.
/// Finished runs whose evidence is late, and outbox messages, each in one partition.
pub(super) const DUE: Index = Index { name: "due", hash: "due_pk", range: "due_at" };
/// All runs of a tenant, by start time.
pub(super) const BY_TENANT: Index = Index { name: "runs_by_tenant", hash: "tenant_pk", range: "runs_sk" };
/// The runs of a tenant in one status, by start time.
pub(super) const BY_STATUS: Index = Index { name: "runs_by_status", hash: "status_pk", range: "runs_sk" };
/// The runs of a tenant about one record of an external system, by start time.
pub(super) const BY_RECORD: Index = Index { name: "runs_by_record", hash: "record_pk", range: "runs_sk" };
/// The open approval requests of a tenant, by request time, and, in one partition, the paused runs of all tenants.
pub(super) const OPEN: Index = Index { name: "open_approvals", hash: "open_pk", range: "open_sk" };

const INDEXES: [Index; 5] = [DUE, BY_TENANT, BY_STATUS, BY_RECORD, OPEN];

/// The TTL attribute, in seconds since 1970. Set on processed inbox entries, on the keys of entries, and on worker
/// records.
pub const TIME_TO_LIVE: &str = "ttl";

const CREATING: &str = "create the table";

/// Creates the table if it does not exist, for local emulators and tests. In an AWS account, Terraform creates it.
pub async fn create(client: &Client, table: &str) -> Result<(), StoreError> {
    let broken = |error: BuildError| StoreError::broken(CREATING, error);
    let mut create = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(attributes().map_err(broken)?))
        .set_key_schema(Some(schema(PK, SK).map_err(broken)?));
    for index in INDEXES {
        create = create.global_secondary_indexes(definition(index).map_err(broken)?);
    }
    match create.send().await {
        Ok(_) => Ok(()),
        Err(error)
            if error.as_service_error().is_some_and(CreateTableError::is_resource_in_use_exception) =>
        {
            Ok(())
        }
        Err(error) => Err(AwsError::from_sdk(error).into_write_error(CREATING)),
    }
}

fn attributes() -> Result<Vec<AttributeDefinition>, BuildError> {
    let lists = [BY_TENANT.hash, BY_STATUS.hash, BY_RECORD.hash, BY_TENANT.range];
    let text = |name| (name, ScalarAttributeType::S);
    [PK, SK, DUE.hash, OPEN.hash, OPEN.range]
        .into_iter()
        .chain(lists)
        .map(text)
        .chain([(DUE.range, ScalarAttributeType::N)])
        .map(|(name, kind)| AttributeDefinition::builder().attribute_name(name).attribute_type(kind).build())
        .collect()
}

fn schema(hash: &str, range: &str) -> Result<Vec<KeySchemaElement>, BuildError> {
    let element = |name, kind| KeySchemaElement::builder().attribute_name(name).key_type(kind).build();
    Ok(vec![element(hash, KeyType::Hash)?, element(range, KeyType::Range)?])
}

fn definition(index: Index) -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(schema(index.hash, index.range)?))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}
