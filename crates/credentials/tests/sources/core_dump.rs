//! The core dump of a process that holds a secret.

use std::env;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Command;

use credentials::{LockedSecret, exclude_from_core_dumps};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use secrecy::ExposeSecret as _;

/// Set in the child process: whether it excludes itself.
const CHILD: &str = "COUNTERSIGN_TEST_CORE_DUMP";

/// In two halves, so that the text itself is not in the binary, and so in every dump of it.
const SECRET: [&str; 2] = ["hunter2-core-", "dump-test"];

/// Whether the kernel wrote a core dump, and for each file that appeared in `directory`, whether it has the secret.
fn abort_child(excludes: &str, directory: &Path) -> (bool, Vec<bool>) {
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "core_dump::secret_in_core_dump", "--nocapture"]);
    let status = child.env(CHILD, excludes).current_dir(directory).output().unwrap().status;
    assert!(status.signal().is_some(), "the child was not aborted: {status}");
    let secret = SECRET.concat().into_bytes();
    let files =
        std::fs::read_dir(directory).unwrap().map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let has_secret = |bytes: Vec<u8>| bytes.windows(secret.len()).any(|window| window == secret);
    (status.core_dumped(), files.map(has_secret).collect())
}

/// Never returns.
fn child(excludes: bool) {
    // As much as the machine allows, so that the test does not depend on its default.
    let maximum = getrlimit(Resource::Core).maximum;
    let _ = setrlimit(Resource::Core, Rlimit { current: maximum, maximum });
    if excludes {
        exclude_from_core_dumps().unwrap();
    }
    let secret = LockedSecret::from(SECRET.concat());
    assert!(!secret.expose_secret().is_empty());
    std::process::abort();
}

#[test]
fn secret_in_core_dump() {
    if let Ok(excludes) = env::var(CHILD) {
        child(excludes == "yes");
    }
    let directory = tempfile::tempdir().unwrap();
    let (dumped, files) = abort_child("yes", directory.path());
    assert!(!dumped && files.is_empty(), "dumped: {dumped}, files: {}", files.len());
    // The control. Some machines allow no dumps at all, or send them to a program.
    let (_, files) = abort_child("no", directory.path());
    assert!(files.iter().all(|has_secret| *has_secret), "the test does not find the secret in a dump");
}
