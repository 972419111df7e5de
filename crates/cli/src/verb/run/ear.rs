//! How somebody who follows a run hears of what happens to it: from the live stream of a server, and where there is
//! none, by looking again and again.
//!
//! An entry of the chain is known by its number, so it makes no difference which way it came: whoever asks for what is
//! behind an entry misses nothing and hears nothing twice, also when the server was away in between.

use std::time::Duration;

use api_types::Run;
use client::{ClientError, Stream};
use domain::RunKey;
use tokio::time::{sleep, timeout};
use views::EventDocument;

use crate::error::CliError;
use crate::link::Link;

/// Soon enough for a person, seldom enough for the store.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// After so many looks at the chain without news the whole run is looked at: that a worker took a step is seen there
/// alone.
const LOOKS_FOR_ALL: u32 = 5;

/// A stream tells what happens by itself, but not how far a run is. That is looked at as often as people want to see it.
const LOOK_AT_ALL: Duration = Duration::from_secs(1);

/// Where nobody sees how far a run is, it is looked at only in case something keeps the stream from telling.
const LOOK_UNSEEN: Duration = Duration::from_secs(5);

/// A server says that it is there every 15 s. One that was not heard for so long is not there any more.
const SILENT_MAX: Duration = Duration::from_secs(45);

/// How often a server that is away is tried again, each time for some two seconds: as long as a restart takes.
const AWAY_TRIES: u32 = 10;

/// Hears of what happens to a run.
pub(super) struct Ear<'a> {
    link: &'a Link,
    run: &'a RunKey,
    stream: Option<Stream>,
    /// Whether a stream may be had.
    streams: bool,
    look_every: Duration,
    silent: Duration,
}

impl<'a> Ear<'a> {
    pub(super) fn new(link: &'a Link, run: &'a RunKey, shown: bool) -> Self {
        let look_every = if shown { LOOK_AT_ALL } else { LOOK_UNSEEN };
        Self { link, run, stream: None, streams: true, look_every, silent: Duration::ZERO }
    }

    /// What happened behind event `last`, or nothing when it is time to look at the whole run.
    pub(super) async fn behind(&mut self, last: Option<u32>) -> Result<Vec<EventDocument>, CliError> {
        self.listen(last).await;
        let Some(stream) = &mut self.stream else { return self.look(last).await };
        loop {
            match timeout(self.look_every, stream.next()).await {
                Ok(Ok(Some(entries))) => {
                    self.silent = Duration::ZERO;
                    let is_new = |entry: &EventDocument| last.is_none_or(|last| last < entry.n);
                    let entries: Vec<_> = entries.into_iter().filter(is_new).collect();
                    // A sign of life, or more about an entry that is known, is no news.
                    if !entries.is_empty() {
                        return Ok(entries);
                    }
                }
                Ok(Ok(None) | Err(_)) => {
                    self.stream = None;
                    sleep(LOOK_EVERY).await;
                    return Ok(Vec::new());
                }
                Err(_) => {
                    self.silent += self.look_every;
                    if self.silent >= SILENT_MAX {
                        self.stream = None;
                    }
                    return Ok(Vec::new());
                }
            }
        }
    }

    /// Sees to it that there is a stream, if one may be had.
    async fn listen(&mut self, last: Option<u32>) {
        if !self.streams || self.stream.is_some() {
            return;
        }
        self.silent = Duration::ZERO;
        match self.link.client.listen(&self.run.run, last).await {
            Ok(stream) => {
                self.streams = stream.is_some();
                self.stream = stream;
            }
            // A server that is away or has no room may have a stream later on.
            Err(error) => {
                self.streams = error.is_away() || error.problem().is_some_and(|no| no.status == 503);
            }
        }
    }

    /// Looks for what is behind event `last`, some times.
    async fn look(&self, last: Option<u32>) -> Result<Vec<EventDocument>, CliError> {
        for _ in 1..LOOKS_FOR_ALL {
            let entries = self.page(last).await?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            sleep(LOOK_EVERY).await;
        }
        self.page(last).await
    }

    /// What stands in the chain behind event `last`; as much of it as a page holds.
    pub(super) async fn page(&self, last: Option<u32>) -> Result<Vec<EventDocument>, CliError> {
        self.retry_busy(|| self.link.client.events(&self.run.run, last)).await.map(|page| page.events)
    }

    /// The whole run.
    pub(super) async fn run(&self) -> Result<Run, CliError> {
        self.retry_busy(|| self.link.client.run(&self.run.run)).await
    }

    /// Waits until the run is there, as long as what starts it waits.
    pub(super) async fn begins(&self) -> Result<(), CliError> {
        loop {
            match self.run().await {
                Err(CliError::Client(error)) if error.is(api::problem::TO_COME) => sleep(LOOK_AT_ALL).await,
                seen => return seen.map(drop),
            }
        }
    }

    /// Asks until there is an answer, or the server has been away for long.
    async fn retry_busy<T, F>(&self, ask: impl Fn() -> F) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        for _ in 1..AWAY_TRIES {
            match ask().await {
                Err(error) if error.is_away() => sleep(LOOK_EVERY).await,
                answered => return answered.map_err(Link::about(self.run)),
            }
        }
        ask().await.map_err(Link::about(self.run))
    }
}
