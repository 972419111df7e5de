//! `cargo xtask package`: builds the deployable artifacts: a zip for each Lambda function, and the image contexts of
//! worker and server.
//!
//! Lambda has glibc 2.34, which may be older than the glibc of this machine. So zig links the programs against 2.34 on
//! every machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::UsageError;
use crate::cargo::Cargo;
use crate::stages::Stages;
use crate::tools::{Tool, run_quietly};

pub(crate) const HELP: &str = "\
Build the deployable artifacts for x86-64 and arm64.

Usage: cargo xtask package [OPTIONS]

Options:
  --only ARCHITECTURE  Build only `x86_64` or only `arm64`
  -h, --help           Print help

Output:
  target/package/<ARCHITECTURE>/webhook.zip  Lambda function with one file, `bootstrap`
  target/package/<ARCHITECTURE>/slack.zip    The same
  target/package/<ARCHITECTURE>/sweep.zip    The same
  target/package/<ARCHITECTURE>/worker/      Image context: docker build target/package/arm64/worker
  target/package/<ARCHITECTURE>/server/      Image context: add countersign.yaml and evidence.pub before
                                             the build

The zips are reproducible: the same sources give the same bytes. The previous artifacts of an architecture
are removed before the build.

Programs are linked against glibc 2.34 with cargo-zigbuild and zig, which are installed from PyPI into
target/tools. If these cannot be installed, only the architecture of this machine is built, with its own
linker and glibc. The summary lists every architecture that was not built. The command fails if none was.
";

const ZIG: Tool = Tool { name: "zig", packages: &["cargo-zigbuild==0.24.0", "ziglang==0.17.0"] };

/// The glibc version of Amazon Linux 2023, on which Lambda runs. The base image has a newer one.
const GLIBC: &str = "2.34";

/// Profiles in the root `Cargo.toml`. A function is optimised for size, which dominates its cold start; worker and
/// server start once.
const FUNCTION_PROFILE: &str = "lambda";
const SERVICE_PROFILE: &str = "release";

/// The feature that every deployed program is built with.
const FEATURE: &str = "aws";

/// The programs of the Lambda functions. Each becomes a zip.
pub(crate) const FUNCTIONS: [&str; 3] = ["webhook", "slack", "sweep"];

/// A program that is deployed as a container image.
struct Service {
    /// The directory of the image context.
    name: &'static str,
    /// The name of the program and of its package.
    program: &'static str,
    dockerfile: &'static str,
}

const SERVICES: [Service; 2] = [
    Service { name: "worker", program: "countersign-worker", dockerfile: "worker/Dockerfile" },
    Service { name: "server", program: "countersign", dockerfile: "crates/cli/Dockerfile" },
];

/// Creates a reproducible zip of one file: fixed name, time and mode.
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

