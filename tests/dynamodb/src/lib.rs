//! A DynamoDB for tests: dynoxide-rs, in a process of its own.

use std::io::{self, BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};

/// A running DynamoDB without tables. It stops when this value is dropped or when this process ends.
#[derive(Debug)]
pub struct DynamoDb {
    endpoint: String,
    server: Child,
}

impl DynamoDb {
    /// Starts a server on a free port of the loopback interface. Returns when it accepts requests.
    pub fn start() -> io::Result<Self> {
        // The server stops at the end of its standard input, so it does not outlive this process.
        let mut server =
            Command::new(env!("DYNAMODB_SERVER")).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        if let Some(output) = server.stdout.take() {
            BufReader::new(output).read_line(&mut address)?;
        }
        if address.is_empty() {
            return Err(io::Error::other(format!("the server did not start: {}", server.wait()?)));
        }
        Ok(Self { endpoint: format!("http://{}", address.trim()), server })
    }

    /// The URL of the server.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }
}

impl Drop for DynamoDb {
    fn drop(&mut self) {
        // An error means that the server has already stopped.
        let _ = self.server.kill();
        let _ = self.server.wait();
    }
}
