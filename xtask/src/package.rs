//! `cargo xtask package`: what is deployed — a zip for each Lambda function, and what the images of worker and server
//! are built from.
//!
//! Lambda's system has glibc 2.34, which may be older than this machine's, so the programs are linked against that by
//! zig, whatever machine they are built on. What cannot be built is said, and what was built in another way too.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::Misuse;
use crate::cargo::Cargo;
use crate::parts::Parts;
use crate::tools::{Tool, quietly};

pub(crate) const HELP: &str = "\
What is deployed, for both architectures.

Usage: cargo xtask package [--only x86_64|arm64]

  target/package/<architecture>/webhook.zip, slack.zip, sweep.zip   one file each, `bootstrap`
  target/package/<architecture>/worker/                             docker build target/package/arm64/worker
  target/package/<architecture>/server/                             the same, with countersign.yaml and evidence.pub in it

The same sources give the same zips. Programs are linked against glibc 2.34 with cargo-zigbuild and zig, which are
installed from PyPI into target/tools. Without them this machine's own architecture is built with its own linker, and
that is said; an architecture that cannot be built here is named at the end. It fails if there is none that can.
";

const ZIG: Tool = Tool { name: "zig", packages: &["cargo-zigbuild==0.24.0", "ziglang==0.17.0"] };

/// What Amazon Linux 2023 has, on which both Lambda and the image's base are no older.
const GLIBC: &str = "2.34";

/// A function's cold start is mostly its size; worker and server start once. Both are profiles in `Cargo.toml`.
const FOR_SIZE: &str = "lambda";
const FOR_SPEED: &str = "release";

/// What every program that is deployed is built with.
const FEATURE: &str = "aws";

/// The functions' programs, each a zip.
pub(crate) const FUNCTIONS: [&str; 3] = ["webhook", "slack", "sweep"];

/// A program that goes into an image, alone.
struct Service {
    /// The directory of its image's context.
    name: &'static str,
    /// The program, and the package it is built from.
    program: &'static str,
    dockerfile: &'static str,
}

const SERVICES: [Service; 2] = [
    Service { name: "worker", program: "countersign-worker", dockerfile: "worker/Dockerfile" },
    Service { name: "server", program: "countersign", dockerfile: "crates/cli/Dockerfile" },
];

/// Makes a zip of one file that is the same for the same contents: no time, no owner, one name, one mode.
const ZIP: &str = "\
import sys, zipfile
program, target = sys.argv[1:]
entry = zipfile.ZipInfo('bootstrap', (1980, 1, 1, 0, 0, 0))
entry.create_system = 3
entry.external_attr = 0o100755 << 16
entry.compress_type = zipfile.ZIP_DEFLATED
with open(program, 'rb') as file, zipfile.ZipFile(target, 'w') as zip:
    zip.writestr(entry, file.read(), compresslevel=9)
";

/// What is built for.
#[derive(Clone, Copy)]
struct Architecture {
    /// As AWS calls it.
    name: &'static str,
    /// As Rust calls it.
    target: &'static str,
    /// As a person reads of it.
    parts: [&'static str; 4],
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        name: "x86_64",
        target: "x86_64-unknown-linux-gnu",
        parts: ["x86 lambda", "x86 worker", "x86 server", "x86 pack"],
    },
    Architecture {
        name: "arm64",
        target: "aarch64-unknown-linux-gnu",
        parts: ["arm lambda", "arm worker", "arm server", "arm pack"],
    },
];

/// What is asked for.
pub(crate) struct Wanted {
    only: Option<String>,
}

/// Reads the options.
pub(crate) fn options(args: &[String]) -> Result<Wanted, Misuse> {
    let known = |name: &String| ARCHITECTURES.iter().any(|architecture| architecture.name == name);
    match args {
        [] => Ok(Wanted { only: None }),
        [help] if help == "--help" || help == "-h" => Err(Misuse::Help),
        [only, name] if only == "--only" && known(name) => Ok(Wanted { only: Some(name.clone()) }),
        [.., last] => Err(Misuse::Unknown(last.clone())),
    }
}

