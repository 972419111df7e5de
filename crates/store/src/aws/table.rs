//! The table and its indexes.
//!
//! Every index is sparse — an item stands in it only while it carries the index's attributes — and holds
//! keys alone: it finds candidates, and the item decides. What changes with every step stands in none, since
//! each entry that changes is another write to pay for.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::BuildError;
use aws_sdk_dynamodb::operation::create_table::CreateTableError;
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, GlobalSecondaryIndex, KeySchemaElement, KeyType, Projection,
    ProjectionType, ScalarAttributeType,
};

use crate::error::StoreError;

use super::error::Fault;
use super::key::{PK, SK};

/// An index and the two attributes that put an item into it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Index {
    pub(super) name: &'static str,
    pub(super) hash: &'static str,
    pub(super) range: &'static str,
}

/// Runs and jobs by when somebody should look at them, in [`SHARDS`] parts.
pub(super) const DUE: Index = Index { name: "due", hash: "due_in", range: "due_at" };
/// All runs of a tenant, by when they began.
pub(super) const BY_TENANT: Index = Index { name: "runs_by_tenant", hash: "runs_of", range: "begun" };
/// The runs of a tenant in one status, by when they began.
pub(super) const BY_STATUS: Index = Index { name: "runs_by_status", hash: "runs_in", range: "begun" };
/// The runs of a tenant about one record outside, by when they began.
pub(super) const BY_RECORD: Index = Index { name: "runs_by_record", hash: "runs_on", range: "begun" };
/// What waits for people: the requests of a tenant that they can still answer, by when they were asked, and, in
/// [`SHARDS`] parts, the runs of all tenants that nothing moves but a person.
pub(super) const OPEN: Index = Index { name: "open_approvals", hash: "open_of", range: "asked" };

const INDEXES: [Index; 5] = [DUE, BY_TENANT, BY_STATUS, BY_RECORD, OPEN];

/// In how many parts is kept what belongs to all tenants: one part takes a thousand writes a second, and every look
/// asks all of them.
pub(super) const SHARDS: u8 = 4;

/// Set on what may be forgotten, in seconds since 1970: what came in, once nobody would deliver it again.
pub const TIME_TO_LIVE: &str = "ttl";

const CREATING: &str = "create the table";

/// Creates the table, unless it is there. An account's table comes from its own tools; this is for a local
/// stand-in.
pub async fn create(client: &Client, table: &str) -> Result<(), StoreError> {
    let broken = |error: BuildError| StoreError::broken(CREATING, error);
    let mut create = client
        .create_table()
        .table_name(table)
        .billing_mode(BillingMode::PayPerRequest)
        .set_attribute_definitions(Some(attributes().map_err(broken)?))
        .set_key_schema(Some(schema(PK, SK).map_err(broken)?));
    for index in INDEXES {
        create = create.global_secondary_indexes(described(index).map_err(broken)?);
    }
    match create.send().await {
        Ok(_) => Ok(()),
        Err(error)
            if error.as_service_error().is_some_and(CreateTableError::is_resource_in_use_exception) =>
        {
            Ok(())
        }
        Err(error) => Err(Fault::of(error).write(CREATING)),
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

fn described(index: Index) -> Result<GlobalSecondaryIndex, BuildError> {
    GlobalSecondaryIndex::builder()
        .index_name(index.name)
        .set_key_schema(Some(schema(index.hash, index.range)?))
        .projection(Projection::builder().projection_type(ProjectionType::KeysOnly).build())
        .build()
}
