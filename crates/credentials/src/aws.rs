//! AWS Secrets Manager (`aws-sm://NAME#FIELD`) and SSM Parameter Store (`aws-ssm://NAME`).
//!
//! Each fetch is one signed POST. The signer is the one that Vault's AWS login needs, so this crate uses no SDK.

use std::sync::Arc;

use async_trait::async_trait;
use domain::connection::SecretStore;
use domain::{SecretRef, TenantId, Timestamp};
use http_client::sigv4::{AwsKeys, SigningScope, UnsignedRequest, sign};
use reqwest::{Client, StatusCode};
use serde::Deserialize;
use serde_json::{Value, json};
use url::Url;

use crate::exchange::{Problem, Reply, SecretText, exchange, select};
use crate::{FetchedSecret, Now, SecretError, SecretSource};

/// The section `aws_secrets` of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AwsSecretsConfig {
    /// The region of the secrets and parameters, such as `eu-central-1`.
    pub region: String,
    /// The address of both services, for a VPC endpoint or a local AWS; the public ones of the region, if absent.
    #[serde(default)]
    pub endpoint: Option<Url>,
}

/// Finds the AWS credentials of this process: from its task, instance or environment. An implementation caches them until
/// they expire.
#[async_trait]
pub trait AwsKeySource: Send + Sync {
    /// The credentials, or why there are none. The reason contains no part of a credential.
    async fn keys(&self) -> Result<AwsKeys, String>;
}

#[async_trait]
impl AwsKeySource for AwsKeys {
    async fn keys(&self) -> Result<AwsKeys, String> {
        Ok(self.clone())
    }
}

/// For processes that do not run on AWS.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoAwsKeys;

#[async_trait]
impl AwsKeySource for NoAwsKeys {
    async fn keys(&self) -> Result<AwsKeys, String> {
        Err("this program is built without the AWS credential chain".to_owned())
    }
}

/// The credential chain of the AWS SDK.
#[cfg(feature = "aws")]
#[derive(Debug, Clone)]
pub struct SdkKeys(pub aws_credential_types::provider::SharedCredentialsProvider);

#[cfg(feature = "aws")]
#[async_trait]
impl AwsKeySource for SdkKeys {
    async fn keys(&self) -> Result<AwsKeys, String> {
        use aws_credential_types::provider::ProvideCredentials as _;
        // The text of the SDK may contain a response of the credential endpoint.
        let found = self.0.provide_credentials().await.map_err(|_| "none found in the credential chain")?;
        Ok(AwsKeys {
            access_key_id: found.access_key_id().to_owned(),
            secret_access_key: found.secret_access_key().into(),
            session_token: found.session_token().map(Into::into),
        })
    }
}

/// The credentials of `source`, which can be absent only until its endpoint answers again.
pub(crate) async fn keys(source: &dyn AwsKeySource) -> Result<AwsKeys, Problem> {
    let absent = |why| Problem::unavailable(format!("this process has no AWS credentials: {why}"));
    source.keys().await.map_err(absent)
}

/// The sources `aws-sm://` and `aws-ssm://`.
pub struct AwsSecrets {
    client: Client,
    config: AwsSecretsConfig,
    keys: Arc<dyn AwsKeySource>,
    now: Now,
}

impl AwsSecrets {
    /// Refuses a region or an endpoint to which credentials must not be sent. The text names the setting.
    pub fn new(config: AwsSecretsConfig, keys: Arc<dyn AwsKeySource>, now: Now) -> Result<Self, String> {
        let is_region = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if config.region.is_empty() || !config.region.chars().all(is_region) {
            return Err("aws_secrets.region must be the name of a region, such as eu-central-1".to_owned());
        }
        if config.endpoint.as_ref().is_some_and(|url| !http_client::is_safe(url)) {
            return Err("aws_secrets.endpoint must use https, except on this machine".to_owned());
        }
        let client = http_client::client().build();
        let client = client.map_err(|_| "aws_secrets: the HTTP client cannot be built".to_owned())?;
        Ok(Self { client, config, keys, now })
    }

