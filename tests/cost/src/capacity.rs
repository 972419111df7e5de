//! The capacity that each DynamoDB request consumes, as DynamoDB reports it. An SDK interceptor asks for the report in
//! every request and reads it from every answer. It counts attempts, so that SDK retries are included.

use aws_sdk_dynamodb::config::interceptors::{
    BeforeSerializationInterceptorContextMut, BeforeTransmitInterceptorContextRef,
    FinalizerInterceptorContextRef,
};
use aws_sdk_dynamodb::config::{ConfigBag, Intercept, RuntimeComponents};
use aws_sdk_dynamodb::error::BoxError;
use aws_sdk_dynamodb::operation::batch_get_item::BatchGetItemInput;
use aws_sdk_dynamodb::operation::batch_write_item::BatchWriteItemInput;
use aws_sdk_dynamodb::operation::delete_item::DeleteItemInput;
use aws_sdk_dynamodb::operation::get_item::GetItemInput;
use aws_sdk_dynamodb::operation::put_item::PutItemInput;
use aws_sdk_dynamodb::operation::query::QueryInput;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsInput;
use aws_sdk_dynamodb::operation::update_item::UpdateItemInput;
use aws_sdk_dynamodb::types::ReturnConsumedCapacity::Indexes;
use aws_smithy_types::config_bag::{Storable, StoreReplace};
use serde_json::Value;

use crate::meter::{Kind, Meter, Service, Tally, WriteKind};

/// The header that names the operation.
const TARGET: &str = "x-amz-target";

/// The size that one write unit covers.
const WRITE_UNIT_BYTES: usize = 1024;

/// The SDK interceptor.
#[derive(Debug, Clone)]
pub(crate) struct Capacity(pub(crate) Meter);

/// A request in progress.
#[derive(Debug, Clone)]
struct PendingRequest {
    operation: String,
    about: String,
    write_kind: WriteKind,
    /// The units it consumes if it fails, because an error response does not report them.
    units_if_failed: f64,
}

impl Storable for PendingRequest {
    type Storer = StoreReplace<Self>;
}

impl Intercept for Capacity {
    fn name(&self) -> &'static str {
        "Capacity"
    }

    fn modify_before_serialization(
        &self,
        context: &mut BeforeSerializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let input = context.input_mut();
        macro_rules! report_capacity {
            ($($Input:ty),*) => {
                $(if let Some(input) = input.downcast_mut::<$Input>() {
                    input.return_consumed_capacity = Some(Indexes);
                })*
            };
        }
        report_capacity!(
            GetItemInput,
            BatchGetItemInput,
            BatchWriteItemInput,
            QueryInput,
            PutItemInput,
            UpdateItemInput,
            DeleteItemInput
        );
        report_capacity!(TransactWriteItemsInput);
        Ok(())
    }

    fn read_before_transmit(
        &self,
        context: &BeforeTransmitInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let request = context.request();
        let target = request.headers().get(TARGET).unwrap_or_default();
        let operation = target.rsplit('.').next().unwrap_or_default().to_owned();
        let body: Value = serde_json::from_slice(request.body().bytes().unwrap_or_default())?;
        state.interceptor_state().store_put(PendingRequest {
            about: about(&body),
            write_kind: write_kind(&body),
            units_if_failed: units_if_failed(&operation, &body),
            operation,
        });
        self.0.sent();
        Ok(())
    }

    fn read_after_attempt(
        &self,
        context: &FinalizerInterceptorContextRef<'_>,
        _: &RuntimeComponents,
        state: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let Some(request) = state.load::<PendingRequest>().cloned() else { return Ok(()) };
        self.0.record_response(request.write_kind);
        let answer = context.response().filter(|answer| answer.status().is_success());
        let answer = answer.and_then(|answer| serde_json::from_slice(answer.body().bytes()?).ok());
        self.count(&request, answer.as_ref());
        Ok(())
    }
}

impl Capacity {
    fn count(&self, request: &PendingRequest, answer: Option<&Value>) {
        let reads = ["GetItem", "BatchGetItem", "Query"].contains(&request.operation.as_str());
        let take = |units: f64| {
            let (write_units, read_units) = if reads { (0.0, units) } else { (units, 0.0) };
            Tally { write_units, read_units, ..Tally::default() }
        };
        let Some(answer) = answer else {
            let failed = Tally { requests: 1, failed: 1, ..take(request.units_if_failed) };
            return self.0.add(request.kind(&request.about), failed);
        };
        let mut of_table = 0.0;
        for consumed in each(&answer["ConsumedCapacity"]) {
            let mut of_indexes = 0.0;
            for (index, units) in consumed["GlobalSecondaryIndexes"].as_object().into_iter().flatten() {
                let units = units["CapacityUnits"].as_f64().unwrap_or_default();
                of_indexes += units;
                self.0.add(request.kind(&format!("index {index}")), take(units));
            }
            of_table += consumed["CapacityUnits"].as_f64().unwrap_or_default() - of_indexes;
        }
        self.0.add(request.kind(&request.about), Tally { requests: 1, ..take(of_table) });
    }
}

