//! `countersign bundle replace-key`.

use std::path::PathBuf;

use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::keys::{ReplacedKey, add_replacement, replace_key};
use crate::process::ExitStatus;

const EXAMPLES: &str = "\
Examples:
  countersign bundle replace-key
  countersign bundle replace-key --private-key evidence.key --new-private-key new.key --public-key evidence.pub

Without options, the store gets a new key. Restart its workers and servers afterwards. The old
private key is kept in a file of its own: delete it when every run has its evidence.

With options, only the file of public keys is changed. Use them for a deployment on AWS, and then
put the new private key into the secret of the workers.

The old key signs the new one. Give the file of public keys to your auditors again: a reader who
trusts an older copy can check it. Evidence that the old key signed still verifies. If the old key
was stolen, do not replace it with this command: give out a new key that the old one has not signed.";

/// Replace the key that signs evidence
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The current private key
    #[arg(long = "private-key", value_name = "FILE", requires_all = ["new_private", "public"])]
    private: Option<PathBuf>,
    /// The new private key
    #[arg(long = "new-private-key", value_name = "FILE", requires = "private")]
    new_private: Option<PathBuf>,
    /// The public keys, to which the new one is added
    #[arg(long = "public-key", value_name = "FILE", requires = "private")]
    public: Option<PathBuf>,
}

pub(super) fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let files = (&args.private, &args.new_private, &args.public);
    let (replaced, next) = if let (Some(private), Some(new), Some(public)) = files {
        let next = "give the workers the new private key, and your auditors the public keys";
        (add_replacement(private, new, public)?, next)
    } else if context.targets_file()? {
        let next = "restart the workers and servers, and give your auditors the public keys";
        (replace_key(&context.store)?, next)
    } else {
        let why = "this command changes key files; use --private-key, --new-private-key and --public-key";
        return Err(CliError::Usage(why.to_owned()));
    };
    let ReplacedKey { old, new, public_path, old_path } = replaced;
    let text = format!(
        "replaced key {} with {}\n  public keys      {}\n  old private key  {}\n  next: {next}\n",
        old.id().short(),
        new.id().short(),
        public_path.display(),
        old_path.display(),
    );
    let json =
        json!({ "old": old.id(), "new": new.id(), "public_keys": public_path, "old_private_key": old_path });
    context.print(&text, &json)?;
    Ok(ExitStatus::Success)
}
