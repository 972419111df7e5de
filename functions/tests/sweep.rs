//! The sweep finds runs whose message was lost.

use std::time::Duration;

use countersign_functions::sweep;
use domain::{Millis, QueueName, Timestamp};
use engine::SweepResult;
use store::Queue as _;
use testkit::TestClock;

#[tokio::test]
async fn sweep_wakes_a_run_whose_message_was_lost() {
    let env = testkit::engine().clock(TestClock::at(Timestamp(0))).me("sweep").env();
    let run = env.start(testkit::ASK, "k").await;
    for lost in env.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap() {
        env.store().delete(&lost.handle).await.unwrap();
    }
    let nothing = SweepResult { sent: 0, woken: 0, scheduled: 0 };
    assert_eq!(sweep(&env.engine).await.unwrap(), nothing);

    env.clock.advance(Millis::hours(1));
    assert_eq!(sweep(&env.engine).await.unwrap(), SweepResult { sent: 0, woken: 1, scheduled: 0 });
    let found = env.store().receive(QueueName::Steps, 10, Millis::mins(1), Duration::ZERO).await.unwrap();
    assert_eq!(found.into_iter().map(|message| message.run).collect::<Vec<_>>(), [run]);
}
