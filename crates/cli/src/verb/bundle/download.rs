//! Downloads the evidence of a finished run from a server.
//!
//! The public key does not come from the same server: a server could send a bundle with a key of its own.

use std::path::PathBuf;

use api_types::Verification;
use domain::RunKey;
use serde_json::json;

use super::read::require_run;
use crate::api_session::ApiSession;
use crate::context::Context;
use crate::error::CliError;
use crate::new_file::{require_new, write_new};
use crate::process::ExitStatus;
use crate::run_name::RunName;
use views::hint::quoted;

pub(super) async fn run(
    name: &RunName,
    out: Option<PathBuf>,
    context: &Context,
) -> Result<ExitStatus, CliError> {
    let (session, run) = context.connect_to_run(name)?;
    let out = out.unwrap_or_else(|| format!("{}.bundle", run.run).into());
    require_new(&out)?;
    let bytes = session.client.evidence(&run.run).await.map_err(ApiSession::run_error(&run))?;
    require_run(&run, &bytes)?;
    let found = read_verification(&session, &run).await?;
    write_new(&out, &bytes)?;
    let summary = found.as_ref().and_then(|found| found.summary.clone());
    let verification = match &summary {
        Some(summary) => format!("verified by the server: {summary}"),
        None => "not verified by the server".to_owned(),
    };
    let file = quoted(&out.to_string_lossy());
    let text = format!(
        "{}\n  {verification}\n  verify it with: countersign bundle verify {file} --key SIGNER.pub\n",
        out.display()
    );
    let json = json!({
        "run": run.run,
        "tenant": run.tenant,
        "file": out,
        "key_file": null,
        "key": found.map(|found| found.key_id),
        "bytes": bytes.len(),
        "summary": summary,
    });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// The server's verification, if it has a public key. A bundle that the server refuses is not written.
async fn read_verification(session: &ApiSession, run: &RunKey) -> Result<Option<Verification>, CliError> {
    let found = match session.client.verification(&run.run).await {
        Err(error) if error.is("NO_PUBLIC_KEY") => return Ok(None),
        found => found?,
    };
    match &found.error {
        Some(fault) => Err(CliError::Refused(format!(
            "the evidence of run {run} is not written, because the server cannot verify it: {fault}"
        ))),
        None => Ok(Some(found)),
    }
}
