//! A feed: the latest envelopes of a stream in a ring buffer, with a notification of new ones.
//!
//! Each listener reads the feed at its own pace and stores only its position. Adding to a feed never waits for a
//! listener. A listener that falls behind the buffer is notified.

use std::collections::VecDeque;

use parking_lot::Mutex;
use tokio::sync::watch;

use super::envelope::Encoded;

/// The latest envelopes of a stream.
pub(super) struct Feed<P> {
    ring: Mutex<Ring<P>>,
    updates: watch::Sender<()>,
    envelopes_max: usize,
}

struct Ring<P> {
    envelopes: VecDeque<(P, Encoded)>,
    /// The last id that was dropped; everything after it is in the buffer.
    dropped: Option<P>,
}

/// The envelopes after an id.
pub(super) enum FeedRead<P> {
    /// The envelopes; empty if there are no new ones.
    Envelopes(Vec<(P, Encoded)>),
    /// Some were dropped; this is the id of the last one.
    Dropped(P),
}

impl<P: Copy + Ord> Feed<P> {
    /// An empty feed after the id `dropped`, with room for `envelopes_max`.
    pub(super) fn new(dropped: Option<P>, envelopes_max: usize) -> Self {
        let ring = Ring { envelopes: VecDeque::new(), dropped };
        Self { ring: Mutex::new(ring), updates: watch::Sender::new(()), envelopes_max }
    }

    pub(super) fn push(&self, envelopes: Vec<(P, Encoded)>) {
        let mut ring = self.ring.lock();
        ring.envelopes.extend(envelopes);
        while ring.envelopes.len() > self.envelopes_max {
            ring.dropped = ring.envelopes.pop_front().map(|(id, _)| id);
        }
        drop(ring);
        self.updates.send_replace(());
    }

    /// At most `max` envelopes after `last`.
    pub(super) fn after(&self, last: Option<P>, max: usize) -> FeedRead<P> {
        let ring = self.ring.lock();
        match ring.dropped {
            Some(dropped) if last.is_none_or(|last| last < dropped) => FeedRead::Dropped(dropped),
            _ => {
                let from = ring.envelopes.partition_point(|(id, _)| Some(*id) <= last);
                FeedRead::Envelopes(ring.envelopes.range(from..).take(max).cloned().collect())
            }
        }
    }

    /// The last id.
    pub(super) fn newest(&self) -> Option<P> {
        let ring = self.ring.lock();
        ring.envelopes.back().map(|(id, _)| *id).or(ring.dropped)
    }

    /// Whether `id` is known and everything after it is in the buffer.
    pub(super) fn can_resume_from(&self, id: P) -> bool {
        self.newest() >= Some(id) && matches!(self.after(Some(id), 0), FeedRead::Envelopes(_))
    }

    /// Notifies of new envelopes.
    pub(super) fn updates(&self) -> watch::Receiver<()> {
        self.updates.subscribe()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u32) -> (u32, Encoded) {
        (n, Encoded { id: n.to_string(), json: n.to_string().into() })
    }

    fn ids(read: FeedRead<u32>) -> Result<Vec<u32>, u32> {
        match read {
            FeedRead::Envelopes(envelopes) => Ok(envelopes.into_iter().map(|(id, _)| id).collect()),
            FeedRead::Dropped(id) => Err(id),
        }
    }

    #[test]
    fn feed_resumes_without_gap_or_duplicate() {
        let feed = Feed::new(None, 10);
        feed.push((0..10).map(line).collect());
        assert_eq!(ids(feed.after(None, 99)), Ok((0..10).collect()));
        for last in 0..10 {
            assert_eq!(ids(feed.after(Some(last), 99)), Ok((last + 1..10).collect()));
        }
        assert_eq!(ids(feed.after(Some(3), 2)), Ok(vec![4, 5]));
    }

    #[test]
    fn full_feed_drops_the_oldest() {
        let feed = Feed::new(None, 3);
        feed.push((0..5).map(line).collect());
        assert_eq!(ids(feed.after(None, 99)), Err(1));
        assert_eq!(ids(feed.after(Some(0), 99)), Err(1));
        assert_eq!(ids(feed.after(Some(1), 99)), Ok(vec![2, 3, 4]));
        assert!(feed.can_resume_from(1) && feed.can_resume_from(4));
        assert!(!feed.can_resume_from(0) && !feed.can_resume_from(5));
    }

    #[test]
    fn feed_can_start_after_an_id() {
        let feed = Feed::new(Some(7), 3);
        assert_eq!(feed.newest(), Some(7));
        assert_eq!(ids(feed.after(Some(7), 99)), Ok(Vec::new()));
        assert_eq!(ids(feed.after(Some(6), 99)), Err(7));
    }
}
