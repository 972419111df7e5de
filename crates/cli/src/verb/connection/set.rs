//! `countersign connection set`.

use std::path::{Path, PathBuf};

use api_types::SetConnection;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use domain::connection::{ConnectionOptions, CredentialSpec, InvalidSecretRef, ModelApi};
use domain::plan::Environment;
use domain::{ConnectionKind, ConnectionName, SecretRef, WorkspaceId};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::input::{JsonSource, read_file};
use crate::process::ExitStatus;

use super::show::text;

const EXAMPLES: &str = "\
Examples:
  countersign connection set servicenow-prod --kind servicenow --base-url https://acme.service-now.com \\
      --environment prod --basic svc-countersign=vault://kv/acme/servicenow#password
  countersign connection set deploy --kind http --base-url https://deploy.acme.example/v1 \\
      --header x-api-key=aws-sm://acme/deploy --environment staging
  countersign connection set github --kind github --base-url https://api.github.com \\
      --bearer vault://kv/acme/github#token
  countersign connection set orders --kind http --base-url https://orders.acme.example --ca acme-ca.pem \
      --credential '{ \"type\": \"oauth2\", \"token_url\": \"https://id.acme.example/token\",
                      \"client_id\": \"countersign\", \"client_secret\": \"vault://kv/acme/orders#secret\" }'
  countersign connection set slack --kind slack --base-url https://slack.com/api \\
      --bearer vault://kv/acme/slack#token \\
      --options '{ \"channel\": \"C0APPROVALS\", \"signing_secret\": \"vault://kv/acme/slack#signing\" }'

A credential is named by a reference; never write the secret itself. The operator of the
installation decides which references a tenant may name. The environment of every action is that
of its connection; a workflow can only be stricter. The command replaces a connection of the same
name as a whole.";

/// The other forms of a credential.
const FORMS: &str = r#"{ "type": "oauth2", "token_url": URL, "client_id": ID, "client_secret": REF, "scopes": [] }, { "type": "aws_sigv4", "keys": REF, "region": REGION, "service": SERVICE }, { "type": "client_certificate", "certificate": PEM, "private_key": REF }"#;

/// The options of a Slack connection.
const OPTIONS: &str = r#"{ "channel": ID, "routes": [{ "tier": TIER, "group": GROUP, "workflow": WORKFLOW, "environment": ENVIRONMENT, "channel": ID }], "team": ID, "signing_secret": REF, "previous_signing_secret": { "secret": REF, "until": "2027-02-01T00:00:00Z" } }"#;

/// Larger than the limit of a connection, which the server checks.
const PEM_FILE_BYTES_MAX: usize = 64 * 1024;

/// Add or replace a connection to an external system
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The name that steps use in `connection:`
    name: ConnectionName,
    /// The kind of system
    #[arg(long, value_name = "KIND", value_parser = kinds())]
    kind: ConnectionKind,
    /// Scheme, host, port and path
    #[arg(long, value_name = "URL")]
    base_url: String,
    /// The environment of every action on the connection
    #[arg(long, value_name = "ENVIRONMENT", default_value = "prod", value_parser = environments())]
    environment: Environment,
    /// Authenticate with HTTP Basic
    #[arg(long, value_name = "USER=REF", group = "authentication")]
    basic: Option<String>,
    /// Authenticate with a bearer token
    #[arg(long, value_name = "REF", group = "authentication")]
    bearer: Option<String>,
    /// Authenticate with a header
    #[arg(long, value_name = "NAME=REF", group = "authentication")]
    header: Option<String>,
    /// Authenticate in another way: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", group = "authentication")]
    credential: Option<JsonSource>,
    /// A file with certificates in PEM that are trusted in place of those of the operating system
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Only for runs of this workspace [default: all workspaces]
    #[arg(long, value_name = "WORKSPACE")]
    workspace: Option<WorkspaceId>,
    /// For kind `model`: the protocol, `bedrock` or `completions`
    #[arg(long, value_name = "API", value_parser = ["bedrock", "completions"])]
    model_api: Option<String>,
    /// Further options of the kind: JSON, @FILE, or - for standard input. For `slack`: `channel`, `routes`, `team`,
    /// `signing_secret`, `previous_signing_secret`
    #[arg(long, value_name = "JSON")]
    options: Option<JsonSource>,
    /// The configuration of the workers, which says what the tenant may name. Not available with a server
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Refuse the change if the connection does not have this version
    #[arg(long, value_name = "VERSION")]
    if_version: Option<u32>,
}

