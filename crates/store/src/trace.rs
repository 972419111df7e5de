//! The trace context of the current task, which the messages that it sends carry.
//!
//! The context is task-local, like a `tracing` span, so that no function between the caller and the queue has to
//! pass it on. A run stores the trace context that it was started in. Every commit about the run continues that
//! trace, no matter which process commits it or how much later. A message that is sent without a context belongs to
//! the trace of its run.

use std::future::Future;

use domain::{RunKey, RunRecord, TraceContext};

tokio::task_local! {
    static CURRENT: Option<TraceContext>;
}

/// Runs `work` in `context`. Tasks that `work` spawns do not inherit it.
pub fn with_context<F: Future>(context: TraceContext, work: F) -> impl Future<Output = F::Output> {
    with_parent(Some(context), work)
}

/// Runs `work` in `context`, or in the current context if `context` is `None`.
pub fn with_parent<F: Future>(context: Option<TraceContext>, work: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(context.or_else(current), work)
}

/// The context of a message about `run` that is sent now.
pub fn context_for(run: &RunKey) -> TraceContext {
    current().unwrap_or_else(|| TraceContext::of_run(run))
}

/// The context of the messages of a commit that is made now: the current context if it belongs to the trace of the
/// run, otherwise the context that the run was started in.
pub(crate) fn commit_context(run: &RunRecord) -> TraceContext {
    let started_in = run.trace_context();
    current().filter(|context| context.same_trace_as(&started_in)).unwrap_or(started_in)
}

/// The parent trace to store with `run` if it is started now. `None` if the current context is the run's own trace.
pub fn parent_of(run: &RunKey) -> Option<TraceContext> {
    current().filter(|context| !context.same_trace_as(&TraceContext::of_run(run)))
}

fn current() -> Option<TraceContext> {
    CURRENT.try_with(|context| *context).ok().flatten()
}
