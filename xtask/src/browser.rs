//! A browser for the tests of the console: Debian's Chromium and its driver, and axe-core, which says whether
//! everybody can use a page. Nothing else will do in their place, so without them the part fails.

use std::path::Path;
use std::process::Command;

use crate::cargo::Cargo;
use crate::debian;
use crate::tools::quietly;

/// The programs, and Debian's packages with them.
const PROGRAMS: [(&str, &str); 3] =
    [("chromium", "chromium"), ("chromedriver", "chromium-driver"), ("npm", "npm")];

/// Pinned, so that what it finds does not change by itself.
const AXE: &str = "axe-core@4.14.0";

/// Gets what is missing; says what is there in the end.
pub(crate) fn install(cargo: &Cargo) -> Result<String, String> {
    debian::install(&PROGRAMS)?;
    axe(&cargo.target_directory()?.join("tools").join("axe"))?;
    Ok(format!("chromium, chromedriver, {AXE}"))
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
