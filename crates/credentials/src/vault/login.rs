//! The request of a login.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::SecretRef;
use http_client::sigv4::{SigningScope, UnsignedRequest, sign};
use reqwest::Method;
use secrecy::ExposeSecret as _;
use secrecy::zeroize::Zeroizing;
use serde_json::json;
use url::Url;

use super::server::Call;
use super::{VaultAuth, VaultContext};
use crate::aws::{keys, signing_time};
use crate::exchange::Problem;
use crate::{LocalSecrets, LockedSecret, SecretError};

/// Vault sends this request to STS to learn whose signature it is.
const IDENTITY_REQUEST: &str = "Action=GetCallerIdentity&Version=2011-06-15";

pub(super) async fn request(auth: &VaultAuth, at: &VaultContext) -> Result<Call, Problem> {
    let (mount, body) = match auth {
        VaultAuth::AppRole { role_id, secret_id, mount } => {
            let secret_id = read(&at.local, secret_id).await?;
            (mount, json!({ "role_id": role_id, "secret_id": secret_id.expose_secret() }))
        }
        VaultAuth::Kubernetes { role, jwt_file, mount } => {
            let unreadable = |_| Problem::refused("vault.auth.kubernetes.jwt_file cannot be read");
            // Kubernetes replaces the file before the token ends.
            let jwt = Zeroizing::new(tokio::fs::read_to_string(jwt_file).await.map_err(unreadable)?);
            (mount, json!({ "role": role, "jwt": jwt.trim() }))
        }
        VaultAuth::AwsIam { role, region, server_id, mount } => {
            (mount, identity(role, region.as_deref(), server_id.as_deref(), at).await?)
        }
    };
    Ok(Call::with_body(Method::POST, format!("auth/{}/login", mount.trim_matches('/')), body))
}

async fn read(local: &LocalSecrets, secret: &SecretRef) -> Result<LockedSecret, Problem> {
    let of_operator = |error| match error {
        SecretError::Refused { why, .. } | SecretError::Unavailable { why, .. } => {
            Problem::refused(format!("the login to Vault needs {secret}, which cannot be read: {why}"))
        }
    };
    local.read(secret).await.map_err(of_operator)
}

async fn identity(
    role: &str,
    region: Option<&str>,
    server_id: Option<&str>,
    at: &VaultContext,
) -> Result<serde_json::Value, Problem> {
    let keys = keys(&*at.aws).await?;
    // The global endpoint accepts only signatures for us-east-1.
    let (host, region) = match region {
        Some(region) => (format!("sts.{region}.amazonaws.com"), region),
        None => ("sts.amazonaws.com".to_owned(), "us-east-1"),
    };
    let mut headers = vec![("content-type", "application/x-www-form-urlencoded; charset=utf-8")];
    // Binds the signature to one Vault server, so that another one cannot use it.
    headers.extend(server_id.map(|id| ("x-vault-aws-iam-server-id", id)));
    let time = signing_time((at.now)());
    let scope = SigningScope { region, service: "sts", time: &time };
    let url = format!("https://{host}/");
    let parsed = Url::parse(&url).map_err(|_| Problem::refused("the region is not part of a host name"))?;
    let body = IDENTITY_REQUEST.as_bytes();
    let signed =
        sign(scope, &keys, UnsignedRequest { method: "POST", url: &parsed, headers: &headers, body });
    Ok(json!({
        "role": role,
        "iam_http_request_method": "POST",
        "iam_request_url": STANDARD.encode(url),
        "iam_request_body": STANDARD.encode(IDENTITY_REQUEST),
        "iam_request_headers": STANDARD.encode(json!(signed).to_string()),
    }))
}
