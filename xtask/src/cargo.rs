//! Runs cargo from a program that cargo started.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Prefixes of the variables that `cargo run` sets for the program it starts. Build scripts read some of them, so a
/// child cargo that inherited them would recompile dependencies.
const CARGO_RUN_VARIABLES: [&str; 5] =
    ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_NAME", "CARGO_CRATE_NAME", "CARGO_PRIMARY_PACKAGE"];

/// The cargo that started this program, run from the root of the workspace.
pub(crate) struct Cargo {
    program: OsString,
    root: PathBuf,
    /// Variables that are removed from the environment of child processes.
    removed: Vec<OsString>,
}

impl Cargo {
    pub(crate) fn from_environment() -> Self {
        let program = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let removed = std::env::vars_os().map(|(name, _)| name).filter(is_set_by_cargo_run).collect();
        Self { program, root, removed }
    }

    /// `cargo ARGS…` at the root of the workspace.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(&self.root);
        for name in &self.removed {
            command.env_remove(name);
        }
        command
    }

    /// The root directory of the workspace.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Whether the subcommand `cargo NAME` is installed.
    pub(crate) fn has(&self, name: &str) -> bool {
        let status = self.command(&[name, "--version"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    }

    /// The target directory, read from `cargo metadata` because a variable or a configuration file may change it.
    pub(crate) fn target_directory(&self) -> Result<PathBuf, String> {
        let output = self
            .command(&["metadata", "--format-version", "1", "--no-deps"])
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| format!("cannot start cargo metadata: {error}"))?;
        crate::json::text(&String::from_utf8_lossy(&output.stdout), "target_directory")
            .map(PathBuf::from)
            .ok_or_else(|| "cargo metadata reports no target directory".to_owned())
    }
}

fn is_set_by_cargo_run(name: &OsString) -> bool {
    let name = name.to_string_lossy();
    CARGO_RUN_VARIABLES.iter().any(|prefix| name.starts_with(prefix))
}

/// The command as a user would type it.
pub(crate) fn command_line(command: &Command) -> String {
    let quoted = command.get_args().map(|arg| {
        let arg = arg.to_string_lossy();
        if arg.contains([' ', '(', '*', '|']) { format!("'{arg}'") } else { arg.into_owned() }
    });
    let program = Path::new(command.get_program()).file_name().unwrap_or_default().to_string_lossy();
    std::iter::once(program.into_owned()).chain(quoted).collect::<Vec<_>>().join(" ")
}
