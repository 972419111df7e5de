//! The workspace as cargo and the file system show it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::code::code_of;

/// Where the workspace begins.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// A file at the root, which must be there.
pub(crate) fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// One of our crates.
pub(crate) struct Package {
    /// Its directory, relative to the root.
    pub(crate) directory: String,
    /// Its directory without `crates/`: `domain`, `worker`, `tests/model`.
    pub(crate) role: String,
    /// What cargo calls it.
    pub(crate) name: String,
    /// What it needs to be built, by cargo's name; what only its tests need is not among them.
    pub(crate) needs: BTreeSet<String>,
}

impl Package {
    /// Whether it is there to test the others. Such a crate may use whatever it likes.
    pub(crate) fn is_a_test(&self) -> bool {
        self.role.starts_with("tests/")
    }
}

/// A crate from outside, or one of ours, as it would be built on this machine.
pub(crate) struct Part {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) licence: Option<String>,
}

/// Our crates, in the order of their directories.
pub(crate) fn packages() -> Vec<Package> {
    let root = root();
    let metadata = metadata(&["--no-deps"]);
    let mut packages: Vec<_> = list(&metadata["packages"]).map(|package| read(package, &root)).collect();
    packages.sort_by(|a, b| a.role.cmp(&b.role));
    packages
}

/// Everything that the workspace is built from on this machine, its tests and features included. Other systems would
/// need crates that are not here to be read.
pub(crate) fn parts() -> Vec<Part> {
    let metadata = metadata(&["--all-features", "--filter-platform", &host()]);
    let part = |package: &Value| Part {
        name: text(&package["name"]),
        version: text(&package["version"]),
        licence: package["license"].as_str().map(str::to_owned),
    };
    list(&metadata["packages"]).map(part).collect()
}

/// The names of all crates that end up in `package` when it is built alone, with its default features.
pub(crate) fn built_into(package: &str) -> BTreeSet<String> {
    names(&["--edges", "normal", "--package", package])
}

/// The names of all crates that a plain `cargo build` or `cargo run` can bring: no package named, no feature asked for.
pub(crate) fn built_at_first() -> BTreeSet<String> {
    names(&["--edges", "normal"])
}

/// The names of all crates that a plain `cargo test` builds: no package named, no feature asked for, tests and all.
pub(crate) fn built_into_tests() -> BTreeSet<String> {
    names(&["--edges", "normal,dev"])
}

/// The features without which a test is left out in silence.
pub(crate) fn required((package, test): (&str, &str)) -> Vec<String> {
    let metadata = metadata(&["--no-deps"]);
    let package = list(&metadata["packages"]).find(|listed| listed["name"] == package).unwrap();
    let test = list(&package["targets"]).find(|target| target["name"] == test).unwrap();
    list(&test["required-features"]).map(text).collect()
}

fn names(args: &[&str]) -> BTreeSet<String> {
    let tree = cargo(&[&["tree", "--locked", "--prefix", "none"], args].concat());
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// A Rust file of ours.
pub(crate) struct Source {
    /// Seen from the root, with forward slashes.
    pub(crate) path: String,
    /// Its code: comments and literals are blank.
    pub(crate) code: String,
}

impl Source {
    /// Every line of the code in which `pattern` stands, as `path:line: text`.
    pub(crate) fn lines_with(&self, pattern: &str) -> Vec<String> {
        let lines = self.code.lines().enumerate().filter(|(_, line)| line.contains(pattern));
        lines.map(|(at, line)| format!("{}:{}: {}", self.path, at + 1, line.trim())).collect()
    }
}

/// All Rust files of the workspace.
pub(crate) fn sources() -> Vec<Source> {
    let root = root();
    let mut sources = Vec::new();
    for entry in std::fs::read_dir(&root).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        // What cargo built, and what tools keep for themselves.
        if path.is_dir() && !name.starts_with("target") && !name.starts_with('.') {
            walk(&path, &root, &mut sources);
        }
    }
    assert!(sources.len() > 50, "only {} files were found; is this the workspace?", sources.len());
    sources
}

fn walk(directory: &Path, root: &Path, found: &mut Vec<Source>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            walk(&path, root, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let code = code_of(&std::fs::read_to_string(&path).unwrap());
            found.push(Source { path: seen_from(root, &path), code });
        }
    }
}

fn read(package: &Value, root: &Path) -> Package {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let needed = list(&package["dependencies"]).filter(|dependency| dependency["kind"] != "dev");
    let directory = seen_from(root, manifest.parent().unwrap());
    Package {
        role: directory.strip_prefix("crates/").unwrap_or(&directory).to_owned(),
        directory,
        name: text(&package["name"]),
        needs: needed.map(|dependency| text(&dependency["name"])).collect(),
    }
}

fn seen_from(root: &Path, path: &Path) -> String {
    path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/")
}

fn metadata(args: &[&str]) -> Value {
    let output = cargo(&[&["metadata", "--format-version", "1", "--locked"], args].concat());
    serde_json::from_str(&output).unwrap()
}

fn host() -> String {
    let version = cargo(&["--version", "--verbose"]);
    version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

fn cargo(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO")).args(args).current_dir(root()).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {complaint}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
