//! The house, served on this machine: to tools from outside that try what the document says.
//!
//! WorkerReport on one line where it is and with which key everything may be done, then serves until it is ended.
#![expect(clippy::expect_used, reason = "a test fails by panicking")]

use countersign_contract::House;
use domain::Role;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() {
    let house = House::new().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
    let address = listener.local_addr().expect("it is bound");
    println!("http://{address}/api/v1/openapi.json {}", house.acme.key(Role::Admin));
    axum::serve(listener, house.router).await.expect("it serves");
}
