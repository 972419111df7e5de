//! A policy directory: every `.rego` file below it, by relative path.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use ::policy::{PolicyBundle, PolicyError};

use crate::error::CliError;
use crate::input::read_file;

/// A policy has at most 64 files; a directory with far more entries is the wrong one.
const ENTRIES_MAX: usize = 10_000;

/// More than a whole policy may have, so that the error names the limit of the policy.
const FILE_BYTES_MAX: usize = 1024 * 1024;

pub(super) fn read_policy(dir: &Path) -> Result<PolicyBundle, CliError> {
    let files = read_files(dir)?;
    PolicyBundle::parse(files.clone()).map_err(|error| policy_error(dir, error, &files))
}

/// The error with paths relative to the current directory.
fn policy_error(dir: &Path, mut error: PolicyError, files: &BTreeMap<String, String>) -> CliError {
    let from_here = |file: &String| dir.join(file).display().to_string();
    let files = files.iter().map(|(file, text)| (from_here(file), text.clone())).collect();
    let rendered = match &mut error.location {
        Some(location) => {
            location.file = from_here(&location.file);
            error.render(&files)
        }
        None => format!("{}: {error}", dir.display()),
    };
    CliError::InvalidPolicy { location: error.location, rendered }
}

fn read_files(dir: &Path) -> Result<BTreeMap<String, String>, CliError> {
    let mut files = BTreeMap::new();
    let mut entries = 0;
    // Directories to read, as paths in the policy with a trailing slash.
    let mut pending = vec![String::new()];
    while let Some(inner) = pending.pop() {
        let path = if inner.is_empty() { dir.to_owned() } else { dir.join(&inner) };
        let failed = |source| CliError::Read { path: path.clone(), source };
        for entry in fs::read_dir(&path).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            entries += 1;
            if entries > ENTRIES_MAX {
                return Err(too_many_files(dir));
            }
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_rego = entry.path().extension().is_some_and(|extension| extension == "rego");
            // Links to directories are not followed: they could form a loop.
            if entry.file_type().map_err(failed)?.is_dir() {
                pending.push(format!("{inner}{name}/"));
            } else if is_rego {
                files.insert(format!("{inner}{name}"), read_text(&entry.path())?);
            }
        }
    }
    Ok(files)
}

fn read_text(path: &Path) -> Result<String, CliError> {
    let bytes = read_file(path, &path.display().to_string(), FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })
}

fn too_many_files(dir: &Path) -> CliError {
    let dir = dir.display();
    CliError::Usage(format!(
        "{dir} has more than {ENTRIES_MAX} files; name a directory that contains only the policy"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_rego_files_recursively() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("a/b")).unwrap();
        for file in ["one.rego", "a/two.rego", "a/b/three.rego", "a/README.md", "rego"] {
            fs::write(dir.path().join(file), file).unwrap();
        }
        let files = read_files(dir.path()).unwrap();
        let paths: Vec<&str> = files.keys().map(String::as_str).collect();
        assert_eq!(paths, ["a/b/three.rego", "a/two.rego", "one.rego"]);
    }
}
