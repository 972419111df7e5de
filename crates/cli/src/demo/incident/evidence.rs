//! The evidence: one file that verifies offline, and does not verify after one byte is changed.

use ::evidence::{Verified, verify};
use domain::RunKey;
use engine::EngineError;
use tokio::time::{Duration, Instant, sleep};

use crate::demo::env::{DemoEnv, WorkerProcess};
use crate::demo::narrator::Narrator;
use crate::demo::verdict::{Check, check};
use crate::error::CliError;
use crate::keys;
use views::hint::quoted;

/// A worker builds the bundle right after the run ends.
const WAIT_MAX: Duration = Duration::from_secs(30);

const POLL_EVERY: Duration = Duration::from_millis(50);

/// Files in the directory of the demo.
const BUNDLE: &str = "bundle";
const PUBLIC_KEY: &str = "bundle.pub";

pub(super) async fn verify_and_alter(
    env: &DemoEnv,
    narrator: &mut Narrator,
    run: &RunKey,
    worker: &WorkerProcess,
) -> Result<Vec<Check>, CliError> {
    let bytes = wait_for_bundle(env, run, worker).await?;
    let keys = keys::read_trusted_keys(&keys::public_key_path(&env.context.store))?;
    let path = env.write(BUNDLE, &bytes)?;
    env.write(PUBLIC_KEY, keys.to_text())?;
    narrator.section("The evidence verifies").await?;
    narrator.paragraph(&format!(
        "When the run ended, worker B built an evidence bundle: one signed file of {} bytes with the chain of events, \
         the verdict, the approval, the receipt and the cost. Verification needs this file and a public key, and \
         neither network nor store.",
        bytes.len()
    ))?;
    narrator.block(&format!("countersign bundle verify {}", quoted(&path.to_string_lossy())))?;
    let verified = verify(&bytes, keys.current());
    narrator.quote(&result_line(&verified))?;
    let (altered, at) = alter_one_byte(&bytes);
    let refused = verify(&altered, keys.current());
    narrator.paragraph(&format!("The same file with one byte changed (byte {at}):"))?;
    narrator.quote(&result_line(&refused))?;
    Ok(vec![
        check("the evidence verifies", &verified.is_ok(), &true),
        check("the evidence with one changed byte does not verify", &refused.is_err(), &true),
    ])
}

/// Waits for the evidence of `run`.
pub(super) async fn wait_for_bundle(
    env: &DemoEnv,
    run: &RunKey,
    worker: &WorkerProcess,
) -> Result<Vec<u8>, CliError> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        match env.engine.operations().evidence(run).await {
            Ok((_, bytes)) => return Ok(bytes),
            Err(EngineError::NoEvidence { .. }) if Instant::now() < until => sleep(POLL_EVERY).await,
            Err(EngineError::NoEvidence { .. }) => return Err(worker.failed("built no evidence")),
            Err(error) => return Err(error.into()),
        }
    }
}

pub(super) fn result_line(verified: &Result<Verified, ::evidence::VerifyError>) -> String {
    match verified {
        Ok(verified) => format!("verified: {}", verified.summary()),
        Err(fault) => format!("refused: {fault}"),
    }
}

/// Changes one byte in the middle and returns its position. A letter becomes another letter, so that the file stays
/// valid JSON and only the signature fails.
fn alter_one_byte(bytes: &[u8]) -> (Vec<u8>, usize) {
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
    fn exactly_one_byte_is_changed() {
        let (altered, at) = alter_one_byte(b"AAAAbBBB");
        assert_eq!((altered.as_slice(), at), (&b"AAAAcBBB"[..], 4));
    }
}
