//! An empty DynamoDB in memory, on a free port of the loopback interface. It prints its address and stops at the end of
//! its standard input.

use std::error::Error;

use dynoxide::{Database, server};
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?);
    let database = Database::memory()?;
    let mut input = tokio::io::stdin();
    tokio::select! {
        () = server::serve_on(listener, database) => {}
        _ = input.read_u8() => {}
    }
    Ok(())
}
