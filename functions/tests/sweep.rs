//! The sweep finds runs whose message was lost.

use std::time::Duration;

use countersign_functions::sweep;
use domain::{Millis, QueueName, Timestamp};
use engine::SweepResult;
use store::Queue as _;
use testkit::TestClock;

#[tokio::test]
async fn sweep_wakes_a_run_whose_message_was_lost() {
    let clock = TestClock::at(Timestamp(0));
    let engine = testkit::engine().clock(clock.clone()).me("sweep").build();
    let run = testkit::start(&engine, testkit::ASK, "k").await;
    for lost in engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        engine.store().delete(&lost.handle).await.unwrap();
    }
    let nothing = SweepResult { sent: 0, woken: 0, scheduled: 0 };
    assert_eq!(sweep(&engine).await.unwrap(), nothing);

    clock.advance(Millis::hours(1));
    assert_eq!(sweep(&engine).await.unwrap(), SweepResult { sent: 0, woken: 1, scheduled: 0 });
    let found = engine.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap();
    assert_eq!(found.into_iter().map(|message| message.run).collect::<Vec<_>>(), [run]);
}
