//! `countersign key create`.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use api_types::{CreateKey, RoleName};
use clap::ValueEnum;
use domain::PersonId;
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::new_file::require_new;
use crate::process::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign key create ci --role operator --note deployments --expires-in 30d --out ci.key
  countersign key create ada --role approver
  countersign profile add work --url https://countersign.example --key-file ci.key

The key is shown once; only a digest of it is stored. With --out, the key is written to a file
that only you can read and is not shown.";

/// Create an API key
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The user who acts with the key
    #[arg(value_name = "USER")]
    person: PersonId,
    /// A role of the key; repeatable
    #[arg(long = "role", value_name = "ROLE", required = true)]
    roles: Vec<RoleChoice>,
    /// The purpose of the key
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// The lifetime of the key, such as 12h or 30d, or `never` [default: 90d]
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// Write the key to this file, which must not exist, instead of showing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleChoice {
    /// Reads everything except API keys and the names of secrets
    Viewer,
    /// Starts and controls runs
    Operator,
    /// Decides approvals
    Approver,
    /// All of the above, and manages workflows, policies, users and keys
    Admin,
}

impl From<RoleChoice> for RoleName {
    fn from(choice: RoleChoice) -> Self {
        match choice {
            RoleChoice::Viewer => Self::Viewer,
            RoleChoice::Operator => Self::Operator,
            RoleChoice::Approver => Self::Approver,
            RoleChoice::Admin => Self::Admin,
        }
    }
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    // Do not create a key that cannot be written.
    args.out.as_deref().map_or(Ok(()), require_new)?;
    let request = CreateKey {
        person: args.person.clone(),
        roles: args.roles.iter().copied().map(Into::into).collect(),
        note: args.note.clone(),
        expires_in: args.expires_in.clone(),
    };
    let created = context.connect_or_create()?.client.create_key(&request).await?;
    let (id, person) = (&created.key.id, &created.key.person);
    let mut json = json!({ "key": created.key, "file": args.out });
    let text = if let Some(out) = &args.out {
        write_private(out, &created.secret)?;
        format!("key {id} of {person} is written to {}\n", out.display())
    } else {
        json["secret"] = json!(created.secret);
        format!("{}\n  key {id} of {person}; it is not shown again\n", created.secret)
    };
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// Writes a new file that only its owner can read.
fn write_private(path: &Path, text: &str) -> Result<(), CliError> {
    let written: io::Result<()> =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).and_then(|mut file| {
            file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all())
        });
    written.map_err(|source| CliError::Write { path: path.into(), source })
}
