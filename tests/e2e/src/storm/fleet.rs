//! The fleet: worker processes, one of which is killed and replaced every few seconds.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::env::DeployedEnv;
use crate::process::WorkerProcess;

use super::rng::Rng;

pub(super) struct Fleet {
    env: Arc<DeployedEnv>,
    workers: Vec<WorkerProcess>,
    started: u32,
    killed: u32,
    rng: Rng,
    logs: TempDir,
}

impl Fleet {
    pub(super) fn start(env: Arc<DeployedEnv>, workers: usize, seed: u64) -> Self {
        let logs = tempfile::tempdir().unwrap();
        let mut fleet = Self { env, workers: Vec::new(), started: 0, killed: 0, rng: Rng::new(seed), logs };
        for _ in 0..workers {
            fleet.add();
        }
        fleet
    }

    pub(super) fn killed(&self) -> u32 {
        self.killed
    }

    fn add(&mut self) {
        let log = File::create(self.logs.path().join(self.started.to_string())).unwrap();
        self.started += 1;
        self.workers.push(self.env.worker_with_log(log));
    }

    /// Kills a random worker regularly and starts a replacement.
    pub(super) async fn kill_forever(&mut self, every: Duration) -> Infallible {
        loop {
            // Between half and one and a half of the interval, so that the kills do not align with other periods.
            let share = self.rng.below(100) + 50;
            tokio::time::sleep(every * share / 100).await;
            let count = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
            let victim = usize::try_from(self.rng.below(count)).unwrap_or_default();
            self.workers.swap_remove(victim).kill();
            self.killed += 1;
            self.add();
        }
    }

    /// Kills all workers and returns the warnings in their logs.
    pub(super) fn end(mut self) -> Warnings {
        self.workers.drain(..).for_each(WorkerProcess::kill);
        let mut warnings = Warnings::default();
        for number in 0..self.started {
            let log = File::open(self.logs.path().join(number.to_string())).unwrap();
            BufReader::new(log).lines().map_while(Result::ok).for_each(|line| warnings.read(&line));
        }
        warnings
    }
}

/// The warnings of the workers.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// The number of each warning.
    pub(super) counts: BTreeMap<String, u32>,
    by_run: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Warnings {
    /// The warnings about `run`, with their numbers.
    pub(super) fn about(&self, run: &str) -> BTreeMap<String, u32> {
        self.by_run.get(run).cloned().unwrap_or_default()
    }

    /// Reads a log line. A killed worker may leave an incomplete one.
    fn read(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return };
        if !matches!(line["level"].as_str(), Some("WARN" | "ERROR")) {
            return;
        }
        let fields = &line["fields"];
        let word = |name: &str| fields[name].as_str().unwrap_or_default();
        let text = match word("error") {
            "" => word("message").to_owned(),
            error => format!("{}: {error}", word("message")),
        };
        let run = word("run");
        let text = if run.is_empty() { text } else { text.replace(run, "…") };
        if !run.is_empty() {
            *self.by_run.entry(run.to_owned()).or_default().entry(text.clone()).or_default() += 1;
        }
        *self.counts.entry(text).or_default() += 1;
    }
}
