//! Health: whether a worker that is alive also works.
//!
//! A process that answers and does nothing is worse than a dead one, because nobody replaces it. So a worker is
//! judged by its work: if messages wait, it has room for them, and it takes none of them from one look to the
//! next, it is unwell; so it is if it takes them and the store lets it do nothing with them, and if the store does not
//! answer.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use domain::{QueueName, RunKey};
use engine::metrics;

use crate::job_runner::Went;

/// How many looks in a row must find the same before a worker is called unwell: a message may have come, or a
/// store may have stumbled, just before one of them.
const LOOKS: usize = 3;

/// How many different runs in a row must get nowhere: one whose record is damaged gets nowhere with any worker.
const NOWHERE: usize = 3;

/// What a worker has done, and how it is.
#[derive(Debug, Default)]
pub struct Health {
    queues: [Traffic; 3],
    /// What has moved over from a queue, where it would have been in the way.
    beside: Traffic,
    looks: Mutex<Vec<Look>>,
    nowhere: Mutex<Nowhere>,
}

/// Runs that got nowhere since one got somewhere.
#[derive(Debug, Default)]
struct Nowhere {
    /// As many of them as count.
    runs: BTreeSet<RunKey>,
    /// How many looks there were since the last of them. Its message is back before there were many.
    quiet: usize,
}

#[derive(Debug, Default)]
struct Traffic {
    taken: AtomicU64,
    busy: AtomicUsize,
}

/// How a worker is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Condition {
    /// It works, or there is nothing to do.
    Well,
    /// It does not, and why.
    Unwell(String),
}

/// What was seen at one moment.
pub(crate) type Look = [Seen; 3];

/// What was seen of one queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Whether messages wait; `None` if the store did not answer.
    pub(crate) waiting: Option<bool>,
    /// How many messages were taken so far.
    taken: u64,
    /// Whether there is no room for more.
    full: bool,
}

/// A message in hand; as long as this lives, its place is taken.
#[derive(Debug)]
pub(crate) struct InHand<'h> {
    place: &'h Traffic,
    beside: &'h Traffic,
    queue: QueueName,
}

impl InHand<'_> {
    /// It no longer takes a place of its queue.
    pub(crate) fn move_over(&mut self) {
        self.beside.busy.fetch_add(1, Ordering::Relaxed);
        self.place.busy.fetch_sub(1, Ordering::Relaxed);
        self.place = self.beside;
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.place.busy.fetch_sub(1, Ordering::Relaxed);
        metrics::put_down(self.queue);
    }
}

impl Health {
    /// A message of `queue` was taken.
    pub(crate) fn take(&self, queue: QueueName) -> InHand<'_> {
        let traffic = &self.queues[place(queue)];
        traffic.taken.fetch_add(1, Ordering::Relaxed);
        traffic.busy.fetch_add(1, Ordering::Relaxed);
        metrics::taken_up(queue);
        InHand { place: traffic, beside: &self.beside, queue }
    }

    /// How many messages are in hand.
    pub(crate) fn in_hand(&self) -> u32 {
        let places = self.queues.iter().chain([&self.beside]);
        let busy = places.map(|traffic| traffic.busy.load(Ordering::Relaxed)).sum::<usize>();
        u32::try_from(busy).unwrap_or(u32::MAX)
    }

    /// A message about `run` was dealt with, or not.
    pub(crate) fn ended(&self, run: RunKey, went: Went) {
        let mut nowhere = self.nowhere.lock().unwrap_or_else(PoisonError::into_inner);
        nowhere.quiet = 0;
        match went {
            Went::Somewhere => nowhere.runs.clear(),
            Went::Nowhere if nowhere.runs.len() < NOWHERE => drop(nowhere.runs.insert(run)),
            Went::Nowhere => {}
        }
    }

    /// What is to be remembered of `queue`, in which there is `room` for so many.
    pub(crate) fn see(&self, queue: QueueName, room: usize, waiting: Option<bool>) -> Seen {
        let Traffic { taken, busy } = &self.queues[place(queue)];
        let full = busy.load(Ordering::Relaxed) >= room;
        Seen { waiting, taken: taken.load(Ordering::Relaxed), full }
    }

    /// Remembers a look.
    pub(crate) fn remember(&self, look: Look) {
        let mut nowhere = self.nowhere.lock().unwrap_or_else(PoisonError::into_inner);
        nowhere.quiet += 1;
        // Whom it got nowhere with, others have dealt with.
        if nowhere.quiet > LOOKS {
            nowhere.runs.clear();
        }
        drop(nowhere);
        let mut looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        looks.push(look);
        let old = looks.len().saturating_sub(LOOKS);
        looks.drain(..old);
    }

    /// How the worker is.
    pub fn condition(&self) -> Condition {
        let looks = self.looks.lock().unwrap_or_else(PoisonError::into_inner);
        let judged = QueueName::ALL.into_iter().map(|queue| {
            let seen: Vec<Seen> = looks.iter().map(|look| look[place(queue)]).collect();
            judge(queue, &seen)
        });
        judged
            .into_iter()
            .find(|condition| *condition != Condition::Well)
            .unwrap_or_else(|| self.getting_on())
    }

    /// Whether it gets anywhere with what it takes.
    fn getting_on(&self) -> Condition {
        let nowhere = self.nowhere.lock().unwrap_or_else(PoisonError::into_inner);
        if nowhere.runs.len() < NOWHERE {
            return Condition::Well;
        }
        Condition::Unwell("messages are taken, and the store lets nothing be done with them".to_owned())
    }
}

