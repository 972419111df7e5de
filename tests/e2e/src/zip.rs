//! A zip file with one program, as Lambda needs it.

use std::io::{Cursor, Write as _};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// A zip file with `bytes` as the program `name`.
pub(crate) fn zipped(name: &str, bytes: &[u8]) -> Vec<u8> {
    // Stored without compression: it goes to a server on this machine, and compressing a test build takes long.
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Stored).unix_permissions(0o755);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let written = zip.start_file(name, options).and_then(|()| Ok(zip.write_all(bytes)?));
    written.unwrap_or_else(|error| panic!("zip {name}: {error}"));
    zip.finish().unwrap_or_else(|error| panic!("zip {name}: {error}")).into_inner()
}