#[derive(Clone, Copy)]
struct Architecture {
    /// The name that AWS uses.
    name: &'static str,
    /// The Rust target.
    target: &'static str,
    /// The stage names for functions, worker, server and packaging.
    stages: [&'static str; 4],
}

const ARCHITECTURES: [Architecture; 2] = [
    Architecture {
        name: "x86_64",
        target: "x86_64-unknown-linux-gnu",
        stages: ["x86 lambda", "x86 worker", "x86 server", "x86 pack"],
    },
    Architecture {
        name: "arm64",
        target: "aarch64-unknown-linux-gnu",
        stages: ["arm lambda", "arm worker", "arm server", "arm pack"],
    },
];

pub(crate) struct PackageOptions {
    only: Option<String>,
}

pub(crate) fn options(args: &[String]) -> Result<PackageOptions, UsageError> {
    let is_known = |name: &String| ARCHITECTURES.iter().any(|architecture| architecture.name == name);
    match args {
        [] => Ok(PackageOptions { only: None }),
        [help] if help == "--help" || help == "-h" => Err(UsageError::Help),
        [only, name] if only == "--only" && is_known(name) => Ok(PackageOptions { only: Some(name.clone()) }),
        [.., last] => Err(UsageError::Invalid(last.clone())),
    }
}

/// Packages every selected architecture that can be built here.
pub(crate) fn package(cargo: &Cargo, options: &PackageOptions) -> Stages {
    let mut stages = Stages::default();
    let zig = ZIG.programs(cargo);
    let is_selected =
        |architecture: &&Architecture| options.only.as_ref().is_none_or(|only| only == architecture.name);
    let mut any = false;
    for architecture in ARCHITECTURES.iter().filter(is_selected) {
        let linker =
            architecture.clear(cargo).and_then(|()| architecture.linker(cargo, zig.as_ref(), &mut stages));
        match linker {
            Ok(linker) => {
                any = true;
                architecture.package(cargo, &linker, &mut stages);
            }
            Err(reason) => stages.note(format!("{} was not packaged: {reason}", architecture.name)),
        }
    }
    if !any {
        stages.run_fn("package", || Err("no architecture can be built on this machine".to_owned()));
    }
    stages
}

enum Linker<'z> {
    /// Links against Lambda's glibc. Holds the directory of zig's programs.
    Zig(&'z Path),
    /// Links against the glibc of this machine.
    Native,
}

impl Architecture {
    fn package(self, cargo: &Cargo, linker: &Linker<'_>, stages: &mut Stages) {
        let [lambda, worker, server, pack] = self.stages;
        let mut functions = self.build(cargo, linker, "countersign-functions", FUNCTION_PROFILE);
        functions.args(FUNCTIONS.iter().flat_map(|function| ["--bin", function]));
        let mut built = stages.run(lambda, &mut functions);
        for (stage, Service { program, .. }) in [worker, server].into_iter().zip(&SERVICES) {
            let mut service = self.build(cargo, linker, program, SERVICE_PROFILE);
            built &= stages.run(stage, service.args(["--bin", program]));
        }
        if built {
            stages.run_fn(pack, || self.pack(cargo, linker));
        } else {
            stages.note(format!("{} was not packaged, because the build failed", self.name));
        }
    }

    /// The output directory.
    fn home(self, cargo: &Cargo) -> Result<PathBuf, String> {
        Ok(cargo.target_directory()?.join("package").join(self.name))
    }

    /// Removes the previous artifacts, so that outdated ones are not deployed after a failed build.
    fn clear(self, cargo: &Cargo) -> Result<(), String> {
        let home = self.home(cargo)?;
        if !home.exists() {
            return Ok(());
        }
        std::fs::remove_dir_all(&home).map_err(|error| format!("clear {}: {error}", home.display()))
    }

    /// Chooses the linker. Fails if this machine cannot build the architecture.
    fn linker<'z>(
        self,
        cargo: &Cargo,
        zig: Result<&'z PathBuf, &String>,
        stages: &mut Stages,
    ) -> Result<Linker<'z>, String> {
        let is_host = self.target.starts_with(std::env::consts::ARCH) && cfg!(target_os = "linux");
        match zig {
            Ok(programs) => {
                self.install_standard_library(cargo)?;
                Ok(Linker::Zig(programs))
            }
            Err(reason) if is_host => {
                stages.note(format!(
                    "{} is linked against the glibc of this machine, which may be newer than Lambda's, \
                     because zig cannot be installed: {reason}",
                    self.name
                ));
                Ok(Linker::Native)
            }
            Err(reason) => Err(format!("zig cannot be installed: {reason}")),
        }
    }

    fn install_standard_library(self, cargo: &Cargo) -> Result<(), String> {
        let mut add = Command::new("rustup");
        let added = run_quietly(add.args(["target", "add", self.target]).current_dir(cargo.root()));
        added.map_err(|reason| format!("cannot install the standard library for {}: {reason}", self.target))
    }

    fn build(self, cargo: &Cargo, linker: &Linker<'_>, package: &str, profile: &str) -> Command {
        let versioned = format!("{}.{GLIBC}", self.target);
        let mut command = match linker {
            Linker::Zig(programs) => {
                let mut command = cargo.command(&["zigbuild", "--target", &versioned]);
                command.env("PATH", path_with_first(programs));
                command
            }
            Linker::Native => cargo.command(&["build", "--target", self.target]),
        };
        command.args(["--profile", profile, "--locked", "--package", package, "--features", FEATURE]);
        // Strips debug info to keep images small, but keeps symbols for backtraces.
        command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        command
    }

    fn pack(self, cargo: &Cargo, linker: &Linker<'_>) -> Result<String, String> {
        let target = cargo.target_directory()?;
        let built = |profile: &str, program: &str| target.join(self.target).join(profile).join(program);
        let home = self.home(cargo)?;
        std::fs::create_dir_all(&home).map_err(|error| error.to_string())?;
        for function in FUNCTIONS {
            zip(&built(FUNCTION_PROFILE, function), &home.join(format!("{function}.zip")))?;
        }
        for Service { name, program, dockerfile } in SERVICES {
            let context = home.join(name);
            std::fs::create_dir_all(&context).map_err(|error| error.to_string())?;
            copy(&built(SERVICE_PROFILE, program), &context.join(program))?;
            copy(&cargo.root().join(dockerfile), &context.join("Dockerfile"))?;
        }
        let glibc = match linker {
            Linker::Zig(_) => "glibc 2.34",
            Linker::Native => "the glibc of this machine",
        };
        Ok(format!("{}, linked against {glibc}", home.display()))
    }
}

