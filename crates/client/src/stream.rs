//! The live stream of a run, as server-sent events.
//!
//! The server can send several envelopes for one event of the chain. The stream returns each event once.

use domain::Event;
use reqwest::Response;
use serde::Deserialize;
use views::EventDocument;

use crate::error::ClientError;

/// Larger than any event of a chain.
const EVENT_BYTES_MAX: usize = 4 * 1024 * 1024;

/// An open stream.
#[derive(Debug)]
pub struct Stream {
    response: Response,
    server: String,
    rest: Rest,
    last: Option<u32>,
}

/// The fields of an envelope that the client needs.
#[derive(Deserialize)]
struct Envelope {
    at: String,
    payload: Payload,
}

#[derive(Deserialize)]
struct Payload {
    text: String,
    event: Event,
}

impl Stream {
    pub(crate) fn new(response: Response, server: String, after: Option<u32>) -> Self {
        Self { response, server, rest: Rest::default(), last: after }
    }

    /// The next events; empty for a heartbeat, and none at the end of the stream. Cancel safe.
    pub async fn next(&mut self) -> Result<Option<Vec<EventDocument>>, ClientError> {
        let chunk = self.response.chunk().await.map_err(|source| ClientError::NoResponse {
            server: self.server.clone(),
            source: source.without_url(),
        })?;
        let Some(chunk) = chunk else { return Ok(None) };
        let mut entries = Vec::new();
        for data in self.rest.take(&chunk)? {
            let entry = read(&data)?;
            if self.last.is_none_or(|last| last < entry.n) {
                self.last = Some(entry.n);
                entries.push(entry);
            }
        }
        Ok(Some(entries))
    }
}

fn read(data: &str) -> Result<EventDocument, ClientError> {
    let envelope = serde_json::from_str(data);
    let Envelope { at, payload: Payload { text, event } } =
        envelope.map_err(|error| ClientError::invalid_response(error.to_string()))?;
    Ok(EventDocument { n: event.n, at, text, event, hash: None })
}

/// The received part of an incomplete event.
#[derive(Debug, Default)]
struct Rest {
    line: Vec<u8>,
    data: String,
}

impl Rest {
    /// Adds `chunk` and returns the data of every event that is complete.
    fn take(&mut self, chunk: &[u8]) -> Result<Vec<String>, ClientError> {
        let mut complete = Vec::new();
        for &byte in chunk {
            if byte != b'\n' {
                self.line.push(byte);
            } else if let Some(data) = self.end_of_line()? {
                complete.push(data);
            }
            if self.line.len() + self.data.len() > EVENT_BYTES_MAX {
                return Err(ClientError::invalid_response("an event of the stream is too large".to_owned()));
            }
        }
        Ok(complete)
    }

    /// An event ends with an empty line. Only its data is needed: the envelope contains the id, too.
    fn end_of_line(&mut self) -> Result<Option<String>, ClientError> {
        let line = String::from_utf8(std::mem::take(&mut self.line));
        let line = line.map_err(|_| ClientError::invalid_response("the stream is not UTF-8".to_owned()))?;
        let line = line.strip_suffix('\r').unwrap_or(&line);
        if let Some(data) = line.strip_prefix("data:") {
            self.data.push_str(data.strip_prefix(' ').unwrap_or(data));
            self.data.push('\n');
        }
        let ends = line.is_empty() && !self.data.is_empty();
        Ok(ends.then(|| std::mem::take(&mut self.data)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_across_chunk_boundaries() {
        let text =
            b": hello\n\nid: 1\ndata: {\"a\":\ndata: 1}\r\n\r\n:\n\nid: 2\ndata:b\n\ndata: not complete\n";
        for at in 0..text.len() {
            let mut rest = Rest::default();
            let mut read = rest.take(&text[..at]).unwrap();
            read.extend(rest.take(&text[at..]).unwrap());
            assert_eq!(read, ["{\"a\":\n1}\n", "b\n"], "{at}");
        }
    }

    #[test]
    fn endless_event_is_an_error() {
        let mut rest = Rest::default();
        let refused = (0..=EVENT_BYTES_MAX / 1024).find_map(|_| rest.take(&[b'x'; 1024]).err());
        assert!(matches!(refused, Some(ClientError::InvalidResponse(_))), "{refused:?}");
        assert!(Rest::default().take(b"data: \xff\n").is_err());
    }
}
