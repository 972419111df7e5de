//! The schema of the embedded store. The `user_version` of a file is the schema version that it was created with. A
//! file with another version is rejected when it is opened and in each write: another version of the program may have
//! replaced the file meanwhile, and this one would drop what it does not know.

use std::sync::OnceLock;

use rusqlite::{Connection, TransactionBehavior};

const SCHEMA: &str = include_str!("schema.sql");

/// The version this program reads and writes.
const VERSION: u32 = 18;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error(
        "the store has schema version {found}, this program uses version {VERSION}: use the program that created the \
         store, or start with a new file"
    )]
    OtherVersion { found: u32 },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Creates the tables in an empty database. A database with another schema version is an error.
pub(super) fn create(conn: &mut Connection) -> Result<(), SchemaError> {
    if version(conn)? == VERSION {
        return Ok(());
    }
    // Another process may create the tables at the same time, so the version is read again under the write lock.
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    match version(&transaction)? {
        VERSION => return Ok(()),
        0 => transaction.execute_batch(SCHEMA)?,
        found => return Err(SchemaError::OtherVersion { found }),
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()?;
    Ok(())
}

/// An empty database in memory. The tables are created once per process and copied from then on: a simulation opens a
/// hundred thousand of these.
pub(super) fn in_memory() -> Result<Connection, SchemaError> {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    let mut conn = Connection::open_in_memory()?;
    if let Some(empty) = EMPTY.get() {
        conn.deserialize_read_exact("main", empty.as_slice(), empty.len(), false)?;
    } else {
        create(&mut conn)?;
        let image = conn.serialize("main")?.to_vec();
        EMPTY.get_or_init(|| image);
    }
    Ok(conn)
}

/// Fails if the schema has another version. Called in each write transaction; the version is in the first page, which a
/// transaction reads anyway.
pub(super) fn check(conn: &Connection) -> rusqlite::Result<()> {
    let found = conn.prepare_cached("PRAGMA user_version")?.query_row([], |row| row.get(0))?;
    if found == VERSION {
        return Ok(());
    }
    Err(rusqlite::Error::ToSqlConversionFailure(SchemaError::OtherVersion { found }.into()))
}

fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_twice_creates_the_tables_once() {
        let mut conn = Connection::open_in_memory().unwrap();
        create(&mut conn).unwrap();
        create(&mut conn).unwrap();
        assert_eq!(version(&conn).unwrap(), VERSION);
    }

    #[test]
    fn another_schema_version_is_refused() {
        for other in [1, VERSION - 1, VERSION + 1] {
            let mut conn = Connection::open_in_memory().unwrap();
            conn.pragma_update(None, "user_version", other).unwrap();
            assert!(matches!(create(&mut conn), Err(SchemaError::OtherVersion { found }) if found == other));
        }
    }
}
