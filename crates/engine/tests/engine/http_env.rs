//! The tool `http.request`, and an external system that records its requests.

use std::ops::Deref;

use testkit::{EngineBuilder, HttpStub, TestEnv};

/// An engine that may call the external system.
pub(crate) struct HttpEnv {
    env: TestEnv,
    pub(crate) external: HttpStub,
}

impl Deref for HttpEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl HttpEnv {
    pub(crate) fn new(builder: EngineBuilder, external: HttpStub) -> Self {
        Self { env: builder.local_tools().env(), external }
    }

    /// The lines of the requests that the external system received.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.external.requests().iter().map(|request| request.line().to_owned()).collect()
    }
}