/// Packages every architecture that is wanted and can be built.
pub(crate) fn package(cargo: &Cargo, wanted: &Wanted) -> Parts {
    let mut parts = Parts::default();
    let zig = ZIG.programs(cargo);
    let is_wanted =
        |architecture: &&Architecture| wanted.only.as_ref().is_none_or(|only| only == architecture.name);
    let mut any = false;
    for architecture in ARCHITECTURES.iter().filter(is_wanted) {
        let linker =
            architecture.clear(cargo).and_then(|()| architecture.linker(cargo, zig.as_ref(), &mut parts));
        match linker {
            Ok(linker) => {
                any = true;
                architecture.package(cargo, &linker, &mut parts);
            }
            Err(why) => parts.leave_out(format!("nothing was packaged for {}: {why}", architecture.name)),
        }
    }
    if !any {
        parts.work("package", || Err("nothing can be built here".to_owned()));
    }
    parts
}

/// How an architecture is built here.
enum Linker<'z> {
    /// Against Lambda's glibc; zig's programs are here.
    Zig(&'z Path),
    /// Against this machine's.
    Native,
}

impl Architecture {
    fn package(self, cargo: &Cargo, linker: &Linker<'_>, parts: &mut Parts) {
        let [lambda, worker, server, pack] = self.parts;
        let mut functions = self.build(cargo, linker, "countersign-functions", FOR_SIZE);
        functions.args(FUNCTIONS.iter().flat_map(|function| ["--bin", function]));
        let mut built = parts.run(lambda, &mut functions);
        for (part, Service { program, .. }) in [worker, server].into_iter().zip(&SERVICES) {
            let mut service = self.build(cargo, linker, program, FOR_SPEED);
            built &= parts.run(part, service.args(["--bin", program]));
        }
        if built {
            parts.work(pack, || self.pack(cargo, linker));
        } else {
            parts.leave_out(format!("nothing was packaged for {}, because it does not build", self.name));
        }
    }

    /// Where its packages go.
    fn home(self, cargo: &Cargo) -> Result<PathBuf, String> {
        Ok(cargo.target_directory()?.join("package").join(self.name))
    }

    /// Takes away what was packaged before: what does not build now must not be deployed by mistake.
    fn clear(self, cargo: &Cargo) -> Result<(), String> {
        let home = self.home(cargo)?;
        if !home.exists() {
            return Ok(());
        }
        std::fs::remove_dir_all(&home).map_err(|error| format!("clear {}: {error}", home.display()))
    }

    /// How it can be built here, if it can.
    fn linker<'z>(
        self,
        cargo: &Cargo,
        zig: Result<&'z PathBuf, &String>,
        parts: &mut Parts,
    ) -> Result<Linker<'z>, String> {
        let is_host = self.target.starts_with(std::env::consts::ARCH) && cfg!(target_os = "linux");
        match zig {
            Ok(programs) => {
                self.standard_library(cargo)?;
                Ok(Linker::Zig(programs))
            }
            Err(why) if is_host => {
                parts.leave_out(format!(
                    "{} is linked against this machine's glibc, which Lambda's may be too old for: zig cannot \
                     be had: {why}",
                    self.name
                ));
                Ok(Linker::Native)
            }
            Err(why) => Err(format!("zig cannot be had: {why}")),
        }
    }

    fn standard_library(self, cargo: &Cargo) -> Result<(), String> {
        let mut add = Command::new("rustup");
        let added = quietly(add.args(["target", "add", self.target]).current_dir(cargo.root()));
        added.map_err(|why| format!("the standard library for {} cannot be installed: {why}", self.target))
    }

    fn build(self, cargo: &Cargo, linker: &Linker<'_>, package: &str, profile: &str) -> Command {
        let versioned = format!("{}.{GLIBC}", self.target);
        let mut command = match linker {
            Linker::Zig(programs) => {
                let mut command = cargo.command(&["zigbuild", "--target", &versioned]);
                command.env("PATH", found_first(programs));
                command
            }
            Linker::Native => cargo.command(&["build", "--target", self.target]),
        };
        command.args(["--profile", profile, "--locked", "--package", package, "--features", FEATURE]);
        // An image is loaded whole; names stay, so that a backtrace still says where.
        command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        command
    }

    fn pack(self, cargo: &Cargo, linker: &Linker<'_>) -> Result<String, String> {
        let target = cargo.target_directory()?;
        let built = |profile: &str, program: &str| target.join(self.target).join(profile).join(program);
        let home = self.home(cargo)?;
        std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        for function in FUNCTIONS {
            zip(&built(FOR_SIZE, function), &home.join(format!("{function}.zip")))?;
        }
        for Service { name, program, dockerfile } in SERVICES {
            let context = home.join(name);
            std::fs::create_dir_all(&context).map_err(|error| error.to_string())?;
            copy(&built(FOR_SPEED, program), &context.join(program))?;
            copy(&cargo.root().join(dockerfile), &context.join("Dockerfile"))?;
        }
        let against = match linker {
            Linker::Zig(_) => "glibc 2.34",
            Linker::Native => "this machine's glibc",
        };
        Ok(format!("{}, against {against}", home.display()))
    }
}

