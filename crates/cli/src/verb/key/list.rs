//! `countersign key list`.

use api_types::Key;
use serde_json::json;

use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use views::table::table;
use views::time;

/// List API keys with their user, roles and status
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

pub(super) async fn run(_: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let keys = read_all(&context.connect()?).await?;
    let rows: Vec<_> = keys.iter().map(row).collect();
    let text = match rows.len() {
        0 => "no keys; create one with `countersign key create`\n".to_owned(),
        _ => table(["KEY", "USER", "ROLES", "STATUS", "CREATED BY", "NOTE"], &rows),
    };
    context.print(&text, &json!({ "keys": keys }))?;
    Ok(ExitStatus::Success)
}

async fn read_all(session: &ApiSession) -> Result<Vec<Key>, CliError> {
    let mut keys = Vec::new();
    let mut cursor = None;
    loop {
        let page = session.client.keys(cursor).await?;
        keys.extend(page.keys);
        cursor = page.next;
        if cursor.is_none() {
            return Ok(keys);
        }
    }
}

fn row(key: &Key) -> [String; 6] {
    let roles = key.roles.iter().map(|role| role.to_string()).collect::<Vec<_>>().join(", ");
    let (id, person) = (key.id.to_string(), key.person.to_string());
    [id, person, roles, status(key), key.created_by.clone(), key.note.clone()]
}

fn status(key: &Key) -> String {
    let ended = |at: &str| time::parse(at).is_some_and(|at| at <= ApiSession::now());
    match (&key.revoked_at, &key.expires_at) {
        (Some(at), _) => {
            let by = key.revoked_by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
            format!("revoked at {at}{by}")
        }
        (None, Some(at)) if ended(at) => format!("expired at {at}"),
        (None, Some(at)) => format!("valid until {at}"),
        (None, None) => "valid".to_owned(),
    }
}
