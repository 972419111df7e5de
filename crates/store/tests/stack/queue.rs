//! What is particular to SQS: messages that nobody can read, batches taken in part, lines that fail.

use std::time::Duration;

use countersign_store::aws::create_queues;
use countersign_store::{Handle, Queue as _, RECEIVES_MAX, StoreError};
use domain::{Job, Millis, Outgoing, QueueName, RunId, RunKey, TenantId};

use crate::Own;
use crate::account::Account;
use crate::faults::line::{Fault, Line};

pub(crate) fn cases() -> Vec<(&'static str, Own)> {
    vec![
        ("a_message_that_cannot_be_read_is_left_until_it_is_put_aside_and_stays_there", |account| {
            Box::pin(a_message_that_cannot_be_read_is_left_until_it_is_put_aside_and_stays_there(account))
        }),
        ("what_a_batch_did_not_take_is_sent_again_and_nothing_else", |account| {
            Box::pin(what_a_batch_did_not_take_is_sent_again_and_nothing_else(account))
        }),
        ("a_message_that_a_batch_refuses_is_reported_alone", |account| {
            Box::pin(a_message_that_a_batch_refuses_is_reported_alone(account))
        }),
        ("every_fault_of_a_send_has_its_meaning", |account| {
            Box::pin(every_fault_of_a_send_has_its_meaning(account))
        }),
        ("a_handle_of_another_queue_names_nothing", |account| {
            Box::pin(a_handle_of_another_queue_names_nothing(account))
        }),
        ("queues_are_created_once", |account| Box::pin(queues_are_created_once(account))),
        ("messages_of_a_tenant_are_one_group", |account| {
            Box::pin(messages_of_a_tenant_are_one_group(account))
        }),
    ]
}

fn message(name: &str) -> Outgoing {
    let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new(name).unwrap() };
    Outgoing { run, queue: QueueName::Steps, job: Job::Advance, delay: Millis(0) }
}

/// The number of messages in the queue at `url`.
async fn counted(account: &Account, url: &str) -> usize {
    let name = aws_sdk_sqs::types::QueueAttributeName::ApproximateNumberOfMessages;
    let asked = account.sqs.get_queue_attributes().queue_url(url).attribute_names(name.clone()).send().await;
    asked.unwrap().attributes.unwrap()[&name].parse().unwrap()
}

async fn a_message_that_cannot_be_read_is_left_until_it_is_put_aside_and_stays_there(account: Account) {
    let (queue, url) = (account.queue(), account.queues.steps.clone());
    account.sqs.send_message().queue_url(&url).message_body("hello").send().await.unwrap();
    queue.send(&message("run")).await.unwrap();

    let received = queue.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO).await.unwrap();
    assert_eq!(received.iter().map(|delivery| delivery.run.run.as_str()).collect::<Vec<_>>(), ["run"]);
    for _ in 0..=RECEIVES_MAX {
        queue.receive(QueueName::Steps, 10, Millis(0), Duration::ZERO).await.unwrap();
    }

    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 0);
    let dead = queue.dead_letters(10).await.unwrap();
    assert_eq!(dead.iter().map(|letter| &letter.run).collect::<Vec<_>>(), [&message("run").run]);
    assert_eq!(queue.redrive(10).await.unwrap(), 1);
    assert_eq!(queue.depth(QueueName::Steps).await.unwrap(), 1);
    assert_eq!(counted(&account, &format!("{url}-dead")).await, 1, "what cannot be read is still there");
}