impl PendingRequest {
    fn kind(&self, about: &str) -> Kind {
        let (operation, about) = (self.operation.clone(), about.to_owned());
        Kind { service: Service::DynamoDb, operation, about }
    }
}

/// The value itself, or the elements of a list.
fn each(value: &Value) -> Vec<&Value> {
    value.as_array().map_or_else(|| vec![value], |values| values.iter().collect())
}

/// The writes of a transaction: the operation, and the item or key.
fn writes(body: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let items = body["TransactItems"].as_array().into_iter().flatten();
    items.flat_map(|item| item.as_object().into_iter().flatten()).map(|(done, to)| {
        let key = if done == "Put" { &to["Item"] } else { &to["Key"] };
        (done.as_str(), key)
    })
}

/// The kind of an item: the first part of its sort key.
fn sort(item: &Value) -> &str {
    item["sk"]["S"].as_str().and_then(|key| key.split('#').next()).unwrap_or("?")
}

/// A short description of the items of a request.
fn about(body: &Value) -> String {
    if let Some(index) = body["IndexName"].as_str() {
        return format!("index {index}");
    }
    if let Some(first) = body["ExpressionAttributeValues"][":first"]["S"].as_str() {
        return format!("{}s of a run or tenant", first.split('#').next().unwrap_or_default());
    }
    let tables = || body["RequestItems"].as_object().into_iter().flatten();
    let wanted = tables().flat_map(|(_, of)| of["Keys"].as_array().into_iter().flatten());
    let puts = tables().flat_map(|(_, of)| of.as_array().into_iter().flatten());
    let puts = puts.map(|put| &put["PutRequest"]["Item"]);
    let single = [&body["Key"], &body["Item"]].into_iter().filter(|item| item.is_object());
    let sorts = writes(body).map(|(_, item)| item).chain(wanted).chain(puts).chain(single).map(sort);
    let mut sorts: Vec<&str> = sorts.collect();
    // The size of a batch depends on the load.
    if body["RequestItems"].is_object() {
        sorts.dedup();
    }
    sorts.join(" + ")
}

fn write_kind(body: &Value) -> WriteKind {
    // A commit of only the record is not a transaction; it is recognized by the revision that it sets.
    let sets_revision = body["UpdateExpression"].as_str().is_some_and(|words| words.contains("rev = :rev"));
    let commits = writes(body).any(|(done, item)| done == "Update" && sort(item) == "run") || sets_revision;
    let ends_step = writes(body).any(|(done, item)| done == "Put" && sort(item) == "step");
    WriteKind { commits, ends_step }
}

/// A write whose condition fails is charged like one that succeeds. The JSON is a little longer than the item.
fn units_if_failed(operation: &str, body: &Value) -> f64 {
    let units = |item: &Value| item.to_string().len().div_ceil(WRITE_UNIT_BYTES);
    let units: usize = match operation {
        "TransactWriteItems" => 2 * each(&body["TransactItems"]).into_iter().map(units).sum::<usize>(),
        "PutItem" => units(&body["Item"]),
        _ => 1,
    };
    u32::try_from(units).map_or(f64::MAX, f64::from)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn commit_that_ends_a_step_is_recognized() {
        let run = json!({ "Update": { "Key": { "pk": { "S": "a#run#1" }, "sk": { "S": "run" } } } });
        let step = json!({ "Put": { "Item": { "pk": { "S": "a#run#1" }, "sk": { "S": "step#00001#0" } } } });
        let both = json!({ "TransactItems": [run, step] });
        assert_eq!(about(&both), "run + step");
        assert_eq!(write_kind(&both), WriteKind { commits: true, ends_step: true });
        let claim = json!({ "TransactItems": [run] });
        assert_eq!(write_kind(&claim), WriteKind { commits: true, ends_step: false });
        assert!(!write_kind(&json!({ "TransactItems": [step] })).commits);
        let alone =
            json!({ "Key": { "sk": { "S": "run" } }, "UpdateExpression": "SET rev = :rev, body = :body" });
        assert!(write_kind(&alone).commits);
    }
}
