//! What a server says of itself when it starts.

use std::net::SocketAddr;

use api_types::PREFIX;
use serde_json::{Value, json};

pub(super) fn text(address: SocketAddr, kept: &str, metrics: Option<&str>) -> String {
    let metrics = metrics.map(|url| format!("  metrics   {url}\n")).unwrap_or_default();
    format!(
        "Serving at http://{address}. Ctrl-C ends it.\n\n  \
         console   http://{address}/\n  \
         API       http://{address}{PREFIX}/openapi.json\n  \
         webhooks  http://{address}/webhook/SOURCE/TENANT\n\
         {metrics}  \
         store     {kept}\n\n\
         Nothing is worked on here: workers do that, on the same store.\n"
    )
}

pub(super) fn json(address: SocketAddr, kept: &str, metrics: Option<&str>) -> Value {
    let url = format!("http://{address}");
    json!({
        "url": url,
        "console": url,
        "api": format!("{url}{PREFIX}"),
        "webhooks": format!("{url}/webhook"),
        "health": format!("{url}/healthz"),
        "metrics": metrics,
        "store": kept,
    })
}
