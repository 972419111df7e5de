//! `cargo xtask storm`: nothing is lost, at full size.
//!
//! What it needs is built and started here, as for the tests. The storm itself is a program of `tests/e2e`,
//! whose smaller storm is among the tests.

use std::path::PathBuf;
use std::process::Command;

use crate::Misuse;
use crate::cargo::Cargo;
use crate::local::{self, Aws};
use crate::parts::Parts;
use crate::test::{ALL, BUILD, programs};

pub(crate) const HELP: &str = "\
Nothing is lost: webhooks by the thousand, a tenth of them twice, while workers are killed every few seconds.

Usage: cargo xtask storm [--deliveries N] [--duplicates PERCENT] [--seed N] [--workers N] [--kill-every SECONDS]
                         [--in-flight N] [--json]

  --deliveries N         how many webhooks are sent, those that come again included; 10000
  --duplicates PERCENT   how many of a hundred have been sent before; 10
  --seed N               which come again and who is killed is left to chance from this number; 1
  --workers N            how many worker processes there are at a time; 3
  --kill-every SECONDS   how long until one of them is killed and replaced, about; 4
  --in-flight N          how many deliveries are under way at once; 16
  --json                 the report as one JSON object on standard output; the table goes to standard error

Signed webhooks go through the real function on a local AWS (MiniStack, with the table on DynamoDB Local); each starts
a run that changes one record of its own in a simulated ServiceNow. It is over when every run has its evidence and no
message is left, or when nothing moves for eight minutes: then who hangs is named. Counted and compared:

  runs = distinct keys          changes outside = runs, one each
  bundles = runs                each recorded, in the bucket, verified offline, with a place of its own in the log
  messages left = 0             of every message that was given up, what it asked for was done all the same

10,000 deliveries take about half an hour on two busy cores; 1,000 take three minutes. Times are reported and judge nothing.
";

/// Options with a number behind them, and the least it can be.
const NUMBERS: [(&str, u32); 6] = [
    ("--deliveries", 1),
    ("--duplicates", 0),
    ("--seed", 0),
    ("--workers", 1),
    ("--kill-every", 1),
    ("--in-flight", 1),
];

/// Reads the options, which are the program's: a mistake is found before anything is built.
pub(crate) fn options(args: &[String]) -> Result<Vec<String>, Misuse> {
    let mut left = args.iter();
    while let Some(arg) = left.next() {
        match (arg.as_str(), NUMBERS.iter().find(|(name, _)| name == arg)) {
            ("--help" | "-h", _) => return Err(Misuse::Help),
            ("--json", _) => {}
            (_, Some((name, least))) => {
                let value = left.next().map_or("", String::as_str);
                let fits = value.parse().is_ok_and(|number: u32| number >= *least);
                if !fits || (*name == "--duplicates" && value.len() > 2) {
                    return Err(Misuse::Unknown(format!("{name} {value}")));
                }
            }
            (other, None) => return Err(Misuse::Unknown(other.to_owned())),
        }
    }
    Ok(args.to_vec())
}

/// Builds and starts what a storm needs, then lets it loose.
pub(crate) fn storm(cargo: &Cargo, options: &[String]) -> Parts {
    let mut parts = Parts::default();
    // As for the tests, to the letter: with other targets the libraries would be compiled once more.
    if !parts.run("build", cargo.command(&BUILD).arg(ALL)) {
        parts.leave_out("there was no storm, because it does not build");
        return parts;
    }
    let servers = local::servers(cargo, Aws::Usual, &mut parts);
    let environment = servers.environment();
    match program(cargo, environment) {
        Ok(program) => {
            let mut command = Command::new(program);
            local::tell(command.args(options), environment);
            programs(cargo, &mut command, &mut parts);
            parts.run("storm", &mut command);
        }
        Err(why) => {
            parts.work("storm", || Err(why));
        }
    }
    parts
}

/// The program, if there is something to let it loose on.
fn program(cargo: &Cargo, environment: &[(String, String)]) -> Result<PathBuf, String> {
    if !environment.iter().any(|(name, _)| name == "COUNTERSIGN_AWS") {
        return Err("there is no local AWS to let it loose on".to_owned());
    }
    let name = format!("countersign-storm{}", std::env::consts::EXE_SUFFIX);
    Ok(cargo.target_directory()?.join("debug").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> Result<Vec<String>, Misuse> {
        options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn what_is_understood_is_handed_on() {
        assert!(given("").is_ok_and(|options| options.is_empty()));
        let line = "--deliveries 200 --json --duplicates 0";
        assert!(given(line).is_ok_and(|options| options.join(" ") == line));
    }

    #[test]
    fn what_is_not_understood_is_named_before_anything_is_built() {
        for (line, named) in [
            ("--deliveries", "--deliveries "),
            ("--deliveries 0", "--deliveries 0"),
            ("--deliveries --json", "--deliveries --json"),
            ("--duplicates 100", "--duplicates 100"),
            ("--fast", "--fast"),
        ] {
            assert!(matches!(given(line), Err(Misuse::Unknown(option)) if option == named), "{line}");
        }
        assert!(matches!(given("--json -h"), Err(Misuse::Help)));
    }
}
