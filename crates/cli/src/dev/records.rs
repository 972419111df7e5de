//! The incidents of the simulated ServiceNow, kept in a file from one start to the next.
//!
//! A receipt in the store says that a record was changed. If the record were as new after a restart, the next
//! run of the same change would find that receipt, and rightly believe that nothing is left to do.

use std::path::{Path, PathBuf};
use std::time::Duration;

use fakes::servicenow::{INCIDENT, PRINTER, Record};
use tokio::time::sleep;

use crate::error::CliError;
use crate::input::read_file;
use crate::new_file::replace;

use super::world::World;

/// Two records have two kilobytes; more is something else.
const BYTES_MAX: usize = 1024 * 1024;

/// What changed since the last save is lost if the process is killed.
const SAVE_EVERY: Duration = Duration::from_millis(500);

const TABLE: &str = "incident";

/// The column that counts the changes of a record.
const MOD_COUNT: &str = "sys_mod_count";

/// Columns that hold what is written elsewhere: the time of a change, and entries of the journal.
const DERIVED: [&str; 4] = ["sys_id", "sys_updated_on", "work_notes", "comments"];

/// Keeps the incidents in a file.
pub(super) struct Keeper {
    file: PathBuf,
}

impl Keeper {
    /// Puts back what `file` holds, if it is there.
    pub(super) fn restore(file: &Path, world: &World) -> Result<Self, CliError> {
        let keeper = Self { file: file.to_owned() };
        if file.try_exists().unwrap_or(false) {
            let bytes = read_file(file, &file.display().to_string(), BYTES_MAX)?;
            let records: Vec<Record> = serde_json::from_slice(&bytes).map_err(|error| {
                CliError::Usage(format!(
                    "{} cannot be used: {error}; delete it to begin anew",
                    file.display()
                ))
            })?;
            for record in &records {
                put_back(record, world);
            }
        }
        Ok(keeper)
    }

    /// Saves what there is now.
    pub(super) fn save(&self, world: &World) -> Result<(), CliError> {
        self.write(&records(world))
    }

    /// Saves for ever, whenever something has changed.
    pub(super) async fn keep(&self, world: &World) {
        let mut saved = Vec::new();
        loop {
            let now = records(world);
            if now != saved {
                if let Err(error) = self.write(&now) {
                    tracing::warn!(%error, "the incidents were not saved");
                }
                saved = now;
            }
            sleep(SAVE_EVERY).await;
        }
    }

    /// The file is replaced whole, so that a crash leaves the old one.
    fn write(&self, records: &[Record]) -> Result<(), CliError> {
        replace(&self.file, &serde_json::to_vec_pretty(records).unwrap_or_default())
    }
}

fn records(world: &World) -> Vec<Record> {
    [INCIDENT, PRINTER].iter().filter_map(|sys_id| world.servicenow.record(TABLE, sys_id)).collect()
}

/// Column by column. Every change counts, so the count comes last, and one too low.
fn put_back(record: &Record, world: &World) {
    let Some(sys_id) = record.get("sys_id") else { return };
    let counted = |field: &str| field == MOD_COUNT || DERIVED.contains(&field);
    for (field, value) in record.iter().filter(|(field, _)| !counted(field)) {
        world.servicenow.change(TABLE, sys_id, field, value);
    }
    let count = record.get(MOD_COUNT).and_then(|count| count.parse::<u64>().ok());
    if let Some(before) = count.and_then(|count| count.checked_sub(1)) {
        world.servicenow.change(TABLE, sys_id, MOD_COUNT, &before.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::super::world::Ports;
    use super::*;

    #[tokio::test]
    async fn an_incident_is_found_again_as_it_was_left() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("servicenow.json");
        let first = World::open(Ports::default()).await.unwrap();
        first.servicenow.change(TABLE, INCIDENT, "state", "2");
        first.servicenow.change(TABLE, INCIDENT, "assignment_group", "db-oncall");
        first.servicenow.change(TABLE, INCIDENT, "urgency", "1");
        Keeper::restore(&file, &first).unwrap().save(&first).unwrap();

        let second = World::open(Ports::default()).await.unwrap();
        Keeper::restore(&file, &second).unwrap();
        for field in ["state", "assignment_group", "urgency", MOD_COUNT, "number"] {
            let value = |world: &World, sys_id| world.servicenow.value(TABLE, sys_id, field);
            assert_eq!(value(&second, INCIDENT), value(&first, INCIDENT), "{field}");
            assert_eq!(value(&second, PRINTER), value(&first, PRINTER), "{field}");
        }
    }
}
