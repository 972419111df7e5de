//! `countersign bundle get`: writes the evidence of a finished run to a file.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use connectors::Toolbox;
use domain::{RunKey, WorkerId};
use engine::{Engine, EngineError, Parts, Timing};
use evidence::PublicKey;
use serde_json::json;
use store::{SqliteStore, SystemClock};

use crate::context::Context;
use crate::ending::Ending;
use crate::error::CliError;
use crate::new_file::{must_be_new, with_ending, write_new};
use crate::run_name::RunName;
use crate::{keys, random};
use views::hint::quoted;

use super::download;

const EXAMPLES: &str = "\
Examples:
  countersign bundle get RUN                        writes RUN.bundle and RUN.bundle.pub
  countersign bundle get RUN --out evidence/inc-7.bundle
  countersign bundle verify RUN.bundle              anybody can, anywhere

The bundle holds what happened, who approved it and what came of it, signed; inputs and outputs
are in it as hashes alone. The public key is written beside it. No file is overwritten. From a server
comes the bundle alone: whoever verifies it has the signer's key from elsewhere.";

/// Write the evidence of a finished run to a file
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The finished run
    run: RunName,
    /// Where to [default: the run's name with `.bundle` after it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<Ending, CliError> {
    if !context.is_for_a_file()? {
        return download::run(&args.run, args.out.clone(), context).await;
    }
    let run = context.run(&args.run);
    let out = args.out.clone().unwrap_or_else(|| format!("{}.bundle", run.run).into());
    let out_key = with_ending(&out, ".pub");
    must_be_new(&out)?;
    must_be_new(&out_key)?;
    let bytes = evidence_of(&run, context).await?;
    let key = signer(&context.store)?;
    // What goes out must be what whoever gets it will accept.
    let verified = evidence::verify(&bytes, &key).map_err(|fault| {
        CliError::Refused(format!(
            "the evidence of run {run} is not handed out, because it is refused: {fault}"
        ))
    })?;
    write_new(&out_key, key.to_text().as_bytes())?;
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
        "key": key.id(),
        "bytes": bytes.len(),
        "summary": verified.summary(),
    });
    context.answer(&text, &json)?;
    Ok(Ending::Done)
}

/// The evidence that was recorded. If no worker has come to it yet, it is put together now: the bytes are the
/// same, whoever does it.
async fn evidence_of(run: &RunKey, context: &Context) -> Result<Vec<u8>, CliError> {
    match context.existing_engine()?.evidence(run).await {
        Ok((_, bytes)) => Ok(bytes),
        // A key of our own making would not be the one that others know.
        Err(EngineError::NoEvidence { .. }) if has_key(&context.store) => {
            let engine = sealing_engine(context)?;
            engine.seal(run).await?;
            Ok(engine.evidence(run).await?.1)
        }
        Err(error) => Err(error.into()),
    }
}

/// The public key of the workers on this store.
fn signer(store: &Path) -> Result<PublicKey, CliError> {
    let path = keys::public_path(store);
    if !path.exists() && has_key(store) {
        // The public half follows from the other one, and is written again.
        keys::sealing(store)?;
    }
    if !path.exists() {
        return Err(CliError::Refused(format!(
            "there is no key {}; copy the public key of the workers that sealed the run there",
            path.display()
        )));
    }
    keys::public(&path)
}

fn has_key(store: &Path) -> bool {
    keys::private_path(store).is_file()
}

fn sealing_engine(context: &Context) -> Result<Engine<SqliteStore>, CliError> {
    Ok(Engine::new(Parts {
        store: Arc::new(context.open_store()?),
        tools: Toolbox::default(),
        clock: Arc::new(SystemClock),
        me: WorkerId::new(&format!("cli-{}", random::hex::<8>()?))?,
        timing: Timing::default(),
        shows: None,
        sealing: Some(keys::sealing(&context.store)?),
    }))
}
