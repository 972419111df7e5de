//! The incidents of the fake ServiceNow, stored in a file across restarts.
//!
//! Receipts in the store refer to changes of these records. If a restart reset the records, a run that repeats a
//! change would find the receipt, skip the change and leave the record wrong.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fakes::servicenow::{INCIDENT, PRINTER, Record};
use tokio::time::sleep;

use crate::error::CliError;
use crate::input::read_file;
use crate::new_file::replace;

use super::env::DevEnv;

/// Two records have about two kilobytes.
const BYTES_MAX: usize = 1024 * 1024;

/// If the process is killed, changes since the last save are lost.
const SAVE_EVERY: Duration = Duration::from_millis(500);

const TABLE: &str = "incident";

/// The number of changes of a record.
const MOD_COUNT: &str = "sys_mod_count";

/// Columns that the fake derives itself.
const DERIVED: [&str; 4] = ["sys_id", "sys_updated_on", "work_notes", "comments"];

pub(super) struct RecordFile {
    file: PathBuf,
}

impl RecordFile {
    /// Restores the records from `file`, if it exists.
    pub(super) fn restore(file: &Path, systems: &DevEnv) -> Result<Self, CliError> {
        if file.try_exists().unwrap_or(false) {
            let bytes = read_file(file, &file.display().to_string(), BYTES_MAX)?;
            let records: Vec<Record> = serde_json::from_slice(&bytes).map_err(|error| {
                CliError::Usage(format!(
                    "{} is invalid: {error}; delete it to reset the incidents",
                    file.display()
                ))
            })?;
            for record in &records {
                restore_record(record, systems);
            }
        }
        Ok(Self { file: file.to_owned() })
    }

    pub(super) fn save(&self, systems: &DevEnv) -> Result<(), CliError> {
        self.write(&records(systems))
    }

    /// Saves the records whenever they change; never returns.
    pub(super) async fn save_changes(&self, systems: &DevEnv) {
        let mut saved = Vec::new();
        loop {
            let now = records(systems);
            if now != saved {
                if let Err(error) = self.write(&now) {
                    tracing::warn!(event = "incidents_not_saved", %error, "incidents not saved");
                }
                saved = now;
            }
            sleep(SAVE_EVERY).await;
        }
    }

    /// Replaces the file atomically.
    fn write(&self, records: &[Record]) -> Result<(), CliError> {
        replace(&self.file, &serde_json::to_vec_pretty(records).unwrap_or_default(), 0o600)
    }
}

fn records(systems: &DevEnv) -> Vec<Record> {
    [INCIDENT, PRINTER].iter().filter_map(|sys_id| systems.servicenow.record(TABLE, sys_id)).collect()
}

/// Sets the columns one by one. Every change increments the counter, so the counter is set last, to one less.
fn restore_record(record: &Record, systems: &DevEnv) {
    let Some(sys_id) = record.get("sys_id") else { return };
    let is_derived = |field: &str| field == MOD_COUNT || DERIVED.contains(&field);
    for (field, value) in record.iter().filter(|(field, _)| !is_derived(field)) {
        systems.servicenow.change(TABLE, sys_id, field, value);
    }
    let count = record.get(MOD_COUNT).and_then(|count| count.parse::<u64>().ok());
    if let Some(before) = count.and_then(|count| count.checked_sub(1)) {
        systems.servicenow.change(TABLE, sys_id, MOD_COUNT, &before.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::super::env::Ports;
    use super::*;

    #[tokio::test]
    async fn incidents_survive_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("servicenow.json");
        let first = DevEnv::open(Ports::default()).await.unwrap();
        first.servicenow.change(TABLE, INCIDENT, "state", "2");
        first.servicenow.change(TABLE, INCIDENT, "assignment_group", "db-oncall");
        first.servicenow.change(TABLE, INCIDENT, "urgency", "1");
        RecordFile::restore(&file, &first).unwrap().save(&first).unwrap();

        let second = DevEnv::open(Ports::default()).await.unwrap();
        RecordFile::restore(&file, &second).unwrap();
        for field in ["state", "assignment_group", "urgency", MOD_COUNT, "number"] {
            let value = |systems: &DevEnv, sys_id| systems.servicenow.value(TABLE, sys_id, field);
            assert_eq!(value(&second, INCIDENT), value(&first, INCIDENT), "{field}");
            assert_eq!(value(&second, PRINTER), value(&first, PRINTER), "{field}");
        }
    }
}
