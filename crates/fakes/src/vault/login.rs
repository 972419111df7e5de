//! The auth methods: who may log in, and with what.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Answer, AwsIdentity, TokenRole, refuse};
use crate::sigv4::Signed;

/// By namespace and the id or name of the role.
type Roles<T> = BTreeMap<(String, String), (T, TokenRole)>;

#[derive(Debug, Default)]
pub(super) struct Logins {
    approles: Roles<String>,
    aws: Roles<AwsIdentity>,
    kubernetes: Roles<String>,
}

impl Logins {
    pub(super) fn add_approle(&mut self, namespace: &str, role_id: &str, secret_id: &str, role: TokenRole) {
        self.approles.insert((namespace.to_owned(), role_id.to_owned()), (secret_id.to_owned(), role));
    }

    pub(super) fn add_aws_role(
        &mut self,
        namespace: &str,
        name: &str,
        identity: AwsIdentity,
        role: TokenRole,
    ) {
        self.aws.insert((namespace.to_owned(), name.to_owned()), (identity, role));
    }

    pub(super) fn add_kubernetes_role(&mut self, namespace: &str, name: &str, jwt: &str, role: TokenRole) {
        self.kubernetes.insert((namespace.to_owned(), name.to_owned()), (jwt.to_owned(), role));
    }

    /// The role of a login, or the response to it.
    pub(super) fn role(&self, namespace: &str, method: &str, body: &Value) -> Result<TokenRole, Answer> {
        let text = |name: &str| body[name].as_str().unwrap_or_default().to_owned();
        let key = |name: &str| (namespace.to_owned(), text(name));
        match method {
            "approle" => match self.approles.get(&key("role_id")) {
                Some((secret_id, role)) if *secret_id == text("secret_id") => Ok(role.clone()),
                _ => Err(refuse(400, "invalid role or secret ID")),
            },
            "kubernetes" => match self.kubernetes.get(&key("role")) {
                Some((jwt, role)) if *jwt == text("jwt") => Ok(role.clone()),
                Some(_) => Err(refuse(403, "permission denied")),
                None => Err(refuse(400, "invalid role name")),
            },
            "aws" => match self.aws.get(&key("role")) {
                Some((identity, role)) if proves(identity, body).is_some() => Ok(role.clone()),
                Some(_) => {
                    Err(refuse(400, "error making upstream request: received error code 403 from STS"))
                }
                None => Err(refuse(400, "entry for role not found")),
            },
            _ => Err(refuse(403, "permission denied")),
        }
    }
}

/// Checks the signed request as Vault and STS do together.
fn proves(identity: &AwsIdentity, body: &Value) -> Option<()> {
    let decode = |name: &str| STANDARD.decode(body[name].as_str()?).ok();
    let url: url::Url = String::from_utf8(decode("iam_request_url")?).ok()?.parse().ok()?;
    let request = decode("iam_request_body")?;
    let is_identity_request = body["iam_http_request_method"] == "POST"
        && url.path() == "/"
        && url.scheme() == "https"
        && request == b"Action=GetCallerIdentity&Version=2011-06-15";
    let headers: BTreeMap<String, String> = serde_json::from_slice(&decode("iam_request_headers")?).ok()?;
    let headers = headers.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect();
    let signed = Signed { headers: &headers, host: url.host_str()?, body: &request };
    let secret_of = |id: &str| (id == identity.access_key_id).then(|| identity.secret_access_key.clone());
    let (_, names) = signed.verify(secret_of)?;
    let names_server = identity.server_id.as_ref().is_none_or(|id| {
        let header = "x-vault-aws-iam-server-id";
        headers.get(header) == Some(id) && names.iter().any(|name| name == header)
    });
    (is_identity_request && names_server).then_some(())
}
