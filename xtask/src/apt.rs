//! Installs Debian packages that some tests need.

use std::process::Command;

use crate::tools::{is_installed, run_quietly};

/// Installs the missing programs. Each is given with the Debian package that contains it.
pub(crate) fn install(programs: &[(&str, &str)]) -> Result<(), String> {
    let missing: Vec<(&str, &str)> =
        programs.iter().copied().filter(|(program, _)| !is_installed(program)).collect();
    if !missing.is_empty() {
        let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
        apt_install(&packages)?;
    }
    for (program, package) in missing {
        if !is_installed(program) {
            return Err(format!("the Debian package {package} is installed, but {program} does not start"));
        }
    }
    Ok(())
}

fn apt_install(packages: &[&str]) -> Result<(), String> {
    let names = packages.join(" ");
    let failed = |output: String| {
        let last = output.lines().last().unwrap_or_default().to_owned();
        format!("cannot install {names}: {last}; install the Debian packages of these names yourself")
    };
    if !is_installed("apt-get") {
        return Err(failed("apt-get is not available".to_owned()));
    }
    eprintln!("--- apt-get install {names}");
    run_quietly(as_root().args(["apt-get", "update", "-qq"])).map_err(failed)?;
    let mut install = as_root();
    install.args(["apt-get", "install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    run_quietly(&mut install).map_err(failed)
}

/// The start of a command that runs as root, through `sudo` if needed. `sudo` must not ask for a password.
fn as_root() -> Command {
    let id = Command::new("id").arg("-u").output();
    let is_root = id.is_ok_and(|output| output.stdout.trim_ascii() == b"0");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        command.args(["-n", "env"]);
    }
    command.arg("DEBIAN_FRONTEND=noninteractive");
    command
}