/// PATH with this directory in front, so that cargo finds its subcommand there and the subcommand finds zig.
fn path_with_first(directory: &Path) -> std::ffi::OsString {
    let rest = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(directory.to_owned()).chain(std::env::split_paths(&rest));
    std::env::join_paths(all).unwrap_or(rest)
}

fn zip(program: &Path, target: &Path) -> Result<(), String> {
    let mut python = Command::new("python3");
    let zipped = run_quietly(python.args(["-c", ZIP]).arg(program).arg(target));
    zipped.map_err(|reason| format!("zip {}: {reason}", program.display()))
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    std::fs::copy(from, to).map(drop).map_err(|error| format!("copy {}: {error}", from.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_features_and_profiles_exist() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let read = |name: &str| std::fs::read_to_string(root.join(name)).unwrap();
        let required = format!("required-features = [\"{FEATURE}\"]");
        let manifests = [read("functions/Cargo.toml"), read("worker/Cargo.toml")];
        let programs: Vec<_> = manifests.iter().flat_map(|text| text.split("[[bin]]").skip(1)).collect();
        let [worker, server] = SERVICES;
        for program in FUNCTIONS.iter().chain([&worker.program]) {
            let name = format!("name = \"{program}\"");
            let found = programs.iter().find(|text| text.contains(&name));
            assert!(found.is_some_and(|text| text.contains(&required)), "{program} lacks {FEATURE}");
        }
        // The feature is optional for the server's program, which developers build without it.
        let manifest = read("crates/cli/Cargo.toml");
        assert!(manifest.contains(&format!("name = \"{}\"", server.program)));
        assert!(manifest.contains(&format!("\n{FEATURE} = [")), "{} lacks {FEATURE}", server.program);
        assert!(read("Cargo.toml").contains(&format!("[profile.{FUNCTION_PROFILE}]")));
    }

    fn parse(args: &[&str]) -> Result<PackageOptions, UsageError> {
        options(&args.iter().map(|&arg| arg.to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn one_architecture_can_be_selected() {
        assert!(parse(&["--only", "arm64"]).is_ok_and(|options| options.only.as_deref() == Some("arm64")));
        assert!(matches!(parse(&["--only", "m68k"]), Err(UsageError::Invalid(name)) if name == "m68k"));
        assert!(matches!(parse(&["--help"]), Err(UsageError::Help)));
    }

    #[test]
    fn zip_depends_only_on_the_contents() {
        let here = std::env::temp_dir().join(format!("countersign-zip-{}", std::process::id()));
        std::fs::create_dir_all(&here).unwrap();
        let zipped = |name: &str, contents: &[u8]| {
            std::fs::write(here.join(name), contents).unwrap();
            zip(&here.join(name), &here.join("zip")).unwrap();
            std::fs::read(here.join("zip")).unwrap()
        };
        let first = zipped("first", b"a program");
        // A zip stores times with a resolution of two seconds. The other name shows that names are not stored.
        std::thread::sleep(std::time::Duration::from_millis(2100));
        let second = zipped("second", b"a program");
        let other = zipped("first", b"another program");
        std::fs::remove_dir_all(&here).unwrap();
        assert_eq!(first, second);
        assert_ne!(first, other);
        assert!(first.windows(9).any(|bytes| bytes == b"bootstrap"), "the zip has no file `bootstrap`");
    }

    #[test]
    fn zip_error_names_the_program() {
        let missing = Path::new("no-such-program");
        let result = zip(missing, Path::new("no-such.zip"));
        assert!(result.is_err_and(|reason| reason.contains("no-such-program")));
    }
}
