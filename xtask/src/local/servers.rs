//! Servers for a test: its own, so that two tests at once do not meet in them.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::Cargo;
use crate::parts::Parts;

use super::options::Aws;
use super::place::Place;
use super::process::{self, Leashed};
use super::stand_in::{ALL, StandIn, endpoint};
use super::trouble::Trouble;
use super::{command, dummies, health};

/// Stand-ins for the time of a test: empty, on free ports, ended when this is dropped.
pub(crate) struct Servers {
    running: Vec<Leashed>,
    environment: Vec<(String, String)>,
}

impl Servers {
    /// What the tests have to be told.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Whether the server that `variable` names is there.
    pub(crate) fn has(&self, variable: &str) -> bool {
        self.environment.iter().any(|(name, _)| name == variable)
    }

    fn add(&mut self, place: &Place, stand_in: StandIn) -> Result<(), Trouble> {
        let files = workplace(place, stand_in);
        let port = health::any_port()?;
        let command = command(place, stand_in, port, &files)?;
        let log = files.with_extension("log");
        let mut server = Leashed::start(&command, &log)?;
        health::wait(stand_in, port, server.child()).map_err(|trouble| trouble.with_log(&log))?;
        self.running.push(server);
        self.environment.push((stand_in.variable().to_owned(), endpoint(port)));
        Ok(())
    }
}

/// Starts the stand-ins that the tests are to run against, as a part of its own. One that cannot be had, or does not
/// start, fails that part, because nothing is tried without it; the other is used all the same.
pub(crate) fn servers(cargo: &Cargo, aws: Aws, parts: &mut Parts) -> Servers {
    let mut servers = Servers { running: Vec::new(), environment: dummies().collect() };
    parts.work("local aws", || {
        let place = Place::find(cargo).map_err(|trouble| trouble.why().to_owned())?;
        remove_old_workplaces(&place);
        let absent = [aws.stand_in(), StandIn::DynamoDb].into_iter().filter_map(|stand_in| {
            let trouble = servers.add(&place, stand_in).err()?;
            Some(format!("nothing is tried on {}: {}", stand_in.name(), trouble.why()))
        });
        let absent: Vec<String> = absent.collect();
        if absent.is_empty() { Ok(told(servers.environment())) } else { Err(absent.join("\n")) }
    });
    servers
}

/// Tells a command where its servers are. Those that somebody has running beside them, and named to their shell, are
/// nothing to it.
pub(crate) fn tell(command: &mut Command, environment: &[(String, String)]) {
    for stand_in in ALL {
        command.env_remove(stand_in.variable());
    }
    command.envs(environment.iter().cloned());
}

fn told(environment: &[(String, String)]) -> String {
    let endpoints = environment.iter().filter(|(name, _)| name.starts_with("COUNTERSIGN_"));
    endpoints.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// What the files of a test's servers begin with; the number of our process follows.
const WORKPLACE: &str = "test-";

fn workplace(place: &Place, stand_in: StandIn) -> PathBuf {
    place.home.join(format!("{WORKPLACE}{}-{}", std::process::id(), stand_in.slug()))
}

/// Files and logs stay until the next test, for whoever asks why the last one failed. Those of a test that is
/// still running are its own.
fn remove_old_workplaces(place: &Place) {
    for entry in place.home.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !process::exists(pid)) {
            let path = entry.path();
            // What stays is in nobody's way.
            drop(if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) });
        }
    }
}

fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(WORKPLACE)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workplace_knows_its_owner_and_nothing_else_has_one() {
        assert_eq!(owner("test-4711-ministack"), Some(4711));
        assert_eq!(owner("test-4711-ministack.log"), Some(4711));
        assert_eq!(owner("ministack-1.5.33"), None);
        assert_eq!(owner("test-x"), None);
    }
}