fn kinds() -> impl TypedValueParser<Value = ConnectionKind> {
    let names = ["servicenow", "github", "slack", "model", "http", "pagerduty"];
    PossibleValuesParser::new(names).try_map(|text| text.parse::<ConnectionKind>())
}

fn environments() -> impl TypedValueParser<Value = Environment> {
    PossibleValuesParser::new(["dev", "staging", "prod"]).try_map(|text| text.parse::<Environment>())
}

pub(super) async fn run(args: &Args, context: &Context) -> Result<ExitStatus, CliError> {
    let request = SetConnection {
        name: args.name.clone(),
        kind: args.kind,
        base_url: args.base_url.clone(),
        environment: args.environment,
        credential: credential(args)?,
        workspace: args.workspace.clone(),
        options: options(args)?,
        version: args.if_version,
    };
    let set = context.connect_or_create_with(args.config.as_deref())?.client.set_connection(&request).await?;
    context.print(&text(&set), &json!({ "connection": set }))?;
    Ok(ExitStatus::Success)
}

fn options(args: &Args) -> Result<ConnectionOptions, CliError> {
    let mut options = ConnectionOptions::default();
    if let Some(json) = &args.options {
        // The error itself could repeat a secret in the wrong place.
        let invalid = |_| CliError::Usage(format!("--options: expected {OPTIONS}"));
        options = serde_json::from_value(json.read("--options")?).map_err(invalid)?;
    }
    if let Some(api) = args.model_api.as_deref() {
        options.model_api = Some(if api == "bedrock" { ModelApi::Bedrock } else { ModelApi::Completions });
    }
    if let Some(path) = args.ca.as_deref() {
        options.ca = Some(read_pem(path)?);
    }
    Ok(options)
}

fn credential(args: &Args) -> Result<Option<CredentialSpec>, CliError> {
    if let Some(text) = &args.basic {
        let (user, password) = pair("--basic", "USER=REF", text)?;
        return Ok(Some(CredentialSpec::Basic { user, password }));
    }
    if let Some(text) = &args.header {
        let (name, value) = pair("--header", "NAME=REF", text)?;
        return Ok(Some(CredentialSpec::Header { name, value }));
    }
    if let Some(json) = &args.credential {
        let invalid = |_| CliError::Usage(format!("--credential: expected one of {FORMS}"));
        return serde_json::from_value(json.read("--credential")?).map(Some).map_err(invalid);
    }
    let token = args.bearer.as_deref().map(|text| secret("--bearer", text)).transpose()?;
    Ok(token.map(|token| CredentialSpec::Bearer { token }))
}

fn read_pem(path: &Path) -> Result<String, CliError> {
    let bytes = read_file(path, &path.display().to_string(), PEM_FILE_BYTES_MAX)?;
    String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })
}

/// The errors do not repeat the text, which may be a secret in the wrong place.
fn pair(option: &str, expected: &str, text: &str) -> Result<(String, SecretRef), CliError> {
    let expected = || CliError::Usage(format!("{option}: expected {expected}"));
    let (name, reference) = text.split_once('=').ok_or_else(expected)?;
    Ok((name.to_owned(), secret(option, reference)?))
}

fn secret(option: &str, text: &str) -> Result<SecretRef, CliError> {
    text.parse().map_err(|error: InvalidSecretRef| CliError::Usage(format!("{option}: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn misplaced_secret_is_not_repeated() {
        for text in ["svc:hunter2", "svc=hunter2", "=hunter2"] {
            let error = pair("--basic", "USER=REF", text).unwrap_err().to_string();
            assert!(error.contains("--basic") && !error.contains("hunter2"), "{error}");
        }
        let (user, secret) = pair("--basic", "USER=REF", "svc=vault://kv/a#b").unwrap();
        assert_eq!((user.as_str(), secret.as_str()), ("svc", "vault://kv/a#b"));
    }
}
