//! The fleet: worker processes, one of which is killed every few seconds and replaced.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::account::Account;
use crate::process::WorkerProcess;

use super::chance::Chance;

pub(super) struct Fleet {
    account: Arc<Account>,
    workers: Vec<WorkerProcess>,
    started: u32,
    killed: u32,
    chance: Chance,
    logs: TempDir,
}

impl Fleet {
    pub(super) fn start(account: Arc<Account>, workers: usize, seed: u64) -> Self {
        let logs = tempfile::tempdir().unwrap();
        let mut fleet =
            Self { account, workers: Vec::new(), started: 0, killed: 0, chance: Chance::new(seed), logs };
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
        self.workers.push(self.account.worker_that_says(log));
    }

    /// Kills a worker now and then, and starts another one in its place.
    pub(super) async fn kill_for_ever(&mut self, every: Duration) -> Infallible {
        loop {
            // Between half and one and a half of it, so that nothing falls into step with the killing.
            let share = self.chance.below(100) + 50;
            tokio::time::sleep(every * share / 100).await;
            let count = u32::try_from(self.workers.len()).unwrap_or(u32::MAX);
            let victim = usize::try_from(self.chance.below(count)).unwrap_or_default();
            self.workers.swap_remove(victim).kill();
            self.killed += 1;
            self.add();
        }
    }

    /// Ends all of it. What the workers warned of, each with how often, and with the runs it was about.
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

/// What workers warned of.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    /// How often each was said.
    pub(super) counts: BTreeMap<String, u32>,
    by_run: BTreeMap<String, BTreeMap<String, u32>>,
}

impl Warnings {
    /// What was said about `run`, each with how often.
    pub(super) fn about(&self, run: &str) -> BTreeMap<String, u32> {
        self.by_run.get(run).cloned().unwrap_or_default()
    }

    /// A killed worker may leave half a line.
    fn read(&mut self, line: &str) {
        let Ok(line) = serde_json::from_str::<Value>(line) else { return };
        if !matches!(line["level"].as_str(), Some("WARN" | "ERROR")) {
            return;
        }
        let fields = &line["fields"];
        let word = |name: &str| fields[name].as_str().unwrap_or_default();
        let said = match word("error") {
            "" => word("message").to_owned(),
            error => format!("{}: {error}", word("message")),
        };
        let run = word("run");
        let said = if run.is_empty() { said } else { said.replace(run, "…") };
        if !run.is_empty() {
            *self.by_run.entry(run.to_owned()).or_default().entry(said.clone()).or_default() += 1;
        }
        *self.counts.entry(said).or_default() += 1;
    }
}
