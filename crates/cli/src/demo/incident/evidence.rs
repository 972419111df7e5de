//! Evidence: one file that anybody can verify, and that no longer verifies when a byte of it is changed.

use ::evidence::{Verified, verify};
use domain::RunKey;
use engine::EngineError;
use tokio::time::{Duration, Instant, sleep};

use crate::demo::narrator::Narrator;
use crate::demo::stage::{Stage, WorkerProcess};
use crate::demo::verdict::{Check, check};
use crate::error::CliError;
use crate::keys;
use views::hint::quoted;

/// A bundle follows the end of its run at once.
const PATIENCE: Duration = Duration::from_secs(30);

const LOOK_EVERY: Duration = Duration::from_millis(50);

/// What is left in the directory for whoever wants to verify it.
const BUNDLE: &str = "bundle";
const PUBLIC_KEY: &str = "bundle.pub";

pub(super) async fn verify_and_alter(
    stage: &Stage,
    narrator: &mut Narrator,
    run: &RunKey,
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    let bytes = bundle_of(stage, run, worker).await?;
    let key = keys::public(&keys::public_path(&stage.context.store))?;
    let path = stage.write(BUNDLE, &bytes)?;
    stage.write(PUBLIC_KEY, key.to_text())?;
    narrator.scene("The evidence").await?;
    narrator.say(&format!(
        "When the run was over, worker B put all that there is to prove about it into one signed file of {} bytes: \
         the chain of events, the verdict, the approval, the receipt, the cost. Whoever verifies it needs that file \
         and a public key: no network, no store, nobody's word.",
        bytes.len()
    ))?;
    narrator.show(&format!("countersign bundle verify {}", quoted(&path.to_string_lossy())))?;
    let verified = verify(&bytes, &key);
    narrator.quote(&told(&verified))?;
    let (altered, at) = altered(&bytes);
    let refused = verify(&altered, &key);
    narrator.say(&format!("And with a single byte changed, number {at}:"))?;
    narrator.quote(&told(&refused))?;
    Ok(vec![
        check("the evidence verifies", &verified.is_ok(), &true),
        check("the evidence with one byte changed does not", &refused.is_err(), &true),
    ])
}

/// The evidence of `run`, as soon as a worker has put it together.
pub(super) async fn bundle_of(
    stage: &Stage,
    run: &RunKey,
    worker: &WorkerProcess,
) -> Result<Vec<u8>, CliError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match stage.engine.evidence(run).await {
            Ok((_, bytes)) => return Ok(bytes),
            Err(EngineError::NoEvidence { .. }) if Instant::now() < until => sleep(LOOK_EVERY).await,
            Err(EngineError::NoEvidence { .. }) => return Err(worker.stuck("put no evidence together")),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether it verifies, in one line.
pub(super) fn told(verified: &Result<Verified, ::evidence::Fault>) -> String {
    match verified {
        Ok(verified) => format!("verified: {}", verified.summary()),
        Err(fault) => format!("refused: {fault}"),
    }
}

/// The same bytes but for one in the middle, and its number. One letter becomes another, so that the file looks
/// right and only the signature tells.
fn altered(bytes: &[u8]) -> (Vec<u8>, usize) {
    let middle = bytes.len() / 2;
    let letter = |(_, byte): &(usize, &u8)| byte.is_ascii_lowercase() && **byte != b'z';
    let at = bytes.iter().enumerate().skip(middle).find(letter).map_or(middle, |(at, _)| at);
    let mut altered = bytes.to_vec();
    if let Some(byte) = altered.get_mut(at) {
        *byte = byte.wrapping_add(1);
    }
    (altered, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_byte_is_changed_and_no_more() {
        let (altered, at) = altered(b"AAAAbBBB");
        assert_eq!((altered.as_slice(), at), (&b"AAAAcBBB"[..], 4));
    }
}
