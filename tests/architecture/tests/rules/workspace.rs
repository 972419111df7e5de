//! The workspace as cargo and the file system show it.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::code::code_of;

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Reads a file of the workspace; panics if it does not exist.
pub(crate) fn file(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A crate of the workspace.
pub(crate) struct Package {
    /// Relative to the root.
    pub(crate) directory: String,
    /// The directory without `crates/`: `domain`, `worker`, `tests/model`.
    pub(crate) role: String,
    /// The package name.
    pub(crate) name: String,
    /// The package names of its dependencies, without dev-dependencies.
    pub(crate) needs: BTreeSet<String>,
}

impl Package {
    /// Whether it is a test crate. A test crate may use every crate.
    pub(crate) fn is_test(&self) -> bool {
        self.role.starts_with("tests/")
    }
}

/// A crate in the build on this machine, external or of the workspace.
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
}

/// The crates of the workspace, sorted by role.
pub(crate) fn packages() -> Vec<Package> {
    let root = root();
    let metadata = metadata(&["--no-deps"]);
    let mut packages: Vec<_> =
        list(&metadata["packages"]).map(|package| read_package(package, &root)).collect();
    packages.sort_by(|a, b| a.role.cmp(&b.role));
    packages
}

/// All crates in the build on this machine, with tests and features. Dependencies of other platforms are left out, because
/// they may not be downloaded.
pub(crate) fn dependencies() -> Vec<Dependency> {
    let metadata = metadata(&["--all-features", "--filter-platform", &host()]);
    let dependency = |package: &Value| Dependency {
        name: text(&package["name"]),
        version: text(&package["version"]),
        license: package["license"].as_str().map(str::to_owned),
    };
    list(&metadata["packages"]).map(dependency).collect()
}

/// The names of all crates in a build of `package` alone, with its default features.
pub(crate) fn built_into(package: &str) -> BTreeSet<String> {
    names(&["--edges", "normal", "--package", package])
}

/// The names of all crates in a plain `cargo build`: no package and no feature selected.
pub(crate) fn built_by_default() -> BTreeSet<String> {
    names(&["--edges", "normal"])
}

/// The names of all crates in a plain `cargo test`: no package and no feature selected.
pub(crate) fn built_into_tests() -> BTreeSet<String> {
    names(&["--edges", "normal,dev"])
}

/// The features without which cargo skips a test target silently.
pub(crate) fn required_features((package, test): (&str, &str)) -> Vec<String> {
    let metadata = metadata(&["--no-deps"]);
    let package = list(&metadata["packages"]).find(|listed| listed["name"] == package).unwrap();
    let test = list(&package["targets"]).find(|target| target["name"] == test).unwrap();
    list(&test["required-features"]).map(text).collect()
}

fn names(args: &[&str]) -> BTreeSet<String> {
    let tree = cargo(&[&["tree", "--locked", "--prefix", "none"], args].concat());
    tree.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

/// A Rust file of the workspace.
pub(crate) struct Source {
    /// Relative to the root, with forward slashes.
    pub(crate) path: String,
    /// The code, with comments and literals blanked.
    pub(crate) code: String,
}

impl Source {
    /// Every line of code that contains `pattern`, as `path:line: text`.
    pub(crate) fn lines_with(&self, pattern: &str) -> Vec<String> {
        let lines = self.code.lines().enumerate().filter(|(_, line)| line.contains(pattern));
        lines.map(|(at, line)| format!("{}:{}: {}", self.path, at + 1, line.trim())).collect()
    }
}

/// All Rust files of the workspace.
pub(crate) fn sources() -> Vec<Source> {
    let paths = files(&["rs"]).into_iter();
    let sources: Vec<Source> = paths.map(|path| Source { code: code_of(&file(&path)), path }).collect();
    assert!(sources.len() > 50, "only {} Rust files found; expected the whole workspace", sources.len());
    sources
}

/// The paths of all files with one of the extensions, relative to the root, sorted.
pub(crate) fn files(extensions: &[&str]) -> Vec<String> {
    let root = root();
    let mut found = Vec::new();
    collect(&root, extensions, &mut found);
    let mut paths: Vec<String> = found.iter().map(|path| relative_to(&root, path)).collect();
    paths.sort();
    paths
}

fn collect(directory: &Path, extensions: &[&str], found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let extension = path.extension().and_then(|extension| extension.to_str());
        if path.is_dir() && !is_skipped(&path) {
            collect(&path, extensions, found);
        } else if path.is_file() && extension.is_some_and(|extension| extensions.contains(&extension)) {
            found.push(path);
        }
    }
}

/// Build output and hidden directories.
fn is_skipped(directory: &Path) -> bool {
    let name = directory.file_name().unwrap().to_string_lossy();
    name.starts_with('.') || (name.starts_with("target") && directory.parent() == Some(&root()))
}

fn read_package(package: &Value, root: &Path) -> Package {
    let manifest = PathBuf::from(text(&package["manifest_path"]));
    let needed = list(&package["dependencies"]).filter(|dependency| dependency["kind"] != "dev");
    let directory = relative_to(root, manifest.parent().unwrap());
    Package {
        role: directory.strip_prefix("crates/").unwrap_or(&directory).to_owned(),
        directory,
        name: text(&package["name"]),
        needs: needed.map(|dependency| text(&dependency["name"])).collect(),
    }
}

fn relative_to(root: &Path, path: &Path) -> String {
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
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "cargo {}: {stderr}", args.join(" "));
    String::from_utf8(output.stdout).unwrap()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().unwrap().iter()
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}
