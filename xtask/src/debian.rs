//! Programs that some tests need and that are not ours to build: from Debian's packages, if they are not there.

use std::process::Command;

use crate::tools::{is_installed, quietly};

/// Gets what is missing of some programs, each named with the package that brings it.
pub(crate) fn install(programs: &[(&str, &str)]) -> Result<(), String> {
    let missing: Vec<(&str, &str)> =
        programs.iter().copied().filter(|(program, _)| !is_installed(program)).collect();
    if !missing.is_empty() {
        let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
        apt(&packages)?;
    }
    for (program, package) in missing {
        if !is_installed(program) {
            return Err(format!("Debian's package {package} is installed, and {program} does not start"));
        }
    }
    Ok(())
}

fn apt(packages: &[&str]) -> Result<(), String> {
    let wanted = packages.join(" ");
    let failed = |why: String| {
        let last = why.lines().last().unwrap_or_default().to_owned();
        format!("{wanted} could not be had: {last}; install Debian's packages of these names")
    };
    if !is_installed("apt-get") {
        return Err(failed("there is no apt-get here".to_owned()));
    }
    eprintln!("--- apt-get install {wanted}");
    quietly(as_root().args(["apt-get", "update", "-qq"])).map_err(failed)?;
    let mut install = as_root();
    install.args(["apt-get", "install", "-y", "-qq", "--no-install-recommends"]).args(packages);
    quietly(&mut install).map_err(failed)
}

/// A command of the superuser: our own, if we are, else by `sudo`, which must not ask.
fn as_root() -> Command {
    let who = Command::new("id").arg("-u").output();
    let is_root = who.is_ok_and(|said| said.stdout.trim_ascii() == b"0");
    let mut command = Command::new(if is_root { "env" } else { "sudo" });
    if !is_root {
        command.args(["-n", "env"]);
    }
    command.arg("DEBIAN_FRONTEND=noninteractive");
    command
}
