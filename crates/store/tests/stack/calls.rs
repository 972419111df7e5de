//! Every store call that sends requests to SQS or S3, for the fault matrix.

use std::time::Duration;

use countersign_store::aws::{Buckets, create_buckets, create_queues};
use countersign_store::{
    BlobKind, Blobs as _, Governance as _, Handle, Ledger as _, PolicyFiles, Queue as _,
};
use domain::{BlobRef, Digest, Job, Millis, Outgoing, QueueName, RunId, RunKey};

use crate::cell::Cell;
use crate::faults::fixture::{FAR_AHEAD, Until, commit_until, decision, tenant};
use crate::faults::matrix::{BoxFuture, Call, render};

/// Prepares the store for a call.
type Setup = fn(&Cell) -> BoxFuture<'_, ()>;

const NOTHING: Setup = |_| Box::pin(async {});
const SENT: Setup = |cell| Box::pin(async { cell.store.send(&message("one")).await.unwrap() });
const SIGNALED: Setup = |cell| Box::pin(commit_until(&cell.store, Until::Signaled));

/// The queues are empty.
const FINISHED: Setup = |cell| {
    Box::pin(async {
        commit_until(&cell.store, Until::Finished).await;
        for queue in [QueueName::Decisions, QueueName::Steps] {
            cell.sqs.purge_queue().queue_url(cell.resources.queue(queue)).send().await.unwrap();
        }
    })
};

/// A message is received.
const RECEIVED: Setup = |cell| {
    Box::pin(async {
        commit_until(&cell.store, Until::Started).await;
        let received =
            cell.store.receive(QueueName::Steps, 1, Millis::secs(60), Duration::ZERO).await.unwrap();
        *cell.handle.lock().unwrap() = Some(received[0].handle.clone());
    })
};

fn received_handle(cell: &Cell) -> Handle {
    cell.handle.lock().unwrap().clone().unwrap()
}

/// A dead-letter message.
const DEAD: Setup = |cell| {
    Box::pin(async {
        cell.store.send(&message("one")).await.unwrap();
        let received = cell
            .sqs
            .receive_message()
            .queue_url(cell.resources.queue(QueueName::Steps))
            .send()
            .await
            .unwrap();
        let body = received.messages()[0].body().unwrap();
        cell.sqs.send_message().queue_url(cell.resources.dead()).message_body(body).send().await.unwrap();
        cell.sqs.purge_queue().queue_url(cell.resources.queue(QueueName::Steps)).send().await.unwrap();
    })
};

macro_rules! call {
    ($name:literal, $setup:expr, |$cell:ident| $call:expr) => {
        call!($name, $setup, |$cell| $call, repeated: None)
    };
    ($name:literal, $setup:expr, |$cell:ident| $call:expr, repeated: $repeated:expr) => {
        Call {
            name: $name,
            setup: $setup,
            make: |$cell: &Cell| Box::pin(async move { render($call) }),
            repeated: $repeated,
        }
    };
}

pub(crate) fn calls() -> Vec<Call<Cell>> {
    [queue(), dead(), blobs(), ledger(), local_resources()].into_iter().flatten().collect()
}