fn place(queue: QueueName) -> usize {
    match queue {
        QueueName::Ingest => 0,
        QueueName::Decisions => 1,
        QueueName::Steps => 2,
    }
}

/// What a row of looks at one queue means.
fn judge(queue: QueueName, seen: &[Seen]) -> Condition {
    if seen.len() < LOOKS {
        return Condition::Well;
    }
    if seen.iter().all(|seen| seen.waiting.is_none()) {
        return Condition::Unwell("the store does not answer".to_owned());
    }
    let idle = seen.iter().all(|now| now.waiting == Some(true) && !now.full && now.taken == seen[0].taken);
    if idle {
        return Condition::Unwell(format!("messages wait in the queue of {queue}, and none is taken"));
    }
    Condition::Well
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOM: usize = 2;

    fn look(health: &Health, waiting: Option<bool>) {
        health.remember(QueueName::ALL.map(|queue| health.see(queue, ROOM, waiting)));
    }

    fn unwell(health: &Health) -> String {
        match health.condition() {
            Condition::Unwell(why) => why,
            Condition::Well => panic!("it is well"),
        }
    }

    #[test]
    fn a_worker_that_takes_nothing_while_messages_wait_is_unwell_until_it_takes_one() {
        let health = Health::default();
        for _ in 0..LOOKS {
            assert_eq!(health.condition(), Condition::Well);
            look(&health, Some(true));
        }
        assert!(unwell(&health).contains("ingest"));
        for queue in QueueName::ALL {
            drop(health.take(queue));
        }
        look(&health, Some(true));
        assert_eq!(health.condition(), Condition::Well);
    }

    #[test]
    fn a_worker_with_nothing_to_do_is_well() {
        let health = Health::default();
        for _ in 0..=LOOKS {
            look(&health, Some(false));
        }
        assert_eq!(health.condition(), Condition::Well);
    }

    #[test]
    fn a_worker_without_room_is_busy_and_not_unwell() {
        let health = Health::default();
        let hands: Vec<_> =
            QueueName::ALL.into_iter().flat_map(|queue| [health.take(queue), health.take(queue)]).collect();
        for _ in 0..LOOKS {
            look(&health, Some(true));
        }
        assert_eq!(health.condition(), Condition::Well);
        drop(hands);
        for _ in 0..LOOKS {
            look(&health, Some(true));
        }
        assert!(unwell(&health).contains("none is taken"));
    }

    #[test]
    fn a_worker_whose_store_does_not_answer_is_unwell() {
        let health = Health::default();
        look(&health, Some(false));
        for _ in 0..LOOKS - 1 {
            look(&health, None);
        }
        assert_eq!(health.condition(), Condition::Well);
        look(&health, None);
        assert_eq!(unwell(&health), "the store does not answer");
    }

    fn run(name: &str) -> RunKey {
        RunKey { tenant: "acme".parse().unwrap(), run: name.parse().unwrap() }
    }

    #[test]
    fn a_worker_that_gets_nowhere_with_three_runs_is_unwell_until_it_gets_somewhere() {
        let health = Health::default();
        for name in ["a", "b", "a", "b"] {
            health.ended(run(name), Went::Nowhere);
        }
        assert_eq!(health.condition(), Condition::Well, "two runs may be damaged");
        health.ended(run("c"), Went::Nowhere);
        assert!(unwell(&health).contains("the store lets nothing be done"));
        health.ended(run("d"), Went::Somewhere);
        assert_eq!(health.condition(), Condition::Well);
    }

    #[test]
    fn a_worker_that_got_nowhere_is_well_again_when_others_have_dealt_with_it() {
        let health = Health::default();
        for name in ["a", "b", "c"] {
            health.ended(run(name), Went::Nowhere);
        }
        for _ in 0..LOOKS {
            look(&health, Some(false));
            unwell(&health);
        }
        look(&health, Some(false));
        assert_eq!(health.condition(), Condition::Well);
    }
}