/// SQS took all of a batch but its messages of these numbers.
fn partly(failed: &[usize], sender_fault: bool) -> Fault {
    let entry = |id| format!(r#"{{"Id":"{id}","SenderFault":{sender_fault},"Code":"InternalError"}}"#);
    let failed: Vec<_> = failed.iter().map(entry).collect();
    let body = format!(r#"{{"Successful":[],"Failed":[{}]}}"#, failed.join(","));
    Fault::Answer { status: 200, body }
}

async fn what_a_batch_did_not_take_is_sent_again_and_nothing_else(account: Account) {
    let queue = account.queue_over(Line::with([partly(&[1, 2], false), partly(&[2], false)]));
    let sent = queue.send_all(&[message("zero"), message("one"), message("two")]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    // The others were taken by the line, which only says that it did.
    let received = queue.receive(QueueName::Steps, 10, Millis::secs(60), Duration::ZERO).await.unwrap();
    assert_eq!(received.iter().map(|delivery| delivery.run.run.as_str()).collect::<Vec<_>>(), ["two"]);

    let never = account.queue_over(Line::with(std::iter::repeat_n(partly(&[1], false), 10)));
    let sent = never.send_all(&[message("zero"), message("one")]).await;
    assert!(matches!(&sent[..], [Ok(()), Err(StoreError::Busy { .. })]), "{sent:?}");
}

async fn a_message_that_a_batch_refuses_is_reported_alone(account: Account) {
    let queue = account.queue_over(Line::with([partly(&[0], true)]));
    let sent = queue.send_all(&[message("zero"), message("one")]).await;
    assert!(matches!(&sent[..], [Err(StoreError::Broken { .. }), Ok(())]), "{sent:?}");
}

async fn every_fault_of_a_send_has_its_meaning(account: Account) {
    let answer = |status, code: &str| Fault::Answer {
        status,
        body: format!(r#"{{"__type":"com.amazonaws.sqs#{code}","message":"no"}}"#),
    };
    for (fault, meaning) in [
        (answer(400, "RequestThrottled"), "busy"),
        (answer(400, "KmsThrottled"), "busy"),
        (answer(400, "InvalidMessageContents"), "broken"),
        (answer(400, "QueueDoesNotExist"), "broken"),
        (answer(403, "AccessDeniedException"), "broken"),
        (answer(500, "InternalFailure"), "unknown"),
        (Fault::LoseReply, "unknown"),
        (Fault::LoseRequest, "unknown"),
    ] {
        for together in [false, true] {
            let queue = account.queue_over(Line::with([fault.clone()]));
            let sent = if together {
                queue.send_all(&[message("run"), message("run")]).await.remove(1)
            } else {
                queue.send(&message("run")).await
            };
            let means = match sent {
                Ok(()) => "sent",
                Err(StoreError::Busy { .. }) => "busy",
                Err(StoreError::Unknown { .. }) => "unknown",
                Err(StoreError::Broken { .. }) => "broken",
            };
            assert_eq!(means, meaning, "{fault:?}");
        }
    }
}

async fn a_handle_of_another_queue_names_nothing(account: Account) {
    let queue = account.queue();
    for strange in ["17", "steps", "fast:AQEB"] {
        let handle = Handle::new(strange, 1);
        assert!(!queue.extend(&handle, Millis(0)).await.unwrap());
        assert!(!queue.delete(&handle).await.unwrap());
    }
}

async fn queues_are_created_once(account: Account) {
    account.queue().send(&message("run")).await.unwrap();
    assert_eq!(create_queues(&account.sqs, account.name()).await.unwrap(), account.queues);
    assert_eq!(account.queue().depth(QueueName::Steps).await.unwrap(), 1);
}

async fn messages_of_a_tenant_are_one_group(account: Account) {
    let sent = account.queue().send_all(&[message("one"), message("two")]).await;
    assert!(sent.iter().all(Result::is_ok), "{sent:?}");
    account.queue().send(&message("three")).await.unwrap();
    let group = aws_sdk_sqs::types::MessageSystemAttributeName::MessageGroupId;
    let receive = account.sqs.receive_message().queue_url(&account.queues.steps).max_number_of_messages(10);
    let received = receive.message_system_attribute_names(group.clone()).send().await.unwrap();
    let groups: Vec<_> =
        received.messages().iter().map(|got| got.attributes().unwrap()[&group].as_str()).collect();
    assert_eq!(groups, ["acme"; 3]);
}
