//! Serves the test environment on this machine, for external tools that test the `OpenAPI` document.
//!
//! Prints the address of the document and an admin key on one line, then serves until it is stopped.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use countersign_contract::ContractEnv;
use domain::Role;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let env = ContractEnv::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    println!("http://{address}/api/v1/openapi.json {}", env.acme.key(Role::Admin));
    axum::serve(listener, env.router).await.expect("it serves");
}
