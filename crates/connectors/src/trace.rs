//! The trace context of the current tool call. Its requests carry it as `traceparent`, so that an external system can log
//! the trace of the run.
//!
//! The context is task-local, so that no function between the engine and the request has to pass it on.

use std::future::Future;

use domain::TraceContext;
use reqwest::RequestBuilder;

tokio::task_local! {
    static CURRENT: TraceContext;
}

/// Runs `call` in `context`. Tasks that `call` spawns do not inherit it.
pub fn in_trace<F: Future>(context: TraceContext, call: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(context, call)
}

/// Adds the current context to `request`.
pub(crate) fn add_trace_header(request: RequestBuilder) -> RequestBuilder {
    match CURRENT.try_with(|context| *context) {
        Ok(context) => request.header(TraceContext::HEADER, context.to_string()),
        Err(_) => request,
    }
}
