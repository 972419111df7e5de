//! SQS specifics: undecodable messages, partial batches, connection faults.

use std::time::Duration;

use countersign_store::aws::create_queues;
use countersign_store::{DeadLetter, Handle, Queue as _, RECEIVES_MAX, StoreError};
use domain::{Job, Millis, Outgoing, QueueName, RunId, RunKey, TenantId};

use crate::EnvCase;
use crate::env::StackEnv;
use crate::faults::connection::{Fault, FaultyConnection};

pub(crate) fn cases() -> Vec<(&'static str, EnvCase)> {
    vec![
        ("undecodable_message_moves_to_the_dead_letter_queue", |env| {
            Box::pin(undecodable_message_moves_to_the_dead_letter_queue(env))
        }),
        ("only_failed_batch_entries_are_retried", |env| Box::pin(only_failed_batch_entries_are_retried(env))),
        ("rejected_batch_entry_is_reported_alone", |env| {
            Box::pin(rejected_batch_entry_is_reported_alone(env))
        }),
        ("send_faults_are_classified", |env| Box::pin(send_faults_are_classified(env))),
        ("foreign_handle_is_not_valid", |env| Box::pin(foreign_handle_is_not_valid(env))),
        ("queues_are_created_once", |env| Box::pin(queues_are_created_once(env))),
        ("messages_of_a_tenant_share_a_message_group", |env| {
            Box::pin(messages_of_a_tenant_share_a_message_group(env))
        }),
    ]
}

fn message(name: &str) -> Outgoing {
    let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new(name).unwrap() };
    Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

/// The number of messages in the queue at `url`.
async fn message_count(env: &StackEnv, url: &str) -> usize {
    let name = aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessages;
    let response = env.sqs.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
    response.unwrap().attributes.unwrap()[&name].parse().unwrap()
}

async fn undecodable_message_moves_to_the_dead_letter_queue(env: StackEnv) {
    let (queue, url) = (env.queue(), env.queues.steps.clone());
    env.sqs.send_message().queue_url(&url).message_body("hello").send().await.unwrap();
    queue.send(&message("run")).await.unwrap();

    let received = queue.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO).await.unwrap();
    assert_eq!(received.iter().map(|delivery| delivery.run.run.as_str()).collect::<Vec<_>>(), ["run"]);
    for _ in 0..=RECEIVES_MAX {
        queue.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO).await.unwrap();
    }

    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 0);
    let dead = queue.dead_letters(10).await.unwrap();
    assert_eq!(dead.iter().filter_map(DeadLetter::run).collect::<Vec<_>>(), [&message("run").run]);
    assert_eq!(dead.len(), 2, "the undecodable message is listed");
    assert_eq!(queue.redrive(10).await.unwrap(), 1);
    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 1);
    assert_eq!(message_count(&env, &format!("{url}-dead")).await, 1, "the undecodable message stays");
}

/// SQS accepted all messages of a batch except those with these numbers.
fn partial_batch(failed: &[usize], sender_fault: bool) -> Fault {
    let entry = |id| format!(r#"{{"Id":"{id}","SenderFault":{sender_fault},"Code":"InternalError"}}"#);
    let failed: Vec<_> = failed.iter().map(entry).collect();
    let body = format!(r#"{{"Successful":[],"Failed":[{}]}}"#, failed.join(","));
    Fault::Respond { status: 200, body }
}

async fn only_failed_batch_entries_are_retried(env: StackEnv) {
    let queue =
        env.queue_over(FaultyConnection::with([partial_batch(&[1, 2], false), partial_batch(&[2], false)]));
    let sent = queue.send_all(&[message("zero"), message("one"), message("two")]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    // The connection only claims that it sent the others.
    let received = queue.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    assert_eq!(received.iter().map(|delivery| delivery.run.run.as_str()).collect::<Vec<_>>(), ["two"]);

    let never = env.queue_over(FaultyConnection::with(std::iter::repeat_n(partial_batch(&[1], false), 10)));
    let sent = never.send_all(&[message("zero"), message("one")]).await;
    assert!(matches!(&sent[..], [Ok(()), Err(StoreError::Busy { .. })]), "{sent:?}");
}

async fn rejected_batch_entry_is_reported_alone(env: StackEnv) {
    let queue = env.queue_over(FaultyConnection::with([partial_batch(&[0], true)]));
    let sent = queue.send_all(&[message("zero"), message("one")]).await;
    assert!(matches!(&sent[..], [Err(StoreError::Broken { .. }), Ok(())]), "{sent:?}");
}

async fn send_faults_are_classified(env: StackEnv) {
    let response = |status, code: &str| Fault::Respond {
        status,
        body: format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#),
    };
    for (fault, expected) in [
        (response(400, "RequestThrottled"), "busy"),
        (response(400, "KmsThrottled"), "busy"),
        (response(400, "InvalidMessageContents"), "broken"),
        (response(400, "QueueDoesNotExist"), "broken"),
        (response(403, "AccessDeniedException"), "broken"),
        (response(500, "InternalFailure"), "unknown"),
        (Fault::LoseReply, "unknown"),
        (Fault::LoseRequest, "unknown"),
    ] {
        for together in [false, true] {
            let queue = env.queue_over(FaultyConnection::with([fault.clone()]));
            let sent = if together {
                queue.send_all(&[message("run"), message("run")]).await.remove(1)
            } else {
                queue.send(&message("run")).await
            };
            let class = match sent {
                Ok(()) => "sent",
                Err(StoreError::Busy { .. }) => "busy",
                Err(StoreError::Unknown { .. }) => "unknown",
                Err(StoreError::Broken { .. }) => "broken",
            };
            assert_eq!(class, expected, "{fault:?}");
        }
    }
}

async fn foreign_handle_is_not_valid(env: StackEnv) {
    let queue = env.queue();
    for foreign in ["17", "steps", "fast:AQEB"] {
        let handle = Handle::new(foreign, 1);
        assert!(!queue.extend(&handle, Millis(0)).await.unwrap());
        assert!(!queue.delete(&handle).await.unwrap());
    }
}

async fn queues_are_created_once(env: StackEnv) {
    env.queue().send(&message("run")).await.unwrap();
    assert_eq!(create_queues(&env.sqs, env.name()).await.unwrap(), env.queues);
    assert_eq!(env.queue().depth(QueueName::Steps).await.unwrap(), 1);
}

async fn messages_of_a_tenant_share_a_message_group(env: StackEnv) {
    let sent = env.queue().send_all(&[message("one"), message("two")]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    env.queue().send(&message("three")).await.unwrap();
    let group = aws_sdk_sqs::types::MessageSystemAttributeName::MessageGroupId;
    let receive = env.sqs.receive_message().queue_url(&env.queues.steps).max_number_of_messages(10);
    let received = receive.message_system_attribute_names(group.clone()).send().await.unwrap();
    let groups: Vec<_> =
        received.messages().iter().map(|got| got.attributes().unwrap()[&group].as_str()).collect();
    assert_eq!(groups, ["acme"; 3]);
}
