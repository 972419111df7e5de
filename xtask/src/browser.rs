//! A browser for the tests of the console: Debian's Chromium and its driver, and axe-core, which says whether
//! everybody can use a page. Nothing else will do in their place, so without them the part fails.

use std::path::Path;
use std::process::Command;

use crate::cargo::Cargo;
use crate::tools::{is_installed, quietly};

/// The programs, and Debian's packages with them.
const PROGRAMS: [(&str, &str); 3] =
    [("chromium", "chromium"), ("chromedriver", "chromium-driver"), ("npm", "npm")];

/// Pinned, so that what it finds does not change by itself.
const AXE: &str = "axe-core@4.14.0";

/// Gets what is missing; says what is there in the end.
pub(crate) fn install(cargo: &Cargo) -> Result<String, String> {
    let missing: Vec<(&str, &str)> =
        PROGRAMS.into_iter().filter(|(program, _)| !is_installed(program)).collect();
    if !missing.is_empty() {
        let packages: Vec<&str> = missing.iter().map(|(_, package)| *package).collect();
        apt(&packages)?;
    }
    for (program, package) in missing {
        if !is_installed(program) {
            return Err(format!("Debian's package {package} is installed, and {program} does not start"));
        }
    }
    axe(&cargo.target_directory()?.join("tools").join("axe"))?;
    Ok(format!("chromium, chromedriver, {AXE}"))
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

fn axe(home: &Path) -> Result<(), String> {
    let (_, version) = AXE.split_once('@').unwrap_or_default();
    let about = std::fs::read_to_string(home.join("node_modules/axe-core/package.json")).unwrap_or_default();
    if about.contains(&format!("\"version\": \"{version}\"")) {
        return Ok(());
    }
    std::fs::create_dir_all(home).map_err(|error| error.to_string())?;
    eprintln!("--- npm install {AXE}");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"])
        .arg(home)
        .arg(AXE);
    quietly(&mut npm).map_err(|said| {
        let last = said.lines().last().unwrap_or_default();
        format!("{AXE} could not be had by npm: {last}")
    })
}
