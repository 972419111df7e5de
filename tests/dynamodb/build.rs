//! Builds the server, which is outside the workspace: see `server/Cargo.toml`.

use std::path::Path;
use std::process::Command;

/// The program that cargo starts instead of rustc for crates of the workspace.
const WRAPPER: &str = "RUSTC_WORKSPACE_WRAPPER";

fn main() -> Result<(), String> {
    let variable = |name| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let target = Path::new(&variable("OUT_DIR")?).join("server");
    let program = target.join("debug").join(format!("dynamodb{}", std::env::consts::EXE_SUFFIX));
    println!("cargo::rustc-env=DYNAMODB_SERVER={}", program.display());
    println!("cargo::rerun-if-changed=server");
    // Clippy builds every build script in a directory of its own and runs no tests, so it needs no server.
    if std::env::var(WRAPPER).is_ok_and(|wrapper| wrapper.contains("clippy-driver")) {
        return Ok(());
    }
    let status = Command::new(variable("CARGO")?)
        .args(["build", "--locked", "--manifest-path", "server/Cargo.toml", "--target-dir"])
        .arg(&target)
        // The server is not in the workspace.
        .env_remove(WRAPPER)
        .status()
        .map_err(|error| format!("start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build of the server: {status}"));
    }
    Ok(())
}
