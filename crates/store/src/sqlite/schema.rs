//! The schema, by version. A database is brought up to date when it is opened; one that is newer than this
//! program is refused rather than guessed at.

use std::sync::OnceLock;

use rusqlite::{Connection, TransactionBehavior};

/// Each entry brings a database from its index to the next version. Entries are never changed, only added.
const MIGRATIONS: [&str; 10] = [
    include_str!("v1.sql"),
    include_str!("v2.sql"),
    include_str!("v3.sql"),
    include_str!("v4.sql"),
    include_str!("v5.sql"),
    include_str!("v6.sql"),
    include_str!("v7.sql"),
    include_str!("v8.sql"),
    include_str!("v9.sql"),
    include_str!("v10.sql"),
];

/// The version this program writes.
const KNOWN: u32 = 10;

/// Why a database cannot be used.
#[derive(Debug, thiserror::Error)]
pub(super) enum SchemaError {
    #[error("the database has schema version {found}; this program knows up to {known}: use a newer one")]
    Newer { found: u32, known: u32 },
    #[error(
        "the database has schema version {found}, from before runs were governed; its runs cannot be read: begin a new file"
    )]
    Older { found: u32 },
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
}

/// Brings the database up to date.
pub(super) fn migrate(conn: &mut Connection) -> Result<(), SchemaError> {
    if version(conn)? == KNOWN {
        return Ok(());
    }
    // Another process may be doing the same: the lock orders us, and the version is read under it.
    let transaction = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&transaction)?;
    if found > KNOWN {
        return Err(SchemaError::Newer { found, known: KNOWN });
    }
    // The records of version 1 name neither who wanted a run nor who may approve it; nobody may guess that.
    if found == 1 {
        return Err(SchemaError::Older { found });
    }
    for (_, migration) in (0..KNOWN).zip(MIGRATIONS).filter(|(from, _)| *from >= found) {
        transaction.execute_batch(migration)?;
    }
    transaction.pragma_update(None, "user_version", KNOWN)?;
    transaction.commit()?;
    Ok(())
}

/// An empty database in memory. Its tables are made once for the process and copied after that: simulations
/// open such a store a hundred thousand times.
pub(super) fn in_memory() -> Result<Connection, SchemaError> {
    static EMPTY: OnceLock<Vec<u8>> = OnceLock::new();
    let mut conn = Connection::open_in_memory()?;
    if let Some(empty) = EMPTY.get() {
        conn.deserialize_read_exact("main", empty.as_slice(), empty.len(), false)?;
    } else {
        migrate(&mut conn)?;
        let image = conn.serialize("main")?.to_vec();
        EMPTY.get_or_init(|| image);
    }
    Ok(conn)
}

fn version(conn: &Connection) -> rusqlite::Result<u32> {
    conn.query_row("PRAGMA user_version", [], |row| row.get(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn opening_twice_migrates_once() {
        let mut conn = Connection::open_in_memory().unwrap();
        migrate(&mut conn).unwrap();
        migrate(&mut conn).unwrap();
        assert_eq!(version(&conn).unwrap(), KNOWN);
        assert_eq!(usize::try_from(KNOWN).unwrap(), MIGRATIONS.len());
    }

    #[test]
    fn a_database_from_before_runs_were_governed_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(MIGRATIONS[0]).unwrap();
        conn.pragma_update(None, "user_version", 1).unwrap();
        assert!(matches!(migrate(&mut conn), Err(SchemaError::Older { found: 1 })));
    }

    #[test]
    fn messages_and_blobs_from_before_there_were_lanes_and_owners_are_found() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.execute_batch(MIGRATIONS[0]).unwrap();
        conn.execute_batch(MIGRATIONS[1]).unwrap();
        conn.execute_batch(
            "INSERT INTO runs (tenant, run, status, version, body) VALUES ('acme', 'r', 'queued', 1, '{}');
             INSERT INTO queue (visible_at, tenant, run) VALUES (1, 'acme', 'r');
             INSERT INTO blobs (sha256, body) VALUES (x'00', x'01');",
        )
        .unwrap();
        conn.pragma_update(None, "user_version", 2).unwrap();
        migrate(&mut conn).unwrap();
        let one = |sql| conn.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
        assert_eq!(one("SELECT count(*) FROM queue WHERE lane = 'steps'"), 1);
        assert_eq!(one("SELECT count(*) FROM shelves WHERE tenant = 'acme'"), 2);
    }

    #[test]
    fn a_database_from_the_future_is_refused() {
        let mut conn = Connection::open_in_memory().unwrap();
        conn.pragma_update(None, "user_version", 99).unwrap();
        assert!(matches!(migrate(&mut conn), Err(SchemaError::Newer { found: 99, known: KNOWN })));
    }
}
