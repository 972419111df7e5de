//! `countersign audit verify`.

use std::path::{Path, PathBuf};

use domain::audit_chain;
use evidence::{AUDIT_BYTES_MAX, AuditExport, verify_audit};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::CliError;
use crate::process::ExitStatus;
use crate::verb::bundle::read::{Signer, print_refusal, read_signed};

use super::log::{AuditLog, Scope, entries};

const EXAMPLES: &str = "\
Examples:
  countersign audit verify
  countersign audit verify --all
  countersign audit verify --since acme.audit --key acme.pub
  countersign audit verify --file acme.audit --key acme.pub

The command reads the whole log and computes every hash itself, also if a server has the log. It
reports the first entry that is missing, reordered, altered or forked, and a missing end. A user who
can write to the store could compute new hashes for a rewritten log: with --since, the log must also
continue an exported file. With --file, the command needs neither store nor network.

If the key came with the file, the signer is not verified. To know who signed it, use --key or
COUNTERSIGN_EVIDENCE_KEY with a key that you got from the signer. Without either, the exit code is 1
with --strict, with --json, and if the variable CI is set.

Exit codes: 0 verified, 1 refused or signer not verified, 2 the file or the key cannot be read.";

/// Verify the hash chain of the audit log, or an exported one
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Verify an exported file, offline
    #[arg(long, value_name = "FILE", conflicts_with_all = ["all", "since"])]
    file: Option<PathBuf>,
    /// Check that the log continues this exported file
    #[arg(long, value_name = "FILE")]
    since: Option<PathBuf>,
    /// The signer's public keys [default: the file that the environment names, or else FILE.pub]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Fail if no trusted key is given, because the signer is not verified then
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    scope: Scope,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    if let Some(file) = &args.file {
        return verify_file(file, args, context);
    }
    let earlier = match &args.since {
        Some(file) => match open_export(file, args, context)? {
            (Ok(export), signer) => Some((export, signer)),
            (Err(why), signer) => return print_refusal(&why, &signer.key, context),
        },
        None => None,
    };
    let log = AuditLog::open(&args.scope, context)?;
    let current = log.read().await?;
    if let Err(why) = check(&current, earlier.as_ref().map(|(export, _)| export)) {
        let json = json!({ "verified": false, "tenant": current.tenant, "reason": why });
        context.print(&format!("refused: {why}"), &json)?;
        return Ok(ExitStatus::Failure);
    }
    let signer = earlier.map(|(_, signer)| signer);
    let notice = signer.as_ref().and_then(Signer::notice).map(|notice| format!("\n  {notice}"));
    let text = format!("verified: {}{}", summary(&current), notice.unwrap_or_default());
    context.print(&text, &document(&current, signer.as_ref()))?;
    Ok(signer.map_or(ExitStatus::Success, |signer| signer.exit_status(args.strict, context)))
}

/// Why the log is refused.
fn check(current: &AuditExport, earlier: Option<&AuditExport>) -> Result<(), String> {
    audit_chain::verify(current.tenant.as_ref(), &current.entries, &current.head)
        .map_err(|fault| fault.to_string())?;
    let Some(earlier) = earlier else { return Ok(()) };
    current
        .continues(earlier)
        .map_err(|fault| format!("the log does not continue the exported file: {fault}"))
}

fn verify_file(file: &Path, args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let (result, signer) = open_export(file, args, context)?;
    let export = match result {
        Ok(export) => export,
        Err(why) => return print_refusal(&why, &signer.key, context),
    };
    context.print(&signer.heading(&summary(&export)), &document(&export, Some(&signer)))?;
    Ok(signer.exit_status(args.strict, context))
}

/// The exported log, or why it does not verify.
fn open_export(
    file: &Path,
    args: &Args,
    context: &Context,
) -> Result<(Result<AuditExport, String>, Signer), CliError> {
    let (bytes, signer) = read_signed(file, args.key.as_deref(), AUDIT_BYTES_MAX, context)?;
    let export = bytes.and_then(|bytes| verify_audit(&bytes, &signer.key).map_err(|fault| fault.to_string()));
    Ok((export, signer))
}

fn summary(log: &AuditExport) -> String {
    let name =
        log.tenant.as_ref().map_or_else(|| "all tenants".to_owned(), |tenant| format!("tenant {tenant}"));
    format!("audit log of {name}, {}, head {}", entries(log.entries.len()), log.head.hash.short())
}

fn document(log: &AuditExport, signer: Option<&Signer>) -> Value {
    json!({
        "verified": true,
        "signer_verified": signer.map(|signer| signer.is_verified),
        "key": signer.map(|signer| signer.key.id()),
        "tenant": log.tenant,
        "entries": log.entries.len(),
        "head": log.head,
    })
}
