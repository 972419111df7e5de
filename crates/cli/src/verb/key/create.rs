//! `countersign key create`: a key for somebody.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use api_types::{MakeKey, RoleName};
use clap::ValueEnum;
use domain::PersonId;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::new_file::must_be_new;

const EXAMPLES: &str = "\
Examples:
  countersign key create ci --role operator --note 'starts deployments' --expires-in 90d --out ci.key
  countersign key create ada --role approver
  countersign profile add work --url https://countersign.example --key-file ci.key

The key is shown this once; what is kept is a digest that nobody gets it back from. With --out it goes
to a file that only you can read, and is not shown.";

/// Make a key
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Who acts with it: what is done is done in their name
    person: PersonId,
    /// What they may do with it; may be given more than once
    #[arg(long = "role", value_name = "ROLE", required = true)]
    roles: Vec<RoleChoice>,
    /// What it is for
    #[arg(long, value_name = "TEXT", default_value = "")]
    note: String,
    /// For how long it opens anything, such as 12h or 90d [default: until it is revoked]
    #[arg(long, value_name = "TIME")]
    expires_in: Option<String>,
    /// Write the key to this new file instead of showing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// What somebody may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RoleChoice {
    /// Looks at everything of the tenant
    Viewer,
    /// Starts runs and says how they go on
    Operator,
    /// Answers requests for approval
    Approver,
    /// Does all of that, and settles what counts
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

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    // A key that cannot be put anywhere is not made.
    args.out.as_deref().map_or(Ok(()), must_be_new)?;
    let wish = MakeKey {
        person: args.person.clone(),
        roles: args.roles.iter().copied().map(Into::into).collect(),
        note: args.note.clone(),
        expires_in: args.expires_in.clone(),
    };
    let made = context.link_or_new()?.client.make_key(&wish).await?;
    let (id, person) = (&made.key.id, &made.key.person);
    let mut json = json!({ "key": made.key, "file": args.out });
    let text = if let Some(out) = &args.out {
        write_private(out, &made.text)?;
        format!("key {id} of {person} is in {}\n", out.display())
    } else {
        json["text"] = json!(made.text);
        format!("{}\n  key {id} of {person}; it is shown this once\n", made.text)
    };
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

/// Writes a new file that only its owner reads.
fn write_private(path: &Path, text: &str) -> Result<(), CliError> {
    let written: io::Result<()> =
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).and_then(|mut file| {
            file.write_all(format!("{text}\n").as_bytes()).and_then(|()| file.sync_all())
        });
    written.map_err(|source| CliError::Write { path: path.into(), source })
}
