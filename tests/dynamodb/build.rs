//! Builds the server, which is outside the workspace: see `server/Cargo.toml`.

use std::path::Path;
use std::process::Command;

fn main() -> Result<(), String> {
    let variable = |name| std::env::var(name).map_err(|error| format!("{name}: {error}"));
    let target = Path::new(&variable("OUT_DIR")?).join("server");
    let status = Command::new(variable("CARGO")?)
        .args(["build", "--locked", "--manifest-path", "server/Cargo.toml", "--target-dir"])
        .arg(&target)
        // Set by `cargo clippy`, which checks the crates of the workspace only.
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .status()
        .map_err(|error| format!("start cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cargo build of the server: {status}"));
    }
    let program = target.join("debug").join(format!("dynamodb{}", std::env::consts::EXE_SUFFIX));
    println!("cargo::rustc-env=DYNAMODB_SERVER={}", program.display());
    println!("cargo::rerun-if-changed=server");
    Ok(())
}