    async fn call(&self, service: Service, body: &Value) -> Result<Reply, Problem> {
        let keys = keys(&*self.keys).await?;
        let url = self.config.endpoint.clone().map_or_else(|| service.url(&self.config.region), Ok)?;
        let body = body.to_string();
        let headers = [("content-type", "application/x-amz-json-1.1"), ("x-amz-target", service.target())];
        let time = signing_time((self.now)());
        let scope = SigningScope { region: &self.config.region, service: service.name(), time: &time };
        let request = UnsignedRequest { method: "POST", url: &url, headers: &headers, body: body.as_bytes() };
        let signed = sign(scope, &keys, request);
        let mut request = self.client.post(url).body(body);
        for (name, value) in signed {
            request = request.header(name, value);
        }
        exchange(service.title(), request).await
    }

    async fn fetch_secret(&self, secret: &SecretRef) -> Result<FetchedSecret, Problem> {
        let (name, stage) = name_and_stage(secret.path());
        let mut body = json!({ "SecretId": name });
        if let Some(stage) = stage {
            body["VersionStage"] = stage.into();
        }
        let found: SecretReply = parse(&self.call(Service::SecretsManager, &body).await?)?;
        let text = found.text.ok_or_else(|| Problem::refused("it is binary; store a text"))?;
        Ok(FetchedSecret::new(secret, select(secret, text.0)?, Some(found.version)))
    }

    async fn fetch_parameter(&self, secret: &SecretRef) -> Result<FetchedSecret, Problem> {
        let body = json!({ "Name": parameter_name(secret.path()), "WithDecryption": true });
        let found: ParameterReply = parse(&self.call(Service::Ssm, &body).await?)?;
        let ParameterFound { value, version } = found.parameter;
        Ok(FetchedSecret::new(secret, select(secret, value.0)?, Some(version.to_string())))
    }
}

#[async_trait]
impl SecretSource for AwsSecrets {
    fn check(&self, _: &TenantId, secret: &SecretRef) -> Result<(), SecretError> {
        match secret.store() {
            SecretStore::AwsSm | SecretStore::AwsSsm => Ok(()),
            SecretStore::Vault | SecretStore::Env | SecretStore::File => {
                Err(SecretError::refused(secret, "it is not a secret of AWS"))
            }
        }
    }

    async fn fetch(&self, tenant: &TenantId, secret: &SecretRef) -> Result<FetchedSecret, SecretError> {
        self.check(tenant, secret)?;
        let fetched = if secret.store() == SecretStore::AwsSm {
            self.fetch_secret(secret).await
        } else {
            self.fetch_parameter(secret).await
        };
        fetched.map_err(|problem| problem.of(secret))
    }
}

#[derive(Debug, Clone, Copy)]
enum Service {
    SecretsManager,
    Ssm,
}

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager",
            Self::Ssm => "ssm",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::SecretsManager => "AWS Secrets Manager",
            Self::Ssm => "SSM Parameter Store",
        }
    }

    fn target(self) -> &'static str {
        match self {
            Self::SecretsManager => "secretsmanager.GetSecretValue",
            Self::Ssm => "AmazonSSM.GetParameter",
        }
    }

    fn url(self, region: &str) -> Result<Url, Problem> {
        let suffix = if region.starts_with("cn-") { ".cn" } else { "" };
        let url = format!("https://{}.{region}.amazonaws.com{suffix}/", self.name());
        url.parse().map_err(|_| Problem::refused("aws_secrets.region is invalid"))
    }
}

/// `20150830T123600Z`.
pub(crate) fn signing_time(at: Timestamp) -> String {
    at.to_string().replace(['-', ':'], "")
}

/// `NAME:STAGE`. The name of a secret contains no colon, and an ARN contains six.
fn name_and_stage(path: &str) -> (&str, Option<&str>) {
    let in_name = if path.starts_with("arn:") { 6 } else { 0 };
    match path.match_indices(':').nth(in_name) {
        Some((at, _)) => (&path[..at], Some(&path[at + 1..])),
        None => (path, None),
    }
}

/// A parameter in a hierarchy has a name that starts with a slash, which a reference cannot contain. `NAME:VERSION` and
/// `NAME:LABEL` are selectors of Parameter Store itself.
fn parameter_name(path: &str) -> String {
    if path.contains('/') && !path.starts_with("arn:") { format!("/{path}") } else { path.to_owned() }
}

#[derive(Deserialize)]
struct SecretReply {
    #[serde(rename = "VersionId")]
    version: String,
    #[serde(rename = "SecretString")]
    text: Option<SecretText>,
}

#[derive(Deserialize)]
struct ParameterReply {
    #[serde(rename = "Parameter")]
    parameter: ParameterFound,
}

#[derive(Deserialize)]
struct ParameterFound {
    #[serde(rename = "Value")]
    value: SecretText,
    #[serde(rename = "Version")]
    version: u64,
}

