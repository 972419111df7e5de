#!/usr/bin/env bash
# Creates what Countersign needs on a local stand-in for AWS: the table, the queues with their dead-letter queues,
# the buckets. Running it again changes nothing. LocalStack's container runs it when it is ready; anywhere else it
# takes any `aws` command line and the endpoints that `cargo xtask local up` prints:
#
#   COUNTERSIGN_AWS=http://127.0.0.1:4566 [COUNTERSIGN_DYNAMODB=http://127.0.0.1:4569] localstack/init.sh
#
# An account's own resources come from infra/, never from here.
set -euo pipefail

table=${COUNTERSIGN_TABLE:-countersign}
read -r -a queues <<<"${COUNTERSIGN_QUEUES:-countersign-ingest countersign-decisions countersign-steps}"
payloads=${COUNTERSIGN_PAYLOADS:-countersign-payloads}
evidence=${COUNTERSIGN_EVIDENCE:-countersign-evidence}

# After how many deliveries a message is put aside: RECEIVES_MAX in the store.
receives_max=20
# How long a message stays hidden if its receiver does not say, as in infra/modules/queue. Workers do, and extend it.
visibility_s=60
# The longest poll that SQS allows.
wait_s=20
# How long a message waits for a worker: four days, over a long weekend.
kept_s=345600
# The longest that SQS keeps anything. A dead letter is as old as its message was, and waits for a person.
dead_kept_s=1209600
# Nobody keeps evidence on a stand-in; a day shows that the lock holds.
locked_days=1

export AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID:-test}
export AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY:-test}
export AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-${AWS_REGION:-us-east-1}}
# A pager would wait for somebody.
export AWS_PAGER=

say() { printf 'init: %s\n' "$*"; }

# on ENDPOINT ARGS…: the command line, pointed at a stand-in. In LocalStack's container no endpoint is given, and
# `awslocal` knows it; without either this stops, because plain `aws` would speak to a real account.
on() {
  local endpoint=$1
  shift
  if [[ -n $endpoint ]]; then
    aws --endpoint-url "$endpoint" "$@"
  else
    awslocal "$@"
  fi
}

create_table() {
  local endpoint=$1
  if on "$endpoint" dynamodb describe-table --table-name "$table" >/dev/null 2>&1; then
    say "table $table is there"
  else
    on "$endpoint" dynamodb create-table --cli-input-json "$(table_description)" >/dev/null
    on "$endpoint" dynamodb wait table-exists --table-name "$table"
    say "table $table created"
  fi
  forget_in_time "$endpoint"
}

# The same keys and indexes as crates/store/src/aws/table.rs. An index is an entry of its own in the bill, so it holds
# keys alone.
table_description() {
  cat <<JSON
{
  "TableName": "$table",
  "BillingMode": "PAY_PER_REQUEST",
  "AttributeDefinitions": [
    { "AttributeName": "pk", "AttributeType": "S" },
    { "AttributeName": "sk", "AttributeType": "S" },
    { "AttributeName": "due_in", "AttributeType": "S" },
    { "AttributeName": "due_at", "AttributeType": "N" },
    { "AttributeName": "runs_of", "AttributeType": "S" },
    { "AttributeName": "runs_in", "AttributeType": "S" },
    { "AttributeName": "runs_on", "AttributeType": "S" },
    { "AttributeName": "begun", "AttributeType": "S" },
    { "AttributeName": "open_of", "AttributeType": "S" },
    { "AttributeName": "asked", "AttributeType": "S" }
  ],
  "KeySchema": [
    { "AttributeName": "pk", "KeyType": "HASH" },
    { "AttributeName": "sk", "KeyType": "RANGE" }
  ],
  "GlobalSecondaryIndexes": [
    $(index due due_in due_at),
    $(index runs_by_tenant runs_of begun),
    $(index runs_by_status runs_in begun),
    $(index runs_by_record runs_on begun),
    $(index open_approvals open_of asked)
  ]
}
JSON
}

