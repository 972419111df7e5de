//! One file in a zip, as Lambda wants a program.

use std::io::{Cursor, Write as _};

use zip::CompressionMethod;
use zip::write::{SimpleFileOptions, ZipWriter};

/// A zip with `bytes` in it as the program `name`.
pub(crate) fn zipped(name: &str, bytes: &[u8]) -> Vec<u8> {
    // It goes to a server on this machine. Compressing a program that was built for tests takes longer than all else.
    let options =
        SimpleFileOptions::default().compression_method(CompressionMethod::Stored).unix_permissions(0o755);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let written = zip.start_file(name, options).and_then(|()| Ok(zip.write_all(bytes)?));
    written.unwrap_or_else(|error| panic!("zip {name}: {error}"));
    zip.finish().unwrap_or_else(|error| panic!("zip {name}: {error}")).into_inner()
}
