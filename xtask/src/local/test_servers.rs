//! Emulators for one test run. Each run has its own, so that concurrent runs do not share data.

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::Cargo;
use crate::stages::Stages;

use super::emulator::{ALL, Emulator, endpoint};
use super::error::LocalError;
use super::options::Aws;
use super::paths::Paths;
use super::process::{self, ScopedServer};
use super::{command, health, test_credentials};

/// Empty emulators on free ports. They stop when this value is dropped.
pub(crate) struct TestServers {
    running: Vec<ScopedServer>,
    environment: Vec<(String, String)>,
}

impl TestServers {
    /// The environment variables for the tests.
    pub(crate) fn environment(&self) -> &[(String, String)] {
        &self.environment
    }

    /// Whether the emulator with this environment variable is running.
    pub(crate) fn has(&self, variable: &str) -> bool {
        self.environment.iter().any(|(name, _)| name == variable)
    }

    fn add(&mut self, paths: &Paths, emulator: Emulator) -> Result<(), LocalError> {
        let files = files(paths, emulator);
        let port = health::free_port()?;
        let command = command(paths, emulator, port, &files)?;
        let log = files.with_extension("log");
        let mut server = ScopedServer::start(&command, &log)?;
        health::wait(emulator, port, server.child()).map_err(|error| error.with_log(&log))?;
        self.running.push(server);
        self.environment.push((emulator.variable().to_owned(), endpoint(port)));
        Ok(())
    }
}

/// Starts the emulators for the tests in a stage of its own. The stage fails if one of them cannot be installed or
/// started, because its tests are skipped; the other one is used.
pub(crate) fn start_test_servers(cargo: &Cargo, aws: Aws, stages: &mut Stages) -> TestServers {
    let mut servers = TestServers { running: Vec::new(), environment: test_credentials().collect() };
    stages.run_fn("local aws", || {
        let paths = Paths::find(cargo).map_err(|error| error.message().to_owned())?;
        remove_stale_files(&paths);
        let failures = [aws.emulator(), Emulator::DynamoDb].into_iter().filter_map(|emulator| {
            let error = servers.add(&paths, emulator).err()?;
            Some(format!("tests on {} were skipped: {}", emulator.name(), error.message()))
        });
        let failures: Vec<String> = failures.collect();
        if failures.is_empty() { Ok(endpoints(servers.environment())) } else { Err(failures.join("\n")) }
    });
    servers
}

/// Sets the environment of a command, and removes endpoints that the user's shell exports.
pub(crate) fn set_environment(command: &mut Command, environment: &[(String, String)]) {
    for emulator in ALL {
        command.env_remove(emulator.variable());
    }
    command.envs(environment.iter().cloned());
}

fn endpoints(environment: &[(String, String)]) -> String {
    let endpoints = environment.iter().filter(|(name, _)| name.starts_with("COUNTERSIGN_"));
    endpoints.map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(", ")
}

/// The prefix of the file names of a test run. The process id of the run follows.
const FILES_PREFIX: &str = "test-";

fn files(paths: &Paths, emulator: Emulator) -> PathBuf {
    paths.home.join(format!("{FILES_PREFIX}{}-{}", std::process::id(), emulator.slug()))
}

/// Removes the files of earlier test runs. Files stay until the next run, so that failures can be investigated. Files
/// of concurrent runs are not touched.
fn remove_stale_files(paths: &Paths) {
    for entry in paths.home.read_dir().into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if owner(&name).is_some_and(|pid| !process::exists(pid)) {
            let path = entry.path();
            // Files that cannot be removed do no harm.
            drop(if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) });
        }
    }
}

/// The process id of the test run that created the file.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(FILES_PREFIX)?.split('-').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_holds_the_process_id() {
        assert_eq!(owner("test-4711-ministack"), Some(4711));
        assert_eq!(owner("test-4711-ministack.log"), Some(4711));
        assert_eq!(owner("ministack-1.5.33"), None);
        assert_eq!(owner("test-x"), None);
    }
}
