//! Records, change counters, and the journal.

use std::collections::{BTreeMap, BTreeSet};

use super::{INCIDENT, PRINTER};

pub(super) const JOURNAL: &str = "sys_journal_field";

/// Columns that are stored in the journal instead of the record.
const JOURNALED: &[&str] = &["work_notes", "comments"];

/// Column values of a record.
pub type Record = BTreeMap<String, String>;

#[derive(Debug, Default)]
pub(super) struct Tables {
    records: BTreeMap<(String, String), Record>,
    writes: BTreeMap<String, u32>,
    /// Accepted writes by record.
    pub(super) accepted: BTreeMap<String, u32>,
    /// Read-only columns.
    pub(super) protected: BTreeSet<String>,
    /// Seconds since the start of 2026; advances by one with every change.
    clock: u32,
    /// The number of journal entries.
    journaled: u32,
}

impl Tables {
    pub(super) fn seeded() -> Self {
        let mut tables = Self::default();
        tables.seed(INCIDENT, "INC0010001", "Primary database does not answer", "1");
        tables.seed(PRINTER, "INC0010002", "Printer on floor 3 is out of toner", "4");
        tables
    }

    pub(super) fn seed(&mut self, sys_id: &str, number: &str, short_description: &str, priority: &str) {
        let mut record = Record::new();
        for (field, value) in [
            ("sys_id", sys_id),
            ("number", number),
            ("short_description", short_description),
            ("description", ""),
            ("priority", priority),
            ("state", "1"),
            ("urgency", "2"),
            ("category", "inquiry"),
            ("assignment_group", ""),
            ("assigned_to", ""),
            ("work_notes", ""),
            ("comments", ""),
            ("sys_mod_count", "0"),
            ("sys_updated_on", "2026-01-01 00:00:00"),
        ] {
            record.insert(field.to_owned(), value.to_owned());
        }
        self.records.insert(("incident".to_owned(), sys_id.to_owned()), record);
    }

    pub(super) fn get(&self, table: &str, sys_id: &str) -> Option<&Record> {
        self.records.get(&(table.to_owned(), sys_id.to_owned()))
    }

    pub(super) fn all(&self, table: &str) -> impl Iterator<Item = &Record> {
        self.records.iter().filter(move |((of, _), _)| of == table).map(|(_, record)| record)
    }

    pub(super) fn writes(&self, sys_id: &str) -> u32 {
        self.writes.get(sys_id).copied().unwrap_or_default()
    }

    pub(super) fn notes(&self, sys_id: &str) -> Vec<String> {
        let ours = |entry: &&Record| entry["element_id"] == sys_id && entry["element"] == "work_notes";
        self.all(JOURNAL).filter(ours).map(|entry| entry["value"].clone()).collect()
    }

    pub(super) fn all_notes(&self) -> Vec<String> {
        let notes = self.all(JOURNAL).filter(|entry| entry["element"] == "work_notes");
        notes.map(|entry| entry["value"].clone()).collect()
    }

    pub(super) fn accept(&mut self, sys_id: &str) {
        *self.accepted.entry(sys_id.to_owned()).or_default() += 1;
    }

    /// Writes the differing values. If nothing differs, no change is counted.
    pub(super) fn change(&mut self, table: &str, sys_id: &str, values: &Record) {
        let Some(record) = self.records.get_mut(&(table.to_owned(), sys_id.to_owned())) else { return };
        let mut entries = Vec::new();
        let mut changed = false;
        for (field, value) in values {
            match record.get_mut(field).filter(|_| !self.protected.contains(field)) {
                Some(_) if JOURNALED.contains(&field.as_str()) => {
                    entries.push((field.clone(), value.clone()));
                }
                Some(current) if current != value => {
                    current.clone_from(value);
                    changed = true;
                }
                Some(_) | None => {}
            }
        }
        if changed || !entries.is_empty() {
            self.count(table, sys_id);
        }
        for (field, value) in entries {
            self.note(table, sys_id, &field, &value);
        }
    }

    fn count(&mut self, table: &str, sys_id: &str) {
        self.clock += 1;
        let now = self.now();
        *self.writes.entry(sys_id.to_owned()).or_default() += 1;
        if let Some(record) = self.records.get_mut(&(table.to_owned(), sys_id.to_owned())) {
            let count: u32 = record.get("sys_mod_count").and_then(|count| count.parse().ok()).unwrap_or(0);
            record.insert("sys_mod_count".to_owned(), (count + 1).to_string());
            record.insert("sys_updated_on".to_owned(), now);
        }
    }

    fn note(&mut self, table: &str, sys_id: &str, field: &str, value: &str) {
        self.journaled += 1;
        let id = format!("{:032x}", self.journaled);
        let entry = [
            ("sys_id", id.as_str()),
            ("name", table),
            ("element_id", sys_id),
            ("element", field),
            ("value", value),
            ("sys_created_on", &self.now()),
        ];
        let entry = entry.map(|(field, value)| (field.to_owned(), value.to_owned())).into();
        self.records.insert((JOURNAL.to_owned(), id), entry);
    }

    fn now(&self) -> String {
        let (hours, minutes, seconds) = (self.clock / 3_600 % 24, self.clock / 60 % 60, self.clock % 60);
        format!("2026-01-01 {hours:02}:{minutes:02}:{seconds:02}")
    }
}
