//! Starting cargo from within cargo.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// What `cargo run` sets for the program it starts. Build scripts look at some of these, so a child that
/// inherited them would compile again what is already compiled.
const OURS: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];

/// The cargo that started us, at the root of the workspace.
pub(crate) struct Cargo {
    program: OsString,
    root: PathBuf,
    inherited: Vec<OsString>,
}

impl Cargo {
    /// Reads which cargo that is, and which of its variables are meant for us alone.
    pub(crate) fn from_environment() -> Self {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let inherited = std::env::vars_os().map(|(name, _)| name).filter(is_ours).collect();
        Self { program, root, inherited }
    }

    /// `cargo ARGS…`, ready to be run.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.root);
        for name in &self.inherited {
            command.env_remove(name);
        }
        command
    }

    /// The workspace's own directory.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether `cargo NAME` is installed.
    pub(crate) fn has(&self, name: &str) -> bool {
        let asked = self.command(&[name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    }

    /// Where cargo puts what it builds: asked, because a variable or a configuration file may move it.
    pub(crate) fn target_directory(&self) -> Result<PathBuf, String> {
        let output = self
            .command(&["metadata", "--format-version", "1", "--no-deps"])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cargo metadata did not start: {error}"))?;
        crate::report::text(&String::from_utf8_lossy(&output.stdout), "target_directory")
            .map(PathBuf::from)
            .ok_or_else(|| "cargo metadata names no target directory".to_owned())
    }
}

fn is_ours(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    OURS.iter().any(|prefix| name.starts_with(prefix))
}

/// The command as a person would type it.
pub(crate) fn shown(command: &Command) -> String {
    let quoted = command.get_args().map(|arg| {
        let arg = arg.to_string_lossy();
        if arg.contains([' ', '(', '*', '|']) { format!("'{arg}'") } else { arg.into_owned() }
    });
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    std::iter::once(program.into_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}
