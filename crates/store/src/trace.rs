//! Who works on what, so that the messages they send can tell.
//!
//! The context goes with a task, as a span does: it is nobody's business on the way down to the queue. A run keeps the
//! story that it was begun in, and whatever is committed about it goes on with that, whoever commits it and however much
//! later. What is sent outside of any belongs to the story of the run that it is about.

use std::future::Future;

use domain::{RunKey, RunRecord, TraceContext};

tokio::task_local! {
    static CURRENT: Option<TraceContext>;
}

/// Does `work` in `context`. What it spawns is not in it.
pub fn within<F: Future>(context: TraceContext, work: F) -> impl Future<Output = F::Output> {
    within_told(Some(context), work)
}

/// Does `work` in `context`, or where this is, if there is none.
pub fn within_told<F: Future>(context: Option<TraceContext>, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(context.or_else(current), work)
}

/// What a message about `run` carries when it is sent here and now.
pub fn context_for(run: &RunKey) -> TraceContext {
    current().unwrap_or_else(|| TraceContext::of_run(run))
}

/// What the messages of a commit carry that is made here and now: where this is in the run's story, or the story
/// itself, if this is somewhere else.
pub(crate) fn context_of(run: &RunRecord) -> TraceContext {
    let story = run.story();
    current().filter(|here| here.is_in_story_of(&story)).unwrap_or(story)
}

/// The story that leads to `run`, if it is begun here and now; none, if it is the run's own.
pub fn told_for(run: &RunKey) -> Option<TraceContext> {
    current().filter(|here| !here.is_in_story_of(&TraceContext::of_run(run)))
}

fn current() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok().flatten()
}