fn parse<'a, T: Deserialize<'a>>(reply: &'a Reply) -> Result<T, Problem> {
    if reply.status != StatusCode::OK {
        return Err(problem(reply));
    }
    serde_json::from_slice(&reply.body).map_err(|_| Problem::refused("the response of AWS cannot be parsed"))
}

/// Codes that are worth another attempt.
const RETRYABLE: [&str; 8] = [
    "ThrottlingException",
    "Throttling",
    "TooManyRequestsException",
    "RequestLimitExceeded",
    "InternalServiceError",
    "InternalServerError",
    "ExpiredTokenException",
    "RequestExpired",
];

/// Codes with the cause and the fix.
const REFUSALS: [(&str, &str); 9] = [
    ("ResourceNotFoundException", "there is no such secret or version stage"),
    ("ParameterNotFound", "there is no such parameter"),
    ("ParameterVersionNotFound", "there is no such version or label"),
    ("AccessDeniedException", "access denied; allow it in the IAM policy of this process"),
    ("DecryptionFailure", "AWS KMS cannot decrypt it; allow kms:Decrypt for its key"),
    ("InvalidKeyId", "AWS KMS cannot decrypt it; allow kms:Decrypt for its key"),
    ("InvalidRequestException", "its state does not allow reading; it may be scheduled for deletion"),
    ("UnrecognizedClientException", "AWS does not know the credentials of this process"),
    ("InvalidSignatureException", "AWS refuses the signature; check the clock of this machine"),
];

/// Only codes that this file knows become part of an error, never text of the response.
fn problem(reply: &Reply) -> Problem {
    let status = reply.status;
    let body: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    let kind = body["__type"].as_str().unwrap_or_default();
    let code = kind.rsplit('#').next().unwrap_or_default();
    if let Some(known) = RETRYABLE.iter().find(|known| **known == code) {
        return Problem::Unavailable { why: format!("AWS: {known}"), retry_after: reply.retry_after };
    }
    if let Some((known, why)) = REFUSALS.iter().find(|(known, _)| *known == code) {
        return Problem::refused(format!("{why} (AWS: {known})"));
    }
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        let why = format!("AWS answered with status {}", status.as_u16());
        return Problem::Unavailable { why, retry_after: reply.retry_after };
    }
    Problem::refused(format!("AWS answered with status {}", status.as_u16()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_stage_follows_the_last_colon() {
        let arn = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:acme/sn-AbCdEf";
        for (path, expected) in [
            ("acme/sn", ("acme/sn", None)),
            ("acme/sn:AWSPREVIOUS", ("acme/sn", Some("AWSPREVIOUS"))),
            (arn, (arn, None)),
            (&format!("{arn}:AWSPENDING"), (arn, Some("AWSPENDING"))),
        ] {
            assert_eq!(name_and_stage(path), expected);
        }
    }

    #[test]
    fn parameter_in_a_hierarchy_starts_with_a_slash() {
        assert_eq!(parameter_name("token:3"), "token:3");
        assert_eq!(parameter_name("acme/token"), "/acme/token");
        let arn = "arn:aws:ssm:eu-central-1:123456789012:parameter/acme/token";
        assert_eq!(parameter_name(arn), arn);
    }

    #[test]
    fn endpoints_follow_the_region() {
        let url = |service: Service, region| service.url(region).unwrap().to_string();
        assert_eq!(url(Service::Ssm, "eu-central-1"), "https://ssm.eu-central-1.amazonaws.com/");
        let china = "https://secretsmanager.cn-north-1.amazonaws.com.cn/";
        assert_eq!(url(Service::SecretsManager, "cn-north-1"), china);
    }

    #[test]
    fn credentials_are_sent_only_to_a_safe_endpoint() {
        let new = |region: &str, endpoint: Option<&str>| {
            let endpoint = endpoint.map(|url| url.parse().unwrap());
            let config = AwsSecretsConfig { region: region.to_owned(), endpoint };
            AwsSecrets::new(config, Arc::new(NoAwsKeys), Arc::new(|| Timestamp(0))).err()
        };
        assert_eq!(new("eu-central-1", Some("http://127.0.0.1:1")), None);
        assert!(new("eu-central-1", Some("http://aws.example")).unwrap().contains("aws_secrets.endpoint"));
        assert!(new("evil.example/", None).unwrap().contains("aws_secrets.region"));
    }
}