# index NAME HASH RANGE
index() {
  printf '{ "IndexName": "%s", "KeySchema": [
      { "AttributeName": "%s", "KeyType": "HASH" },
      { "AttributeName": "%s", "KeyType": "RANGE" } ],
      "Projection": { "ProjectionType": "KEYS_ONLY" } }' "$1" "$2" "$3"
}

# Switched on once: asking for it a second time is an error.
forget_in_time() {
  local endpoint=$1 status
  status=$(on "$endpoint" dynamodb describe-time-to-live --table-name "$table" \
    --query TimeToLiveDescription.TimeToLiveStatus --output text)
  if [[ $status != ENABLED && $status != ENABLING ]]; then
    on "$endpoint" dynamodb update-time-to-live --table-name "$table" \
      --time-to-live-specification Enabled=true,AttributeName=ttl >/dev/null
  fi
}

# create_queue NAME: the queue, and beside it the one where what was delivered too often is kept for a person.
create_queue() {
  local name=$1 dead_arn
  queue_with "$name-dead" "{ \"MessageRetentionPeriod\": \"$dead_kept_s\" }"
  dead_arn=$(queue_arn "$name-dead")
  queue_with "$name" "{
    \"VisibilityTimeout\": \"$visibility_s\",
    \"ReceiveMessageWaitTimeSeconds\": \"$wait_s\",
    \"MessageRetentionPeriod\": \"$kept_s\",
    \"RedrivePolicy\": \"{\\\"deadLetterTargetArn\\\":\\\"$dead_arn\\\",\\\"maxReceiveCount\\\":\\\"$receives_max\\\"}\"
  }"
  say "queue $name, dead letters after $receives_max deliveries to $name-dead"
}

# queue_with NAME ATTRIBUTES: created without attributes, because a queue that is there with other ones would be
# refused; then given them.
queue_with() {
  local name=$1 attributes=$2 url
  url=$(on "$aws" sqs create-queue --queue-name "$name" --query QueueUrl --output text)
  on "$aws" sqs set-queue-attributes --queue-url "$url" --attributes "$attributes"
}

queue_arn() {
  local url
  url=$(on "$aws" sqs get-queue-url --queue-name "$1" --query QueueUrl --output text)
  on "$aws" sqs get-queue-attributes --queue-url "$url" --attribute-names QueueArn \
    --query Attributes.QueueArn --output text
}

# create_bucket NAME [OPTIONS…]
create_bucket() {
  local name=$1
  shift
  if on "$aws" s3api head-bucket --bucket "$name" >/dev/null 2>&1; then
    say "bucket $name is there"
  else
    on "$aws" s3api create-bucket --bucket "$name" "$@" >/dev/null
    say "bucket $name created"
  fi
}

# Object Lock is given to a bucket at its birth. Governance, not compliance: nothing here has to outlive its owner.
create_evidence_bucket() {
  create_bucket "$evidence" --object-lock-enabled-for-bucket
  on "$aws" s3api put-object-lock-configuration --bucket "$evidence" --object-lock-configuration \
    "ObjectLockEnabled=Enabled,Rule={DefaultRetention={Mode=GOVERNANCE,Days=$locked_days}}" >/dev/null
}

aws=${COUNTERSIGN_AWS:-}
if [[ -z $aws ]] && ! command -v awslocal >/dev/null; then
  say "COUNTERSIGN_AWS names no endpoint, and there is no awslocal; nothing was created" >&2
  exit 2
fi

create_table "$aws"
if [[ -n ${COUNTERSIGN_DYNAMODB:-} && $COUNTERSIGN_DYNAMODB != "$aws" ]]; then
  create_table "$COUNTERSIGN_DYNAMODB"
fi
for queue in "${queues[@]}"; do
  create_queue "$queue"
done
create_bucket "$payloads"
create_evidence_bucket
say "done"
