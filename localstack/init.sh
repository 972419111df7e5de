#!/usr/bin/env bash
# Creates the resources of Countersign on a local AWS: the table, the queues with their dead-letter queues, and the
# buckets. The script is idempotent. LocalStack's container runs it when it is ready. Elsewhere it needs the `aws` CLI
# and the endpoints that `cargo xtask local up` prints:
#
#   COUNTERSIGN_AWS=http://127.0.0.1:4566 [COUNTERSIGN_DYNAMODB=http://127.0.0.1:4569] localstack/init.sh
#
# In an AWS account, use infra/ instead.
set -euo pipefail

table=${COUNTERSIGN_TABLE:-countersign}
read -r -a queues <<<"${COUNTERSIGN_QUEUES:-countersign-ingest countersign-decisions countersign-steps}"
payloads=${COUNTERSIGN_PAYLOADS:-countersign-payloads}
evidence=${COUNTERSIGN_EVIDENCE:-countersign-evidence}

# Deliveries before a message moves to the dead-letter queue: RECEIVES_MAX in crates/store/src/queue.rs.
receives_max=20
# The default visibility timeout, as in infra/modules/queue. Workers set and extend their own.
visibility_s=60
# The maximum long poll of SQS.
wait_s=20
# Message retention: four days, which covers a long weekend.
kept_s=345600
# The maximum retention of SQS. The age of a dead-letter message counts from its first send.
dead_kept_s=1209600
# One day is enough to test Object Lock.
locked_days=1

export AWS_ACCESS_KEY_ID=${AWS_ACCESS_KEY_ID:-test}
export AWS_SECRET_ACCESS_KEY=${AWS_SECRET_ACCESS_KEY:-test}
export AWS_DEFAULT_REGION=${AWS_DEFAULT_REGION:-${AWS_REGION:-us-east-1}}
# Disables the pager, which would wait for input.
export AWS_PAGER=

log() { printf 'init: %s\n' "$*"; }

# on ENDPOINT ARGS…: runs the AWS CLI against an endpoint. In LocalStack's container there is no ENDPOINT, and `awslocal`
# is used. The script never calls `aws` without an endpoint, because that would use a real account.
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
    log "table $table exists"
  else
    on "$endpoint" dynamodb create-table --cli-input-json "$(table_description)" >/dev/null
    on "$endpoint" dynamodb wait table-exists --table-name "$table"
    log "table $table created"
  fi
  enable_ttl "$endpoint"
}

# The same keys and indexes as crates/store/src/aws/table.rs. Indexes are billed separately, so they contain only keys.
table_description() {
  cat <<JSON
{
  "TableName": "$table",
  "BillingMode": "PAY_PER_REQUEST",
  "AttributeDefinitions": [
    { "AttributeName": "pk", "AttributeType": "S" },
    { "AttributeName": "sk", "AttributeType": "S" },
    { "AttributeName": "due_pk", "AttributeType": "S" },
    { "AttributeName": "due_at", "AttributeType": "N" },
    { "AttributeName": "tenant_pk", "AttributeType": "S" },
    { "AttributeName": "status_pk", "AttributeType": "S" },
    { "AttributeName": "record_pk", "AttributeType": "S" },
    { "AttributeName": "runs_sk", "AttributeType": "S" },
    { "AttributeName": "open_pk", "AttributeType": "S" },
    { "AttributeName": "open_sk", "AttributeType": "S" }
  ],
  "KeySchema": [
    { "AttributeName": "pk", "KeyType": "HASH" },
    { "AttributeName": "sk", "KeyType": "RANGE" }
  ],
  "GlobalSecondaryIndexes": [
    $(index due due_pk due_at),
    $(index runs_by_tenant tenant_pk runs_sk),
    $(index runs_by_status status_pk runs_sk),
    $(index runs_by_record record_pk runs_sk),
    $(index open_approvals open_pk open_sk)
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

# Enables TTL once. A second request would be an error.
enable_ttl() {
  local endpoint=$1 status
  status=$(on "$endpoint" dynamodb describe-time-to-live --table-name "$table" \
    --query TimeToLiveDescription.TimeToLiveStatus --output text)
  if [[ $status != ENABLED && $status != ENABLING ]]; then
    on "$endpoint" dynamodb update-time-to-live --table-name "$table" \
      --time-to-live-specification Enabled=true,AttributeName=ttl >/dev/null
  fi
}

# create_queue NAME: creates the queue NAME and its dead-letter queue NAME-dead.
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
  log "queue $name is ready; messages move to $name-dead after $receives_max deliveries"
}

# queue_with NAME ATTRIBUTES: creates the queue without attributes and then sets them, because create-queue fails for an
# existing queue with other attributes.
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
    log "bucket $name exists"
  else
    on "$aws" s3api create-bucket --bucket "$name" "$@" >/dev/null
    log "bucket $name created"
  fi
}

# Object Lock must be enabled when the bucket is created. Governance mode, so that local data can be deleted.
create_evidence_bucket() {
  create_bucket "$evidence" --object-lock-enabled-for-bucket
  on "$aws" s3api put-object-lock-configuration --bucket "$evidence" --object-lock-configuration \
    "ObjectLockEnabled=Enabled,Rule={DefaultRetention={Mode=GOVERNANCE,Days=$locked_days}}" >/dev/null
}

aws=${COUNTERSIGN_AWS:-}
if [[ -z $aws ]] && ! command -v awslocal >/dev/null; then
  log "error: COUNTERSIGN_AWS is not set and awslocal is not installed; nothing was created" >&2
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
log "done"
