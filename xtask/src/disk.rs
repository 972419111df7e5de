//! Checks that the disk can hold the build, because a linker that runs out of space reports something else.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

const GIB: u64 = 1024 * 1024;

/// The size of a complete target directory in KiB, rounded up. Incremental compilation doubles it.
const BUILD: u64 = 16 * GIB;
const INCREMENTAL_BUILD: u64 = 32 * GIB;

/// Tests, the local AWS and Chromium write this much in addition.
const TESTS: u64 = 3 * GIB;

/// Fails if the disk of the target directory has too little free space for what is not built yet.
pub(crate) fn check(target: &Path) -> Result<String, String> {
    std::fs::create_dir_all(target)
        .map_err(|error| format!("cannot create {}: {error}", target.display()))?;
    let free = nth_number("df", &["-P", "-k"], target, 3)?;
    let existing = nth_number("du", &["-s", "-k"], target, 0)?;
    let is_incremental = std::env::var_os("CARGO_INCREMENTAL").as_deref() != Some(OsStr::new("0"));
    let needed = needed(if is_incremental { INCREMENTAL_BUILD } else { BUILD }, existing);
    if free >= needed {
        return Ok(format!("{} GiB free", free / GIB));
    }
    let (free, needed, directory) = (free / GIB, needed / GIB, target.display());
    let advice = if is_incremental { "free some, or set CARGO_INCREMENTAL=0" } else { "free some" };
    Err(format!("{directory} has {free} GiB free; the build and the tests need {needed} GiB: {advice}"))
}

/// The free space that is needed when `existing` of `build` exists.
fn needed(build: u64, existing: u64) -> u64 {
    build.saturating_sub(existing) + TESTS
}

/// The number in column `n` of the last line that the program prints about `path`.
fn nth_number(program: &str, options: &[&str], path: &Path, n: usize) -> Result<u64, String> {
    let output = Command::new(program)
        .args(options)
        .arg(path)
        .output()
        .map_err(|error| format!("cannot start {program}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let column = text.lines().last().and_then(|line| line.split_whitespace().nth(n)?.parse().ok());
    column.ok_or_else(|| format!("{program} printed no size of {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_build_needs_space_for_the_rest_only() {
        assert_eq!(needed(BUILD, 0), 19 * GIB);
        assert_eq!(needed(BUILD, 10 * GIB), 9 * GIB);
        assert_eq!(needed(BUILD, 40 * GIB), 3 * GIB);
    }

    #[test]
    fn sizes_are_read_from_the_system() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR"));
        assert!(nth_number("df", &["-P", "-k"], directory, 3).unwrap() > 0);
        assert!(nth_number("du", &["-s", "-k"], directory, 0).unwrap() > 0);
        assert!(nth_number("du", &["-s", "-k"], &directory.join("absent"), 0).is_err());
    }
}
