//! Checks the bytes of a request's head that another HTTP implementation may read differently.
//!
//! hyper accepts lines that end with a bare line feed, and a request with both `Transfer-Encoding` and `Content-Length`.
//! A proxy in front of the server may disagree with it about where such a request ends, and would then pass the rest on
//! as the request of another user. Both are refused.

/// The longest header name that matters here.
const NAME_BYTES_MAX: usize = "transfer-encoding".len();

/// Where in the head the scan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Place {
    /// Before the request line; empty lines are skipped.
    #[default]
    Start,
    /// Before the colon of a line.
    Name,
    /// After the colon of a line.
    Value,
    /// After the head.
    Body,
}

/// The state of the scan of one head.
#[derive(Debug, Default)]
pub(super) struct HeadScan {
    place: Place,
    last: u8,
    /// The name of the current line's header, in lower case.
    name: Vec<u8>,
    /// The bytes of the current line.
    line: usize,
    has_length: bool,
    has_encoding: bool,
}

impl HeadScan {
    /// Scans the next bytes. Returns whether the head is still unambiguous.
    pub(super) fn accepts(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|byte| self.place == Place::Body || self.accepts_byte(*byte))
    }

    fn accepts_byte(&mut self, byte: u8) -> bool {
        if byte == b'\n' && self.last != b'\r' {
            return false;
        }
        self.last = byte;
        match byte {
            b'\n' => self.end_line(),
            b'\r' => {}
            b':' if self.place == Place::Name => self.end_name(),
            _ => self.add(byte),
        }
        !(self.has_length && self.has_encoding)
    }

    fn add(&mut self, byte: u8) {
        self.line += 1;
        if self.place == Place::Start {
            self.place = Place::Name;
        }
        if self.place == Place::Name && self.name.len() <= NAME_BYTES_MAX {
            self.name.push(byte.to_ascii_lowercase());
        }
    }

    fn end_name(&mut self) {
        self.place = Place::Value;
        self.line += 1;
        self.has_length |= self.name == b"content-length";
        self.has_encoding |= self.name == b"transfer-encoding";
    }

    fn end_line(&mut self) {
        self.place = match self.place {
            Place::Start => Place::Start,
            _ if self.line == 0 => Place::Body,
            _ => Place::Name,
        };
        self.line = 0;
        self.name.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans `text` at once and byte by byte.
    fn accepts(text: &str) -> bool {
        let whole = HeadScan::default().accepts(text.as_bytes());
        let mut scan = HeadScan::default();
        let parts = text.as_bytes().iter().all(|byte| scan.accepts(&[*byte]));
        assert_eq!(whole, parts, "{text:?}");
        whole
    }

    #[test]
    fn ambiguous_heads_are_refused() {
        for text in [
            "GET / HTTP/1.1\nHost: a\r\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\n\r\n",
            "GET / HTTP/1.1\r\nHost: a\r\n\n",
            "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nA: b\r\nCONTENT-LENGTH: 3\r\n\r\n",
        ] {
            assert!(!accepts(text), "{text:?}");
        }
    }

    #[test]
    fn unambiguous_heads_and_bodies_are_accepted() {
        for text in [
            "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\na\nb\nc\nd\ne",
            "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: Content-Length: 3\r\n\r\n0\r\n\r\n",
            "POST / HTTP/1.1\r\nX-Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\nContent-Length: 3\n",
        ] {
            assert!(accepts(text), "{text:?}");
        }
    }
}