fn message(name: &str) -> Outgoing {
    let run = RunKey { tenant: tenant(), run: RunId::new(name).unwrap() };
    Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

fn queue() -> Vec<Call<Cell>> {
    vec![
        call!("send", NOTHING, |cell| cell.store.send(&message("one")).await),
        call!("send_all", NOTHING, |cell| {
            let sent = cell.store.send_all(&["one", "two", "three"].map(message)).await;
            sent.into_iter().collect::<Result<Vec<_>, _>>()
        }),
        // A message whose delivery was lost is invisible.
        call!("receive", SENT, |cell| {
            let received = cell.store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await;
            received.map(|received| received.into_iter().map(|got| got.run).collect::<Vec<_>>())
        }, repeated: Some("[]")),
        call!("extend", RECEIVED, |cell| cell.store.extend(&received_handle(cell), Millis::secs(60)).await),
        call!("delete", RECEIVED, |cell| cell.store.delete(&received_handle(cell)).await, repeated: Some("false")),
        call!("depth", SENT, |cell| cell.store.depth(QueueName::Steps).await),
        call!("visible", SENT, |cell| cell.store.visible(QueueName::Steps).await),
    ]
}

fn dead() -> Vec<Call<Cell>> {
    vec![
        call!("dead_letters", DEAD, |cell| {
            let letters = cell.store.dead_letters(10).await;
            letters.map(|letters| letters.into_iter().filter_map(|letter| letter.run().cloned()).collect::<Vec<_>>())
        }, repeated: Some("[]")),
        call!("redrive", DEAD, |cell| cell.store.redrive(10).await, repeated: Some("0")),
        call!("redrive, limit zero", DEAD, |cell| cell.store.redrive(0).await),
    ]
}

/// A payload is stored.
const STORED: Setup = |cell| {
    Box::pin(async {
        cell.store.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    })
};

/// A bundle is stored.
const WITH_EVIDENCE: Setup = |cell| {
    Box::pin(async {
        // All cells share the bucket, so an earlier one may have stored it.
        cell.store.put_bundle(&tenant(), "run", b"proof".to_vec()).await.unwrap();
    })
};

fn blobs() -> Vec<Call<Cell>> {
    vec![
        call!("put_blob", NOTHING, |cell| cell
            .store
            .put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec())
            .await),
        call!("put_blob, existing", STORED, |cell| cell
            .store
            .put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec())
            .await),
        call!("put_blob, old object", STORED, |cell| cell
            .blobs_at(FAR_AHEAD)
            .put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec())
            .await),
        call!("blob", STORED, |cell| {
            let blob = BlobRef { sha256: Digest::of_bytes(b"large"), bytes: 5 };
            cell.store.blob(BlobKind::Payloads, &tenant(), &blob).await
        }),
        call!("put_bundle", NOTHING, |cell| {
            let stored = cell.store.put_bundle(&tenant(), "run", b"proof".to_vec()).await;
            // After a lost reply, the same bundle is there.
            stored.map(|stored| stored.is_none_or(|stored| stored == b"proof"))
        }),
        call!("put_bundle, existing", WITH_EVIDENCE, |cell| {
            cell.store.put_bundle(&tenant(), "run", b"forged".to_vec()).await
        }),
        call!("bundle", WITH_EVIDENCE, |cell| cell.store.bundle(&tenant(), "run").await),
    ]
}

/// Calls of the ledger that use the queue or the blob store.
fn ledger() -> Vec<Call<Cell>> {
    vec![
        call!("put_policy, in a blob", NOTHING, |cell| {
            cell.store.put_policy(&tenant(), &Digest::ZERO, large()).await
        }),
        call!(
            "policy, in a blob",
            |cell| Box::pin(async {
                cell.store.put_policy(&tenant(), &Digest::ZERO, large()).await.unwrap();
            }),
            |cell| {
                let policy = cell.store.policy(&tenant(), &Digest::ZERO).await;
                policy.map(|policy| policy == Some(large()))
            }
        ),
        call!("commit, with jobs", SIGNALED, |cell| {
            cell.store.commit(decision(Until::ApprovalRequested)).await
        }, repeated: Some("Superseded")),
        call!("commit, run ends", FINISHED, |cell| {
            cell.store.commit(decision(Until::Canceled)).await
        }, repeated: Some("Superseded")),
    ]
}

fn large() -> PolicyFiles {
    PolicyFiles::from([("main.rego".to_owned(), "x".repeat(300 * 1024))])
}

fn local_resources() -> Vec<Call<Cell>> {
    vec![
        call!("create_queues", NOTHING, |cell| {
            create_queues(&cell.sqs, &format!("{}-other", cell.resources.name)).await
        }),
        call!("create_buckets", NOTHING, |cell| {
            let (payloads, evidence) = (format!("{}-a", cell.table), format!("{}-b", cell.table));
            create_buckets(&cell.s3, &Buckets { payloads, evidence, retain: None }).await
        }),
    ]
}
