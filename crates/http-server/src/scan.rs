//! Checks the bytes of requests that another HTTP implementation may read differently.
//!
//! hyper accepts lines that end with a bare line feed, and a request with both `Transfer-Encoding` and `Content-Length`.
//! A proxy in front of the server may disagree with it about where such a request ends, and would then pass the rest on
//! as the request of another user. The scan finds the end of each request, so that it also checks the head of a request
//! that arrives together with the previous one. It accepts less than hyper does: what it accepts, both read alike.

/// The longest header name that matters here.
const NAME_BYTES_MAX: usize = "transfer-encoding".len();

/// The longest value that matters here: more digits than any length has.
const VALUE_BYTES_MAX: usize = 32;

/// Fewer digits than overflow a `u64`.
const LENGTH_DIGITS_MAX: usize = 18;
const CHUNK_DIGITS_MAX: usize = 15;

/// Where in a request the scan is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum ScanState {
    /// Before the request line; empty lines are skipped.
    #[default]
    Start,
    RequestLine,
    /// Before the colon of a header.
    Name,
    /// After the colon of a header.
    Value,
    /// In a body, or in the data of a chunk, of which this many bytes are left.
    Data {
        left: u64,
        chunked: bool,
    },
    /// In the line with the size of a chunk.
    ChunkSize {
        size: u64,
        digits: usize,
    },
    /// In the empty line after the data of a chunk.
    ChunkEnd,
    /// After the last chunk.
    Trailer,
    /// An ambiguous byte was found. The connection is not read any further.
    Refused,
}

/// How the head of the current request frames its body.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Framing {
    #[default]
    Empty,
    Length(u64),
    Chunked,
}

/// The state of the scan of one connection.
#[derive(Debug, Default)]
pub(super) struct RequestScan {
    state: ScanState,
    last: u8,
    /// The name of the current line's header, in lower case.
    name: Vec<u8>,
    /// Its value.
    value: Vec<u8>,
    /// The number of bytes in the current line.
    line: usize,
    framing: Framing,
}

impl RequestScan {
    /// Scans the next bytes. Returns whether all requests so far are unambiguous.
    pub(super) fn accepts(&mut self, bytes: &[u8]) -> bool {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first() {
            rest = match self.state {
                ScanState::Refused => return false,
                ScanState::Data { left, chunked } => self.skip_data(left, chunked, rest),
                _ => {
                    if self.add(*byte).is_none() {
                        self.state = ScanState::Refused;
                    }
                    after
                }
            };
        }
        self.state != ScanState::Refused
    }

    /// Skips data; returns the bytes after it.
    fn skip_data<'a>(&mut self, left: u64, chunked: bool, bytes: &'a [u8]) -> &'a [u8] {
        let skipped = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        let left = left - skipped as u64;
        self.state = match (left, chunked) {
            (0, true) => ScanState::ChunkEnd,
            (0, false) => ScanState::Start,
            _ => ScanState::Data { left, chunked },
        };
        &bytes[skipped..]
    }

    /// Adds one byte of a line; `None` if it is ambiguous. A line ends with a carriage return and a line feed, and neither
    /// occurs alone.
    fn add(&mut self, byte: u8) -> Option<()> {
        let last = std::mem::replace(&mut self.last, byte);
        match (last, byte) {
            (b'\r', b'\n') => self.end_line(),
            (b'\r', _) | (_, b'\n') => None,
            (_, b'\r') => Some(()),
            _ => {
                self.line += 1;
                self.add_to_line(byte)
            }
        }
    }

    fn add_to_line(&mut self, byte: u8) -> Option<()> {
        match self.state {
            ScanState::Start => self.state = ScanState::RequestLine,
            ScanState::RequestLine | ScanState::Trailer => {}
            ScanState::Name => self.add_to_name(byte)?,
            ScanState::Value if self.value.len() < VALUE_BYTES_MAX => self.value.push(byte),
            ScanState::Value if byte == b' ' || byte == b'\t' => {}
            // What is cut off must not make the value look like the usual one.
            ScanState::Value => self.value[VALUE_BYTES_MAX - 1] = byte,
            ScanState::ChunkSize { size, digits } => {
                let digit = char::from(byte).to_digit(16).filter(|_| digits < CHUNK_DIGITS_MAX)?;
                self.state = ScanState::ChunkSize { size: size * 16 + u64::from(digit), digits: digits + 1 };
            }
            ScanState::ChunkEnd | ScanState::Data { .. } | ScanState::Refused => return None,
        }
        Some(())
    }

    /// A blank in a name hides the header from some servers, and at its start continues the previous line for others.
    fn add_to_name(&mut self, byte: u8) -> Option<()> {
        match byte {
            b':' => self.state = ScanState::Value,
            b' ' | b'\t' => return None,
            _ if self.name.len() <= NAME_BYTES_MAX => self.name.push(byte.to_ascii_lowercase()),
            _ => {}
        }
        Some(())
    }

    fn end_line(&mut self) -> Option<()> {
        let is_empty = std::mem::take(&mut self.line) == 0;
        self.state = match self.state {
            ScanState::Name if is_empty => self.end_head(),
            ScanState::RequestLine | ScanState::Name => ScanState::Name,
            ScanState::Value => self.end_header()?,
            ScanState::ChunkSize { digits: 0, .. } | ScanState::Data { .. } | ScanState::Refused => {
                return None;
            }
            ScanState::ChunkSize { size: 0, .. } => ScanState::Trailer,
            ScanState::ChunkSize { size, .. } => ScanState::Data { left: size, chunked: true },
            ScanState::ChunkEnd => ScanState::ChunkSize { size: 0, digits: 0 },
            ScanState::Trailer if !is_empty => ScanState::Trailer,
            // Empty lines before a request are skipped, and an empty line ends the trailer.
            ScanState::Start | ScanState::Trailer => ScanState::Start,
        };
        self.name.clear();
        self.value.clear();
        Some(())
    }

    /// Reads the header of the line that ends. A second header that frames the body is ambiguous, and so is any value that
    /// is not the usual one.
    fn end_header(&mut self) -> Option<ScanState> {
        let value = self.value.trim_ascii();
        let framing = match self.name.as_slice() {
            b"content-length" => Framing::Length(parse_length(value)?),
            b"transfer-encoding" if value.eq_ignore_ascii_case(b"chunked") => Framing::Chunked,
            b"transfer-encoding" => return None,
            _ => return Some(ScanState::Name),
        };
        (self.framing == Framing::Empty).then_some(())?;
        self.framing = framing;
        Some(ScanState::Name)
    }

    fn end_head(&mut self) -> ScanState {
        match std::mem::take(&mut self.framing) {
            Framing::Empty | Framing::Length(0) => ScanState::Start,
            Framing::Length(left) => ScanState::Data { left, chunked: false },
            Framing::Chunked => ScanState::ChunkSize { size: 0, digits: 0 },
        }
    }
}

