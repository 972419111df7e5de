//! Every call of the store that speaks to SQS or S3, for the matrix.

use std::time::Duration;

use countersign_store::aws::{Buckets, create_buckets, create_queues};
use countersign_store::{
    BlobKind, Blobs as _, Governance as _, Handle, Ledger as _, PolicyFiles, Queue as _,
};
use domain::{BlobRef, Digest, Job, Millis, Outgoing, QueueName, RunId, RunKey};

use crate::faults::matrix::{Call, Held, said};
use crate::faults::story::{FAR_AHEAD, Until, decision, tell, tenant};
use crate::stage::Cell;

/// What is there before a call.
type Given = fn(&Cell) -> Held<'_, ()>;

const NOTHING: Given = |_| Box::pin(async {});
const SENT: Given = |cell| Box::pin(async { cell.store.send(&message("one")).await.unwrap() });
const SIGNALED: Given = |cell| Box::pin(tell(&cell.store, Until::Signaled));

/// Nothing of what was sent before is under way any more.
const FINISHED: Given = |cell| {
    Box::pin(async {
        tell(&cell.store, Until::Finished).await;
        for queue in [QueueName::Decisions, QueueName::Steps] {
            cell.sqs.purge_queue().queue_url(cell.place.queue(queue)).send().await.unwrap();
        }
    })
};

/// A message in our hands.
const RECEIVED: Given = |cell| {
    Box::pin(async {
        tell(&cell.store, Until::Begun).await;
        let received =
            cell.store.receive(QueueName::Steps, 1, Millis::secs(60), Duration::ZERO).await.unwrap();
        *cell.held.lock().unwrap() = Some(received[0].handle.clone());
    })
};

fn held(cell: &Cell) -> Handle {
    cell.held.lock().unwrap().clone().unwrap()
}

/// One that was given up.
const DEAD: Given = |cell| {
    Box::pin(async {
        cell.store.send(&message("one")).await.unwrap();
        let received =
            cell.sqs.receive_message().queue_url(cell.place.queue(QueueName::Steps)).send().await.unwrap();
        let words = received.messages()[0].body().unwrap();
        cell.sqs.send_message().queue_url(cell.place.dead()).message_body(words).send().await.unwrap();
        cell.sqs.purge_queue().queue_url(cell.place.queue(QueueName::Steps)).send().await.unwrap();
    })
};

macro_rules! call {
    ($name:literal, $given:expr, |$cell:ident| $call:expr) => {
        call!($name, $given, |$cell| $call, again: None)
    };
    ($name:literal, $given:expr, |$cell:ident| $call:expr, again: $again:expr) => {
        Call {
            name: $name,
            given: $given,
            make: |$cell: &Cell| Box::pin(async move { said($call) }),
            again: $again,
        }
    };
}

pub(crate) fn calls() -> Vec<Call<Cell>> {
    [queue(), dead(), blobs(), ledger(), furnishing()].into_iter().flatten().collect()
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
        // What was taken and did not arrive is hidden.
        call!("receive", SENT, |cell| {
            let received = cell.store.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await;
            received.map(|received| received.into_iter().map(|got| got.run).collect::<Vec<_>>())
        }, again: Some("[]")),
        call!("extend", RECEIVED, |cell| cell.store.extend(&held(cell), Millis::secs(60)).await),
        call!("delete", RECEIVED, |cell| cell.store.delete(&held(cell)).await, again: Some("false")),
        call!("depth", SENT, |cell| cell.store.depth(QueueName::Steps).await),
        call!("waiting", SENT, |cell| cell.store.waiting(QueueName::Steps).await),
    ]
}

fn dead() -> Vec<Call<Cell>> {
    vec![
        call!("dead_letters", DEAD, |cell| {
            let letters = cell.store.dead_letters(10).await;
            letters.map(|letters| letters.into_iter().map(|letter| letter.run).collect::<Vec<_>>())
        }, again: Some("[]")),
        call!("redrive", DEAD, |cell| cell.store.redrive(10).await, again: Some("0")),
        call!("redrive, of none", DEAD, |cell| cell.store.redrive(0).await),
    ]
}

/// A payload.
const KEPT: Given = |cell| {
    Box::pin(async {
        cell.store.put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec()).await.unwrap();
    })
};

fn blobs() -> Vec<Call<Cell>> {
    vec![
        call!("put_blob", NOTHING, |cell| cell
            .store
            .put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec())
            .await),
        call!("put_blob, of what is there", KEPT, |cell| cell
            .store
            .put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec())
            .await),
        call!("put_blob, of what is old", KEPT, |cell| cell
            .blobs_at(FAR_AHEAD)
            .put_blob(BlobKind::Payloads, &tenant(), b"large".to_vec())
            .await),
        call!("blob", KEPT, |cell| {
            let blob = BlobRef { sha256: Digest::of_bytes(b"large"), bytes: 5 };
            cell.store.blob(BlobKind::Payloads, &tenant(), &blob).await
        }),
    ]
}

/// What the ledger asks of the other two.
fn ledger() -> Vec<Call<Cell>> {
    vec![
        call!("put_policy, by pointer", NOTHING, |cell| {
            cell.store.put_policy(&tenant(), &Digest::ZERO, large()).await
        }),
        call!(
            "policy, by pointer",
            |cell| Box::pin(async {
                cell.store.put_policy(&tenant(), &Digest::ZERO, large()).await.unwrap();
            }),
            |cell| {
                let policy = cell.store.policy(&tenant(), &Digest::ZERO).await;
                policy.map(|policy| policy == Some(large()))
            }
        ),
        call!("commit, with jobs", SIGNALED, |cell| {
            cell.store.commit(decision(Until::Asked)).await
        }, again: Some("Superseded")),
        call!("commit, of the end", FINISHED, |cell| {
            cell.store.commit(decision(Until::Canceled)).await
        }, again: Some("Superseded")),
    ]
}

/// Too large for an item.
fn large() -> PolicyFiles {
    PolicyFiles::from([("main.rego".to_owned(), "x".repeat(300 * 1024))])
}

fn furnishing() -> Vec<Call<Cell>> {
    vec![
        call!("create_queues", NOTHING, |cell| {
            create_queues(&cell.sqs, &format!("{}-other", cell.place.name)).await
        }),
        call!("create_buckets", NOTHING, |cell| {
            let (payloads, evidence) = (format!("{}-a", cell.table), format!("{}-b", cell.table));
            create_buckets(&cell.s3, &Buckets { payloads, evidence, retain: None }).await
        }),
    ]
}
