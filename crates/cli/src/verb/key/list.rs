//! `countersign key list`: the keys of a tenant, without their secrets.

use api_types::Key;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use views::table::table;
use views::time;

/// List the keys: whose they are, what they open, until when
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(_: &Args, context: &Context) -> Result<Ending, CliError> {
    let keys = all(&context.link()?).await?;
    let rows: Vec<_> = keys.iter().map(row).collect();
    let text = match rows.len() {
        0 => "no keys; make one with `countersign key create`\n".to_owned(),
        _ => table(["KEY", "PERSON", "ROLES", "STANDS", "NOTE"], &rows),
    };
    context.answer(&text, &json!({ "keys": keys }))?;
    Ok(Ending::Done)
}

/// All keys, in as many pages as that takes.
async fn all(link: &Link) -> Result<Vec<Key>, CliError> {
    let mut keys = Vec::new();
    let mut cursor = None;
    loop {
        let page = link.client.keys(cursor).await?;
        keys.extend(page.keys);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(keys);
        }
    }
}

fn row(key: &Key) -> [String; 5] {
    let roles = key.roles.iter().map(|role| role.to_string()).collect::<Vec<_>>().join(", ");
    [key.id.to_string(), key.person.to_string(), roles, stands(key), key.note.clone()]
}

fn stands(key: &Key) -> String {
    let ended = |at: &str| time::read(at).is_some_and(|at| at <= Link::now());
    match (&key.revoked_at, &key.expires_at) {
        (Some(at), _) => format!("revoked at {at}"),
        (None, Some(at)) if ended(at) => format!("ran out at {at}"),
        (None, Some(at)) => format!("good until {at}"),
        (None, None) => "good".to_owned(),
    }
}
