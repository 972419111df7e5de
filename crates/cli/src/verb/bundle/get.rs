//! `countersign bundle get`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::ToolRegistry;
use domain::{RunKey, WorkerId};
use engine::{ConnectionParts, Engine, EngineError, EngineParts, Timing};
use evidence::TrustedKeys;
use serde_json::json;
use store::{SqliteStore, SystemClock};

use crate::context::{Context, IfMissing, command_engine, default_tools};
use crate::error::CliError;
use crate::new_file::{require_new, with_ending, write_new};
use crate::process::ExitStatus;
use crate::run_name::RunName;
use crate::{keys, random};
use views::hint::quoted;

use super::download;
use super::read::require_run;

const EXAMPLES: &str = "\
Examples:
  countersign bundle get RUN                        writes RUN.bundle and RUN.bundle.pub
  countersign bundle get RUN --out evidence/inc-7.bundle
  countersign bundle verify RUN.bundle              works on any machine

The signed bundle contains the events, approvals, effects and costs of the run; inputs and outputs
only as hashes. The public key is written next to the bundle. No file is overwritten. From a
server, only the bundle is downloaded: get the public key of the signer from another source.";

/// Download the evidence of a finished run
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The finished run
    run: RunName,
    /// The output file [default: RUN.bundle]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    if !context.targets_file()? {
        return download::run(&args.run, args.out.clone(), context).await;
    }
    let run = context.run(&args.run);
    let out = args.out.clone().unwrap_or_else(|| format!("{}.bundle", run.run).into());
    let out_key = with_ending(&out, ".pub");
    require_new(&out)?;
    require_new(&out_key)?;
    let bytes = read_or_build_evidence(&run, context).await?;
    let keys = signer_keys(&context.store)?;
    // Write only evidence that verifies.
    let verified = evidence::verify(&bytes, keys.signer_of(&bytes)).map_err(|fault| {
        CliError::Refused(format!(
            "the evidence of run {run} is not written, because it does not verify: {fault}"
        ))
    })?;
    require_run(&run, &bytes)?;
    write_new(&out_key, keys.to_text().as_bytes())?;
    write_new(&out, &bytes)?;
    let text = format!(
        "{}\n  {}\n  verify it with: countersign bundle verify {}\n",
        out.display(),
        verified.summary(),
        quoted(&out.to_string_lossy()),
    );
    let json = json!({
        "run": run.run,
        "tenant": run.tenant,
        "file": out,
        "key_file": out_key,
        "key": keys.signer_of(&bytes).id(),
        "bytes": bytes.len(),
        "summary": verified.summary(),
    });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}

/// The recorded evidence. If no worker has built it yet, it is built now; the bytes are the same.
async fn read_or_build_evidence(run: &RunKey, context: &Context) -> Result<Vec<u8>, CliError> {
    match command_engine(context.file_store(IfMissing::Fail)?, default_tools())?
        .operations()
        .evidence(run)
        .await
    {
        Ok((_, bytes)) => Ok(bytes),
        // Evidence must be signed with the workers' key, never with a new one.
        Err(EngineError::NoEvidence { .. }) if has_key(&context.store) => {
            let engine = signing_engine(context)?;
            engine.operations().build_evidence(run).await?;
            Ok(engine.operations().evidence(run).await?.1)
        }
        Err(error) => Err(error.into()),
    }
}

/// The public keys of the workers of this store.
fn signer_keys(store: &Path) -> Result<TrustedKeys, CliError> {
    let path = keys::public_key_path(store);
    if !path.exists() && has_key(store) {
        // Derive the public key from the private key and write it again.
        keys::evidence_signer(store)?;
    }
    if !path.exists() {
        return Err(CliError::Refused(format!(
            "the public key {} does not exist; copy the public key of the workers that executed the run there",
            path.display()
        )));
    }
    keys::read_trusted_keys(&path)
}

fn has_key(store: &Path) -> bool {
    keys::private_key_path(store).is_file()
}

fn signing_engine(context: &Context) -> Result<Engine<SqliteStore>, CliError> {
    Ok(Engine::new(EngineParts {
        store: Arc::new(context.file_store(IfMissing::Create)?),
        tools: ToolRegistry::default(),
        connections: ConnectionParts::default(),
        clock: Arc::new(SystemClock),
        me: WorkerId::new(&format!("cli-{}", random::hex::<8>()?))?,
        timing: Timing::default(),
        notifier: None,
        evidence_signer: Some(keys::evidence_signer(&context.store)?),
    }))
}
