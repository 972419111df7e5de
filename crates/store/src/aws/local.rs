//! Queues and buckets for local emulators and tests. In an AWS account, Terraform creates them.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;
use domain::QueueName;
use serde_json::json;

use crate::error::StoreError;
use crate::queue::RECEIVES_MAX;

use super::error::AwsError;
use super::s3::Buckets;
use super::sqs::QueueUrls;

const CREATING: &str = "create the queues";
const CREATING_BUCKETS: &str = "create the buckets";

/// Four days: a fleet that was down over a long weekend still gets its messages.
const RETENTION_SECONDS: &str = "345600";

/// Two weeks, the maximum of SQS. The age of a message includes the time in its source queue, so an operator has at
/// least ten days to inspect a dead letter.
const DEAD_RETENTION_SECONDS: &str = "1209600";

/// Creates the queues `<prefix>-ingest`, `-decisions` and `-steps`, each with a dead-letter queue `-dead`, if they
/// do not exist.
pub async fn create_queues(client: &aws_sdk_sqs::Client, prefix: &str) -> Result<QueueUrls, StoreError> {
    Ok(QueueUrls {
        ingest: create_with_dead_letters(client, prefix, QueueName::Ingest).await?,
        decisions: create_with_dead_letters(client, prefix, QueueName::Decisions).await?,
        steps: create_with_dead_letters(client, prefix, QueueName::Steps).await?,
    })
}

async fn create_with_dead_letters(
    client: &aws_sdk_sqs::Client,
    prefix: &str,
    queue: QueueName,
) -> Result<String, StoreError> {
    let name = format!("{prefix}-{queue}");
    let retention = |seconds: &str| (QueueAttributeName::MessageRetentionPeriod, seconds.to_owned());
    let dead_attributes = HashMap::from([retention(DEAD_RETENTION_SECONDS)]);
    let dead = create_queue(client, &format!("{name}-dead"), dead_attributes).await?;
    let policy = json!({
        "deadLetterTargetArn": arn(client, &dead).await?,
        "maxReceiveCount": RECEIVES_MAX,
    });
    let redrive = (QueueAttributeName::RedrivePolicy, policy.to_string());
    create_queue(client, &name, HashMap::from([retention(RETENTION_SECONDS), redrive])).await
}

async fn create_queue(
    client: &aws_sdk_sqs::Client,
    name: &str,
    attributes: HashMap<QueueAttributeName, String>,
) -> Result<String, StoreError> {
    let created = client.create_queue().queue_name(name).set_attributes(Some(attributes)).send().await;
    let created = created.map_err(|error| AwsError::from_sdk(error).into_write_error(CREATING))?;
    created.queue_url.ok_or_else(|| StoreError::broken(CREATING, format!("queue {name} has no URL")))
}

async fn arn(client: &aws_sdk_sqs::Client, url: &str) -> Result<String, StoreError> {
    let name = QueueAttributeName::QueueArn;
    let response = client.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
    let response = response.map_err(|error| AwsError::from_sdk(error).into_read_error(CREATING))?;
    let arn = response.attributes.unwrap_or_default().remove(&name);
    arn.ok_or_else(|| StoreError::broken(CREATING, format!("queue {url} has no ARN")))
}

/// Creates the buckets if they do not exist. The evidence bucket has Object Lock enabled.
pub async fn create_buckets(client: &aws_sdk_s3::Client, buckets: &Buckets) -> Result<(), StoreError> {
    create_bucket(client, &buckets.payloads, false).await?;
    create_bucket(client, &buckets.evidence, true).await
}

async fn create_bucket(client: &aws_sdk_s3::Client, name: &str, object_lock: bool) -> Result<(), StoreError> {
    let create = client.create_bucket().bucket(name).object_lock_enabled_for_bucket(object_lock);
    match create.send().await.map_err(AwsError::from_sdk) {
        Ok(_) => Ok(()),
        Err(error) if error.is("BucketAlreadyOwnedByYou") => Ok(()),
        Err(error) => Err(error.into_write_error(CREATING_BUCKETS)),
    }
}
