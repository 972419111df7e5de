//! The evidence of a finished run, from a server.
//!
//! The key to verify it with does not come from the same server: that would prove only that the two belong together.

use std::path::PathBuf;

use api_types::Verification;
use domain::RunKey;
use serde_json::json;

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::link::Link;
use crate::new_file::{must_be_new, write_new};
use crate::run_name::RunName;
use views::hint::quoted;

pub(super) async fn run(name: &RunName, out: Option<PathBuf>, context: &Context) -> Result<Ending, CliError> {
    let (link, run) = context.link_to(name)?;
    let out = out.unwrap_or_else(|| format!("{}.bundle", run.run).into());
    must_be_new(&out)?;
    let bytes = link.client.evidence(&run.run).await.map_err(Link::about(&run))?;
    let found = verified(&link, &run).await?;
    write_new(&out, &bytes)?;
    let summary = found.as_ref().and_then(|found| found.summary.clone());
    let told = match &summary {
        Some(summary) => format!("the server says: {summary}"),
        None => "the server has not verified it".to_owned(),
    };
    let file = quoted(&out.to_string_lossy());
    let text = format!(
        "{}\n  {told}\n  verify it with: countersign bundle verify {file} --key SIGNER.pub\n",
        out.display()
    );
    let json = json!({
        "run": run.run,
        "tenant": run.tenant,
        "file": out,
        "key_file": null,
        "key": found.map(|found| found.key),
        "bytes": bytes.len(),
        "summary": summary,
    });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

/// What the server found, if it has a key to verify with. What it refuses is not handed on.
async fn verified(link: &Link, run: &RunKey) -> Result<Option<Verification>, CliError> {
    let found = match link.client.verification(&run.run).await {
        Err(error) if error.is("NO_PUBLIC_KEY") => return Ok(None),
        found => found?,
    };
    match &found.fault {
        Some(fault) => Err(CliError::Refused(format!(
            "the evidence of run {run} is not handed out, because the server refuses it: {fault}"
        ))),
        None => Ok(Some(found)),
    }
}
