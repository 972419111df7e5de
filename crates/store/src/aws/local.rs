//! Queues and buckets for a local stand-in and for tests. An account's come from its own tools.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName;
use domain::QueueName;
use serde_json::json;

use crate::error::StoreError;
use crate::queue::RECEIVES_MAX;

use super::error::Fault;
use super::s3::Buckets;
use super::sqs::QueueUrls;

const CREATING: &str = "create the queues";
const CREATING_BUCKETS: &str = "create the buckets";

/// Four days: a fleet that was down over a long weekend finds its messages.
const KEPT_SECONDS: &str = "345600";

/// Two weeks, which is as long as SQS keeps anything. A dead letter is as old as its message was, so at least ten days
/// are left to look at it: a person may be away for a week.
const DEAD_KEPT_SECONDS: &str = "1209600";

/// Creates the queues `<prefix>-ingest`, `-decisions` and `-steps`, and a `-dead` one beside each, unless they
/// are there.
pub async fn create_queues(client: &aws_sdk_sqs::Client, prefix: &str) -> Result<QueueUrls, StoreError> {
    Ok(QueueUrls {
        ingest: create_lane(client, prefix, QueueName::Ingest).await?,
        decisions: create_lane(client, prefix, QueueName::Decisions).await?,
        steps: create_lane(client, prefix, QueueName::Steps).await?,
    })
}

async fn create_lane(
    client: &aws_sdk_sqs::Client,
    prefix: &str,
    queue: QueueName,
) -> Result<String, StoreError> {
    let name = format!("{prefix}-{queue}");
    let kept = |seconds: &str| (QueueAttributeName::MessageRetentionPeriod, seconds.to_owned());
    let its_dead = HashMap::from([kept(DEAD_KEPT_SECONDS)]);
    let dead = create_queue(client, &format!("{name}-dead"), its_dead).await?;
    let policy = json!({
        "deadLetterTargetArn": arn(client, &dead).await?,
        "maxReceiveCount": RECEIVES_MAX,
    });
    let redrive = (QueueAttributeName::RedrivePolicy, policy.to_string());
    create_queue(client, &name, HashMap::from([kept(KEPT_SECONDS), redrive])).await
}

async fn create_queue(
    client: &aws_sdk_sqs::Client,
    name: &str,
    attributes: HashMap<QueueAttributeName, String>,
) -> Result<String, StoreError> {
    let created = client.create_queue().queue_name(name).set_attributes(Some(attributes)).send().await;
    let created = created.map_err(|error| Fault::of(error).write(CREATING))?;
    created.queue_url.ok_or_else(|| StoreError::broken(CREATING, format!("the queue {name} has no URL")))
}

async fn arn(client: &aws_sdk_sqs::Client, url: &str) -> Result<String, StoreError> {
    let name = QueueAttributeName::QueueArn;
    let answer = client.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
    let answer = answer.map_err(|error| Fault::of(error).read(CREATING))?;
    let arn = answer.attributes.unwrap_or_default().remove(&name);
    arn.ok_or_else(|| StoreError::broken(CREATING, format!("the queue {url} has no ARN")))
}

/// Creates the buckets, unless they are there; that of evidence such that what is in it can be locked.
pub async fn create_buckets(client: &aws_sdk_s3::Client, buckets: &Buckets) -> Result<(), StoreError> {
    create_bucket(client, &buckets.payloads, false).await?;
    create_bucket(client, &buckets.evidence, true).await
}

async fn create_bucket(client: &aws_sdk_s3::Client, name: &str, locks: bool) -> Result<(), StoreError> {
    let create = client.create_bucket().bucket(name).object_lock_enabled_for_bucket(locks);
    match create.send().await.map_err(Fault::of) {
        Ok(_) => Ok(()),
        Err(fault) if fault.is("BucketAlreadyOwnedByYou") => Ok(()),
        Err(fault) => Err(fault.write(CREATING_BUCKETS)),
    }
}
