//! The real `countersign` binary.

use std::path::PathBuf;
use std::process::Command;

/// The path of the binary: `COUNTERSIGN_BIN`, which `cargo xtask test` sets, or the result of `cargo build`.
pub fn countersign() -> Result<PathBuf, String> {
    if let Some(path) = std::env::var_os("COUNTERSIGN_BIN") {
        return Ok(path.into());
    }
    let built = Command::new(env!("CARGO"))
        .args(["build", "--package", "countersign", "--bin", "countersign", "--message-format", "json"])
        .output()
        .map_err(|error| format!("cargo build: {error}"))?;
    let messages = String::from_utf8_lossy(&built.stdout);
    let built = messages.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let path = built.filter_map(|message| message["executable"].as_str().map(PathBuf::from)).next_back();
    path.ok_or_else(|| "`cargo build` reported no `countersign` executable".to_owned())
}
