//! A feed: the newest envelopes of a stream, numbered, and the news that there are more.
//!
//! Each listener goes through the feed at its own pace and keeps nothing but its place. Whoever adds to a feed never
//! waits for anybody: a listener that is further behind than the feed reaches back has to be told so.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::envelope::Line;

/// The newest envelopes of a stream.
pub(super) struct Feed<P> {
    ring: Mutex<Ring<P>>,
    news: watch::Sender<()>,
    lines_max: usize,
}

struct Ring<P> {
    lines: VecDeque<(P, Line)>,
    /// The newest that is no longer held; everything behind it is.
    gone: Option<P>,
}

/// What comes behind a place.
pub(super) enum Behind<P> {
    /// These; none, if nothing has come yet.
    Lines(Vec<(P, Line)>),
    /// Some that are no longer held, the last of them here.
    Gone(P),
}

impl<P: Copy + Ord> Feed<P> {
    /// A feed of what comes behind `gone`, which holds at most `lines_max`.
    pub(super) fn new(gone: Option<P>, lines_max: usize) -> Self {
        let ring = Ring { lines: VecDeque::new(), gone };
        Self { ring: Mutex::new(ring), news: watch::Sender::new(()), lines_max }
    }

    /// Adds what happened.
    pub(super) fn push(&self, lines: Vec<(P, Line)>) {
        let mut ring = self.lock();
        ring.lines.extend(lines);
        while ring.lines.len() > self.lines_max {
            ring.gone = ring.lines.pop_front().map(|(place, _)| place);
        }
        drop(ring);
        self.news.send_replace(());
    }

    /// What comes behind `last`, at most `max` of it.
    pub(super) fn behind(&self, last: Option<P>, max: usize) -> Behind<P> {
        let ring = self.lock();
        match ring.gone {
            Some(gone) if last.is_none_or(|last| last < gone) => Behind::Gone(gone),
            _ => {
                let from = ring.lines.partition_point(|(place, _)| Some(*place) <= last);
                Behind::Lines(ring.lines.range(from..).take(max).cloned().collect())
            }
        }
    }

    /// The newest place.
    pub(super) fn newest(&self) -> Option<P> {
        let ring = self.lock();
        ring.lines.back().map(|(place, _)| *place).or(ring.gone)
    }

    /// Whether everything behind `place` is held, and `place` is not one that has yet to come.
    pub(super) fn reaches(&self, place: P) -> bool {
        self.newest() >= Some(place) && matches!(self.behind(Some(place), 0), Behind::Lines(_))
    }

    /// Tells when there is more.
    pub(super) fn news(&self) -> watch::Receiver<()> {
        self.news.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, Ring<P>> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u32) -> (u32, Line) {
        (n, Line { id: n.to_string(), json: n.to_string().into() })
    }

    fn places(behind: Behind<u32>) -> Result<Vec<u32>, u32> {
        match behind {
            Behind::Lines(lines) => Ok(lines.into_iter().map(|(place, _)| place).collect()),
            Behind::Gone(place) => Err(place),
        }
    }

    #[test]
    fn a_listener_goes_on_from_every_place_without_gap_or_repeat() {
        let feed = Feed::new(None, 10);
        feed.push((0..10).map(line).collect());
        assert_eq!(places(feed.behind(None, 99)), Ok((0..10).collect()));
        for last in 0..10 {
            assert_eq!(places(feed.behind(Some(last), 99)), Ok((last + 1..10).collect()));
        }
        assert_eq!(places(feed.behind(Some(3), 2)), Ok(vec![4, 5]));
    }

    #[test]
    fn a_feed_forgets_the_oldest_and_says_so() {
        let feed = Feed::new(None, 3);
        feed.push((0..5).map(line).collect());
        assert_eq!(places(feed.behind(None, 99)), Err(1));
        assert_eq!(places(feed.behind(Some(0), 99)), Err(1));
        assert_eq!(places(feed.behind(Some(1), 99)), Ok(vec![2, 3, 4]));
        assert!(feed.reaches(1) && feed.reaches(4));
        assert!(!feed.reaches(0) && !feed.reaches(5));
    }

    #[test]
    fn a_feed_that_begins_in_the_middle_knows_where() {
        let feed = Feed::new(Some(7), 3);
        assert_eq!(feed.newest(), Some(7));
        assert_eq!(places(feed.behind(Some(7), 99)), Ok(Vec::new()));
        assert_eq!(places(feed.behind(Some(6), 99)), Err(7));
    }
}
