//! A server whose paths with `/missing` return 404, and whose paths with `/slow` return after `release`.

use std::sync::{Arc, Condvar, Mutex};

use testkit::{StubReply, StubRequest};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct RecordedRequest {
    /// Method and path.
    pub(crate) line: String,
    pub(crate) key: Option<String>,
}

pub(crate) struct HttpStub {
    stub: testkit::HttpStub,
    released: Arc<(Mutex<bool>, Condvar)>,
}

impl HttpStub {
    pub(crate) fn open() -> Self {
        let released = Arc::new((Mutex::new(false), Condvar::new()));
        let gate = Arc::clone(&released);
        let stub = testkit::HttpStub::start(move |request| {
            if request.line().contains("/slow") {
                drop(gate.1.wait_while(gate.0.lock().unwrap(), |released| !*released).unwrap());
            }
            StubReply::json(if request.line().contains("/missing") { 404 } else { 200 }, r#"{"ok":true}"#)
        });
        Self { stub, released }
    }

    /// `127.0.0.1:port`.
    pub(crate) fn address(&self) -> String {
        self.stub.address().to_string()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        let recorded = |request: StubRequest| RecordedRequest {
            line: request.line().to_owned(),
            key: request.header("idempotency-key").map(str::to_owned),
        };
        self.stub.requests().into_iter().map(recorded).collect()
    }

    /// Waits until `count` requests have arrived.
    pub(crate) fn wait_for_requests(&self, count: usize) {
        self.stub.wait_for_requests(count);
    }

    /// Lets the slow requests return.
    pub(crate) fn release(&self) {
        *self.released.0.lock().unwrap() = true;
        self.released.1.notify_all();
    }
}
