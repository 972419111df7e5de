//! `countersign audit export`.

use std::path::PathBuf;
use std::sync::Arc;

use evidence::{SigningKey, TrustedKeys, sign_audit};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::keys;
use crate::new_file::{require_new, with_ending, write_new};
use crate::process::ExitStatus;
use views::hint::quoted;

use super::log::{AuditLog, Scope, entries};

const EXAMPLES: &str = "\
Examples:
  countersign audit export acme.audit                      writes acme.audit and acme.audit.pub
  countersign audit export fleet.audit --all               changes for all tenants
  countersign audit export acme.audit --profile prod --signing-key evidence.key
  countersign audit verify --file acme.audit               works on any machine

The file has the whole log, with values before and after each change, and the head of the chain. It
is signed with the evidence key, and only if the log verifies. Keep it outside the store: `audit
verify --since FILE` reports a log that was rewritten after the export. A store file has its key next
to it. For a server or AWS, name the private key. No file is overwritten.";

/// Write the audit log as signed evidence
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The output file
    file: PathBuf,
    /// The private evidence key [default: the key of the store file]
    #[arg(long, value_name = "FILE")]
    signing_key: Option<PathBuf>,
    #[command(flatten)]
    scope: Scope,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (out, out_key) = (&args.file, with_ending(&args.file, ".pub"));
    require_new(out)?;
    require_new(&out_key)?;
    let log = AuditLog::open(&args.scope, context)?;
    let (key, public) = signing_key(args, context)?;
    let export = log.read().await?;
    let bytes = sign_audit(&export, &key).map_err(|error| {
        CliError::Refused(format!("the audit log of {} is not exported: {error}", log.name()))
    })?;
    write_new(&out_key, public.to_text().as_bytes())?;
    write_new(out, &bytes)?;
    let text = format!(
        "{}\n  {}: {}, head {}\n  verify it with: countersign audit verify --file {}\n",
        out.display(),
        log.name(),
        entries(export.entries.len()),
        export.head.hash.short(),
        quoted(&out.to_string_lossy()),
    );
    let json = json!({
        "tenant": export.tenant,
        "file": out,
        "key_file": out_key,
        "key": key.public().id(),
        "bytes": bytes.len(),
        "entries": export.entries.len(),
        "head": export.head,
    });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// The private key, and the public keys to write next to the file.
fn signing_key(args: &Args, context: &Context) -> Result<(Arc<SigningKey>, TrustedKeys), CliError> {
    if let Some(path) = &args.signing_key {
        let key = keys::read_private_key(path)?;
        let public = key.public().into();
        return Ok((Arc::new(key), public));
    }
    if !context.targets_file()? {
        let why = "a server does not give out its evidence key; name the private key with --signing-key FILE";
        return Err(CliError::Usage(why.to_owned()));
    }
    Ok((keys::evidence_signer(&context.store)?.key, keys::trusted_keys(&context.store)?))
}
