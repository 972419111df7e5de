//! Installs what the tests of the console need: Debian's Chromium and its driver, and axe-core, which checks pages
//! for accessibility. There is no substitute for them, so the stage fails without them.

use std::path::Path;
use std::process::Command;

use crate::apt;
use crate::cargo::Cargo;
use crate::tools::run_quietly;

/// The programs, and the Debian packages that contain them.
const PROGRAMS: [(&str, &str); 3] =
    [("chromium", "chromium"), ("chromedriver", "chromium-driver"), ("npm", "npm")];

/// Pinned, so that its findings change only with this line.
const AXE: &str = "axe-core@4.14.0";

/// Installs what is missing. Returns the list of installed tools.
pub(crate) fn install(cargo: &Cargo) -> Result<String, String> {
    apt::install(&PROGRAMS)?;
    install_axe(&cargo.target_directory()?.join("tools").join("axe"))?;
    Ok(format!("chromium, chromedriver, {AXE}"))
}

fn install_axe(home: &Path) -> Result<(), String> {
    let (_, version) = AXE.split_once('@').unwrap_or_default();
    let json = std::fs::read_to_string(home.join("node_modules/axe-core/package.json")).unwrap_or_default();
    if json.contains(&format!("\"version\": \"{version}\"")) {
        return Ok(());
    }
    std::fs::create_dir_all(home).map_err(|error| error.to_string())?;
    eprintln!("--- npm install {AXE}");
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--no-save", "--ignore-scripts", "--prefix"])
        .arg(home)
        .arg(AXE);
    run_quietly(&mut npm).map_err(|output| {
        let last = output.lines().last().unwrap_or_default();
        format!("npm cannot install {AXE}: {last}")
    })
}
