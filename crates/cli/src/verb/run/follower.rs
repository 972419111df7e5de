//! Follows the events of a run: over the live stream of a server, or by polling if there is none.
//!
//! Events are numbered, so stream and polling can be mixed. The follower requests the events after the last one it
//! has, so it neither misses nor repeats an event, even if the server was unreachable.

use std::time::Duration;

use api_types::Run;
use client::{ClientError, Stream};
use domain::RunKey;
use domain::inbox::PENDING_MAX;
use tokio::time::{sleep, timeout};
use views::EventDocument;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::progress::StatusLine;

/// Balances delay against load on the store.
const POLL_EVERY: Duration = Duration::from_millis(200);

/// After this many polls without events, the whole run is read: only it shows that a worker claimed a step.
const POLLS_PER_READ: u32 = 5;

/// A stream does not carry the position of the run, so the run is read this often for the progress bar.
const READ_EVERY: Duration = Duration::from_secs(1);

/// Without a progress bar, the run is read only in case the stream fails silently.
const READ_EVERY_HIDDEN: Duration = Duration::from_secs(5);

/// A server sends a keep-alive every 15 s. After this long without one, the stream is closed.
const SILENT_MAX: Duration = Duration::from_secs(45);

/// How often an unreachable server is tried, about two seconds each: long enough for a restart.
const UNREACHABLE_TRIES: u32 = 10;

/// Waits until the queued `run` has started, which happens when `blocker` ends.
pub(super) async fn wait_until_started(
    session: &ApiSession,
    run: &RunKey,
    blocker: &RunKey,
    context: &Context,
) -> Result<(), CliError> {
    let mut status_line = StatusLine::new(context);
    status_line.set(&format!("run {} waits until run {} ends", run.run, blocker.run));
    // A queued request is dropped after this time.
    let started =
        timeout(PENDING_MAX.std(), RunFollower::new(session, run, false).wait_until_started()).await;
    started.unwrap_or_else(|_| Err(CliError::Refused(format!("run {} did not start in time", run.run))))
}

pub(super) struct RunFollower<'a> {
    session: &'a ApiSession,
    run: &'a RunKey,
    stream: Option<Stream>,
    /// Whether the server may offer a stream.
    may_stream: bool,
    read_every: Duration,
    silence: Duration,
}

impl<'a> RunFollower<'a> {
    pub(super) fn new(session: &'a ApiSession, run: &'a RunKey, shown: bool) -> Self {
        let read_every = if shown { READ_EVERY } else { READ_EVERY_HIDDEN };
        Self { session, run, stream: None, may_stream: true, read_every, silence: Duration::ZERO }
    }

    /// The events after `last`; empty when it is time to read the whole run.
    pub(super) async fn next_events(&mut self, last: Option<u32>) -> Result<Vec<EventDocument>, CliError> {
        self.open_stream(last).await;
        let Some(stream) = &mut self.stream else { return self.poll(last).await };
        loop {
            match timeout(self.read_every, stream.next()).await {
                Ok(Ok(Some(entries))) => {
                    self.silence = Duration::ZERO;
                    let is_new = |entry: &EventDocument| last.is_none_or(|last| last < entry.n);
                    let entries: Vec<_> = entries.into_iter().filter(is_new).collect();
                    // A keep-alive and a repeated event are ignored.
                    if !entries.is_empty() {
                        return Ok(entries);
                    }
                }
                Ok(Ok(None) | Err(_)) => {
                    self.stream = None;
                    sleep(POLL_EVERY).await;
                    return Ok(Vec::new());
                }
                Err(_) => {
                    self.silence += self.read_every;
                    if self.silence >= SILENT_MAX {
                        self.stream = None;
                    }
                    return Ok(Vec::new());
                }
            }
        }
    }

    /// Opens a stream, unless one is open or the server has none.
    async fn open_stream(&mut self, last: Option<u32>) {
        if !self.may_stream || self.stream.is_some() {
            return;
        }
        self.silence = Duration::ZERO;
        match self.session.client.listen(&self.run.run, last).await {
            Ok(stream) => {
                self.may_stream = stream.is_some();
                self.stream = stream;
            }
            // A server that is unreachable or at its limit may offer a stream later.
            Err(error) => {
                self.may_stream =
                    error.is_unreachable() || error.problem().is_some_and(|problem| problem.status == 503);
            }
        }
    }

    async fn poll(&self, last: Option<u32>) -> Result<Vec<EventDocument>, CliError> {
        for _ in 1..POLLS_PER_READ {
            let entries = self.events_after(last).await?;
            if !entries.is_empty() {
                return Ok(entries);
            }
            sleep(POLL_EVERY).await;
        }
        self.events_after(last).await
    }

    /// One page of the events after `last`.
    pub(super) async fn events_after(&self, last: Option<u32>) -> Result<Vec<EventDocument>, CliError> {
        self.retry(|| self.session.client.events(&self.run.run, last)).await.map(|page| page.events)
    }

    pub(super) async fn run(&self) -> Result<Run, CliError> {
        self.retry(|| self.session.client.run(&self.run.run)).await
    }

    /// Waits while the request for the run is queued.
    async fn wait_until_started(&self) -> Result<(), CliError> {
        loop {
            match self.run().await {
                Err(CliError::Client(error)) if error.is(api::problem::PENDING) => sleep(READ_EVERY).await,
                run => return run.map(drop),
            }
        }
    }

    /// Repeats the request while the server is unreachable, up to a limit.
    async fn retry<T, F>(&self, request: impl Fn() -> F) -> Result<T, CliError>
    where
        F: Future<Output = Result<T, ClientError>>,
    {
        for _ in 1..UNREACHABLE_TRIES {
            match request().await {
                Err(error) if error.is_unreachable() => sleep(POLL_EVERY).await,
                response => return response.map_err(ApiSession::run_error(self.run)),
            }
        }
        request().await.map_err(ApiSession::run_error(self.run))
    }
}