fn parse_length(value: &[u8]) -> Option<u64> {
    let is_number = (1..=LENGTH_DIGITS_MAX).contains(&value.len()) && value.iter().all(u8::is_ascii_digit);
    is_number.then(|| std::str::from_utf8(value).ok()?.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scans `text` at once and byte by byte.
    fn accepts(text: &str) -> bool {
        let whole = RequestScan::default().accepts(text.as_bytes());
        let mut scan = RequestScan::default();
        let parts = text.as_bytes().iter().all(|byte| scan.accepts(&[*byte]));
        assert_eq!(whole, parts, "{text:?}");
        whole
    }

    const AMBIGUOUS: &[&str] = &[
        "GET / HTTP/1.1\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\n\n",
        "GET / HTTP/1.1\r\nA: b\rTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "\r\n\r\nPOST / HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\nA: b\r\nCONTENT-LENGTH: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 0\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 3, 3\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: +3\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length:\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length : 3\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: identity\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked                                , chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding:\r\n chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3;a=b\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\nabc\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabcd\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1111111111111111\r\n",
    ];

    const UNAMBIGUOUS: &[&str] = &[
        "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET http://a:1/ HTTP/1.1\r\nHost: a:1\r\n\r\n",
        "POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\na\nb\nc\nd\ne",
        "POST / HTTP/1.1\r\nContent-Length:  0 \r\n\r\n",
        "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\nX: Content-Length: 3\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nX-Content-Length: 3\r\nTransfer-Encoding: Chunked\r\n\r\nA\r\n0123456\n\r\n\r\n0\r\nT: 1\r\n\r\n",
    ];

    #[test]
    fn ambiguous_requests_are_refused() {
        for text in AMBIGUOUS {
            assert!(!accepts(text), "{text:?}");
        }
    }

    #[test]
    fn unambiguous_requests_are_accepted() {
        for text in UNAMBIGUOUS {
            assert!(accepts(text), "{text:?}");
        }
    }

    #[test]
    fn request_after_another_is_checked_too() {
        for first in UNAMBIGUOUS {
            for second in AMBIGUOUS {
                assert!(!accepts(&format!("{first}{second}")), "{first:?} {second:?}");
            }
            for second in UNAMBIGUOUS {
                assert!(accepts(&format!("{first}{second}")), "{first:?} {second:?}");
            }
        }
    }

    #[test]
    fn nothing_is_accepted_after_an_ambiguous_byte() {
        let mut scan = RequestScan::default();
        assert!(!scan.accepts(b"GET /\n"));
        assert!(!scan.accepts(UNAMBIGUOUS[0].as_bytes()));
    }
}