/// PATH with this directory in front, so that cargo finds its subcommand there and the subcommand finds zig.
fn found_first(directory: &Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).unwrap_or(rest)
}

fn zip(program: &Path, target: &Path) -> Result<(), String> {
    let mut python = Command::new("python3");
    let made = quietly(python.args(["-c", ZIP]).arg(program).arg(target));
    made.map_err(|why| format!("zip {}: {why}", program.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("copy {}: {error}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_built_with_the_features_and_profiles_that_there_are() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
        let requires = format!("required-features = [\"{FEATURE}\"]");
        let manifests = [read("functions/Cargo.toml"), read("worker/Cargo.toml")];
        let programs: Vec<_> = manifests.iter().flat_map(|text| text.split("[[bin]]").skip(1)).collect();
        let [worker, server] = SERVICES;
        for program in FUNCTIONS.iter().chain([&worker.program]) {
            let name = format!("name = \"{program}\"");
            let found = programs.iter().find(|text| text.contains(&name));
            assert!(found.is_some_and(|text| text.contains(&requires)), "{program} requires something else");
        }
        // A laptop's is built without it.
        let manifest = read("crates/cli/Cargo.toml");
        assert!(manifest.contains(&format!("name = \"{}\"", server.program)));
        assert!(manifest.contains(&format!("\n{FEATURE} = [")), "{} has no such feature", server.program);
        assert!(read("Cargo.toml").contains(&format!("[profile.{FOR_SIZE}]")));
    }

    fn given(args: &[&str]) -> Result<Wanted, Misuse> {
        options(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_architecture_can_be_asked_for_by_its_name() {
        assert!(given(&["--only", "arm64"]).is_ok_and(|wanted| wanted.only.as_deref() == Some("arm64")));
        assert!(matches!(given(&["--only", "m68k"]), Err(Misuse::Unknown(name)) if name == "m68k"));
        assert!(matches!(given(&["--help"]), Err(Misuse::Help)));
    }

    #[test]
    fn the_same_program_gives_the_same_zip_whenever_it_was_built() {
        let here = std::env::temp_dir().join(format!("countersign-zip-{}", std::process::id()));
        std::fs::create_dir_all(&here).unwrap();
        let zipped = |name: &str, contents: &[u8]| {
            std::fs::write(here.join(name), contents).unwrap();
            zip(&here.join(name), &here.join("zip")).unwrap();
            std::fs::read(here.join("zip")).unwrap()
        };
        let first = zipped("first", b"a program");
        // A zip counts time in steps of two seconds; another name shows as well that none is kept.
        std::thread::sleep(std::time::Duration::from_millis(2100));
        let second = zipped("second", b"a program");
        let other = zipped("first", b"another program");
        std::fs::remove_dir_all(&here).unwrap();
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert!(first.windows(9).any(|bytes| bytes == b"bootstrap"), "its one file has another name");
    }

    #[test]
    fn what_cannot_be_zipped_is_named() {
        let missing = Path::new("no-such-program");
        assert!(zip(missing, Path::new("no-such.zip")).is_err_and(|why| why.contains("no-such-program")));
    }
}
