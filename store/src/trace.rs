//! Who works on what, so that the messages they send can tell.
//!
//! The context goes with a task, as a span does: it is nobody's business on the way down to the queue. What is sent
//! outside of any belongs to the story of the run that it is about.

use std::future::Future;

use domain::{RunKey, TraceContext};

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Does `work` in `context`. What it spawns is not in it.
pub async fn within<F: Future>(context: TraceContext, work: F) -> F::Output {
    CURRENT.scope(context, work).await
}

/// What a message about `run` carries when it is sent here and now.
pub fn context_for(run: &RunKey) -> TraceContext {
    CURRENT.try_with(|context| *context).unwrap_or_else(|_| TraceContext::of_run(run))
}
