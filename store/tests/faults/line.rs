//! A line that fails on demand, below the SDK, where the real ones do.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::{HttpClient, RuntimeComponents, SharedHttpClient};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, HttpConnectorSettings, SharedHttpConnector,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;

/// What happens to one request.
#[derive(Debug, Clone)]
pub(crate) enum Fault {
    /// It arrives, and its answer does not.
    LoseReply,
    /// It does not arrive.
    LoseRequest,
    /// It is answered with this, and nothing is done.
    Answer { status: u16, body: String },
}

/// A line whose first requests fail in these ways.
#[derive(Debug, Clone)]
pub(crate) struct Line {
    inner: SharedHttpClient,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

impl Line {
    pub(crate) fn with(faults: impl IntoIterator<Item = Fault>) -> Self {
        let inner = aws_smithy_http_client::Builder::new().build_http();
        Self { inner, faults: Arc::new(Mutex::new(faults.into_iter().collect())) }
    }
}

impl HttpClient for Line {
    fn http_connector(
        &self,
        settings: &HttpConnectorSettings,
        components: &RuntimeComponents,
    ) -> SharedHttpConnector {
        let inner = self.inner.http_connector(settings, components);
        SharedHttpConnector::new(Faulty { inner, faults: Arc::clone(&self.faults) })
    }
}

#[derive(Debug)]
struct Faulty {
    inner: SharedHttpConnector,
    faults: Arc<Mutex<VecDeque<Fault>>>,
}

impl HttpConnector for Faulty {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let fault = self.faults.lock().unwrap().pop_front();
        let inner = self.inner.clone();
        HttpConnectorFuture::new(async move {
            match fault {
                None => inner.call(request).await,
                Some(Fault::LoseReply) => {
                    inner.call(request).await?;
                    Err(ConnectorError::io("the line broke".into()))
                }
                Some(Fault::LoseRequest) => Err(ConnectorError::timeout("nobody answers".into())),
                Some(Fault::Answer { status, body }) => {
                    Ok(HttpResponse::new(StatusCode::try_from(status).unwrap(), body.into()))
                }
            }
        })
    }
}
