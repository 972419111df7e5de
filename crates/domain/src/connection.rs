//! Connections: a tenant's named bindings to external systems.
//!
//! A connection has an address, an environment and a credential. The environment of an action is that of its connection,
//! so the author of a workflow cannot call a production system `dev`. A connection contains references to secrets, never
//! a secret.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use strum::{Display, EnumString, IntoStaticStr, VariantNames};

use crate::card_route::CardRoute;
use crate::digest::Digest;
use crate::id::{ConnectionName, WorkspaceId};
use crate::plan::Environment;
use crate::text::checked_text;
use crate::time::{Timestamp, rfc3339};

/// The maximum number of connections of a tenant. They are part of its settings, which every effect reads.
pub const CONNECTIONS_MAX: usize = 100;

/// The maximum length of a base URL, a header name, a user name and similar texts.
const TEXT_BYTES_MAX: usize = 512;

/// The maximum number of routes of a connection. Each card tries them in order.
const ROUTES_MAX: usize = 50;

/// The maximum length of certificates in PEM. Connections are part of the settings of a tenant, which are one record.
const PEM_BYTES_MAX: usize = 16 * 1024;

/// The kind of external system.
#[derive(
    Debug,
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    Display,
    EnumString,
    VariantNames,
    IntoStaticStr,
)]
#[serde(rename_all = "lowercase")]
#[strum(serialize_all = "lowercase")]
pub enum ConnectionKind {
    /// A ServiceNow instance.
    ServiceNow,
    /// GitHub, or a GitHub Enterprise server.
    GitHub,
    /// A Slack workspace.
    Slack,
    /// A language model.
    Model,
    /// Any other HTTP service.
    Http,
    /// A `PagerDuty` service.
    PagerDuty,
}

/// A named binding to one external system.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Connection {
    /// The kind of system.
    pub kind: ConnectionKind,
    /// Scheme, host, port and path: `https://acme.service-now.com`.
    pub base_url: String,
    /// The environment of every action on this connection. Production, if omitted.
    #[serde(default)]
    pub environment: Environment,
    /// How requests authenticate; not at all, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<CredentialSpec>,
    /// The workspace whose runs may use the connection; every workspace, if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceId>,
    /// Settings of the kind.
    #[serde(default, skip_serializing_if = "ConnectionOptions::is_default")]
    pub options: ConnectionOptions,
    /// Incremented by every change of this connection.
    #[serde(default)]
    pub version: u32,
}

/// Further settings.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ConnectionOptions {
    /// Certificates in PEM that are trusted in place of those of the operating system.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<String>,
    /// The API of a model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_api: Option<ModelApi>,
    /// The prices of models, by model.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// The channel of a Slack workspace for approval requests that no route matches. Without it, the connection shows
    /// none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<String>,
    /// Other channels for approval requests. The first route that matches decides.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<CardRoute>,
    /// The id of the Slack workspace. Clicks from another one are refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub team: Option<String>,
    /// The signing secret of the Slack app, which authenticates clicks and commands.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signing_secret: Option<SecretRef>,
    /// The signing secret before its rotation.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub previous_signing_secret: Option<ExpiringSecret>,
}

/// A secret that is accepted until it expires.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ExpiringSecret {
    /// The secret.
    pub secret: SecretRef,
    /// When it expires, such as `2027-02-01T00:00:00Z`.
    #[serde(with = "rfc3339")]
    pub until: Timestamp,
}

/// The protocol of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Display)]
#[serde(rename_all = "snake_case")]
#[strum(serialize_all = "snake_case")]
pub enum ModelApi {
    /// The Converse API of Amazon Bedrock.
    Bedrock,
    /// Chat completions.
    Completions,
}

/// The price of a model, in millionths of a US dollar per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Of the prompt.
    pub input: u64,
    /// Of the answer.
    pub output: u64,
}

/// How requests on a connection authenticate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub enum CredentialSpec {
    /// HTTP Basic.
    Basic {
        /// The user.
        user: String,
        /// The password.
        password: SecretRef,
    },
    /// A bearer token.
    Bearer {
        /// The token.
        token: SecretRef,
    },
    /// A header with a key, such as `x-api-key`.
    Header {
        /// The name of the header.
        name: String,
        /// Its value.
        value: SecretRef,
    },
    /// OAuth 2.0 client credentials (RFC 6749, section 4.4): a token is requested for each step.
    #[serde(rename = "oauth2")]
    OAuth2 {
        /// The token endpoint.
        token_url: String,
        /// The client.
        client_id: String,
        /// Its secret.
        client_secret: SecretRef,
        /// The requested scopes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        scopes: Vec<String>,
    },
    /// AWS Signature Version 4.
    AwsSigv4 {
        /// The keys, as a JSON object with `access_key`, `secret_key` and `security_token`, as Vault returns them.
        keys: SecretRef,
        /// The region, such as `eu-central-1`.
        region: String,
        /// The service, such as `execute-api`.
        service: String,
    },
    /// A TLS client certificate.
    ClientCertificate {
        /// The certificate and its intermediates, in PEM. They are public.
        certificate: String,
        /// The private key, in PEM.
        private_key: SecretRef,
    },
}

/// The part of a connection that becomes part of an action: an approval is bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActionConnection {
    /// The name of the connection.
    pub name: ConnectionName,
    /// The kind of system.
    pub kind: ConnectionKind,
    /// The environment of the connection.
    pub environment: Environment,
}

impl Connection {
    /// What an action on this connection names.
    pub fn of_action(&self, name: &ConnectionName) -> ActionConnection {
        ActionConnection { name: name.clone(), kind: self.kind, environment: self.environment }
    }

    /// All references to secrets.
    pub fn secrets(&self) -> impl Iterator<Item = &SecretRef> {
        self.credential_secret().into_iter().chain(self.options.signing_secrets())
    }

    /// The reference to the secret of requests on the connection.
    pub fn credential_secret(&self) -> Option<&SecretRef> {
        self.credential.as_ref().map(CredentialSpec::secret)
    }

    /// Whether runs of `workspace` may use the connection.
    pub fn is_visible_in(&self, workspace: &WorkspaceId) -> bool {
        self.workspace.as_ref().is_none_or(|own| own == workspace)
    }

    /// Refuses texts that are too long and options of another kind. The caller checks the base URL.
    pub fn check(&self) -> Result<(), InvalidConnection> {
        let texts = self.credential.iter().flat_map(CredentialSpec::texts);
        for (what, text) in texts.chain([("base_url", &self.base_url)]) {
            if text.is_empty() || text.len() > TEXT_BYTES_MAX || text.chars().any(char::is_control) {
                return Err(InvalidConnection::Text { what });
            }
        }
        for (what, pem) in self.certificates() {
            // A private key in PEM would be a secret in the wrong place.
            if pem.len() > PEM_BYTES_MAX
                || !pem.contains("-----BEGIN CERTIFICATE-----")
                || pem.contains("PRIVATE KEY")
            {
                return Err(InvalidConnection::Certificate { what });
            }
        }
        let is_model = self.kind == ConnectionKind::Model;
        if is_model && self.options.model_api.is_none() {
            return Err(InvalidConnection::NoModelApi);
        }
        if !is_model && (self.options.model_api.is_some() || !self.options.prices.is_empty()) {
            return Err(InvalidConnection::Options { kind: self.kind });
        }
        self.check_notifications()
    }

    /// Refuses a connection that could not deliver approval requests, or whose clicks could not be authenticated.
    fn check_notifications(&self) -> Result<(), InvalidConnection> {
        let options = &self.options;
        let has_bearer = matches!(self.credential, Some(CredentialSpec::Bearer { .. }));
        match self.kind {
            ConnectionKind::PagerDuty if !has_bearer => return Err(InvalidConnection::NoRoutingKey),
            ConnectionKind::Slack => {}
            _ if options.is_for_slack() => return Err(InvalidConnection::SlackOptions { kind: self.kind }),
            _ => return Ok(()),
        }
        if options.is_for_slack() && !has_bearer {
            return Err(InvalidConnection::NoBotToken);
        }
        options.check_slack()
    }

    /// The certificates in PEM, each with the name of its field.
    fn certificates(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let client = match &self.credential {
            Some(CredentialSpec::ClientCertificate { certificate, .. }) => Some(("certificate", certificate)),
            Some(_) | None => None,
        };
        client.into_iter().chain(self.options.ca.as_ref().map(|pem| ("ca", pem)))
    }
}

impl fmt::Display for Connection {
    /// `servicenow https://acme.example prod, basic svc env://PASSWORD`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} {}", self.kind, self.base_url, self.environment)?;
        if let Some(credential) = &self.credential {
            write!(f, ", {credential}")?;
        }
        if let Some(workspace) = &self.workspace {
            write!(f, ", workspace {workspace}")?;
        }
        if let Some(channel) = &self.options.channel {
            write!(f, ", channel {channel}")?;
        }
        match self.options.routes.len() {
            0 => Ok(()),
            routes => write!(f, ", {routes} routes"),
        }?;
        self.options.signing_secrets().try_for_each(|secret| write!(f, ", signing secret {secret}"))
    }
}

impl CredentialSpec {
    /// The texts in it, each with the name of its field.
    fn texts(&self) -> Vec<(&'static str, &String)> {
        match self {
            Self::Basic { user, .. } => vec![("user", user)],
            Self::Header { name, .. } => vec![("header name", name)],
            Self::OAuth2 { token_url, client_id, scopes, .. } => {
                let scopes = scopes.iter().map(|scope| ("scopes", scope));
                scopes.chain([("token_url", token_url), ("client_id", client_id)]).collect()
            }
            Self::AwsSigv4 { region, service, .. } => vec![("region", region), ("service", service)],
            Self::Bearer { .. } | Self::ClientCertificate { .. } => Vec::new(),
        }
    }

    /// The name of the variant.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Basic { .. } => "basic",
            Self::Bearer { .. } => "bearer",
            Self::Header { .. } => "header",
            Self::OAuth2 { .. } => "oauth2",
            Self::AwsSigv4 { .. } => "aws_sigv4",
            Self::ClientCertificate { .. } => "client_certificate",
        }
    }

    /// The reference to the secret.
    pub fn secret(&self) -> &SecretRef {
        match self {
            Self::Basic { password: secret, .. }
            | Self::Bearer { token: secret }
            | Self::Header { value: secret, .. }
            | Self::OAuth2 { client_secret: secret, .. }
            | Self::AwsSigv4 { keys: secret, .. }
            | Self::ClientCertificate { private_key: secret, .. } => secret,
        }
    }
}

impl fmt::Display for CredentialSpec {
    /// `basic svc env://PASSWORD`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Basic { user, password } => write!(f, "basic {user} {password}"),
            Self::Bearer { token } => write!(f, "bearer {token}"),
            Self::Header { name, value } => write!(f, "header {name} {value}"),
            Self::OAuth2 { token_url, client_id, client_secret, scopes } => {
                write!(f, "oauth2 {client_id} {client_secret} at {token_url}")?;
                scopes.iter().try_for_each(|scope| write!(f, " {scope}"))
            }
            Self::AwsSigv4 { keys, region, service } => write!(f, "aws_sigv4 {service} {region} {keys}"),
            Self::ClientCertificate { certificate, private_key } => {
                let digest = Digest::of_bytes(certificate.as_bytes());
                write!(f, "client_certificate {} {private_key}", digest.short())
            }
        }
    }
}

impl ConnectionOptions {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// The current signing secret, and the previous one.
    pub fn signing_secrets(&self) -> impl Iterator<Item = &SecretRef> {
        let previous = self.previous_signing_secret.as_ref().map(|previous| &previous.secret);
        self.signing_secret.iter().chain(previous)
    }

    /// These options without the references to secrets.
    #[must_use]
    pub fn without_secrets(self) -> Self {
        Self { signing_secret: None, previous_signing_secret: None, ..self }
    }

    fn is_for_slack(&self) -> bool {
        let Self { channel, routes, team, .. } = self;
        channel.is_some() || !routes.is_empty() || team.is_some() || self.signing_secrets().next().is_some()
    }

    fn check_slack(&self) -> Result<(), InvalidConnection> {
        let channels = self.channel.iter().chain(self.routes.iter().map(|route| &route.channel));
        for channel in channels {
            if !is_slack_id(channel, &['C', 'G', 'D']) {
                return Err(InvalidConnection::Channel { channel: channel.chars().take(64).collect() });
            }
        }
        if self.team.as_ref().is_some_and(|team| !is_slack_id(team, &['T', 'E'])) {
            return Err(InvalidConnection::Team);
        }
        if !self.routes.is_empty() && self.channel.is_none() {
            return Err(InvalidConnection::NoDefaultChannel);
        }
        if self.routes.len() > ROUTES_MAX {
            return Err(InvalidConnection::TooManyRoutes);
        }
        if let Some(at) = self.routes.iter().position(|route| !route.has_condition()) {
            return Err(InvalidConnection::RouteWithoutCondition { number: at + 1 });
        }
        if self.previous_signing_secret.is_some() && self.signing_secret.is_none() {
            return Err(InvalidConnection::OnlyPreviousSecret);
        }
        Ok(())
    }
}

/// Whether `text` is a Slack id: a letter for its kind, then capitals and digits.
pub fn is_slack_id(text: &str, kinds: &[char]) -> bool {
    let rest = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit();
    text.starts_with(kinds) && (2..=32).contains(&text.len()) && text.chars().all(rest)
}

/// Why a connection is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidConnection {
    /// A text is empty, too long or has a control character.
    #[error("`{what}` must have 1 to {TEXT_BYTES_MAX} bytes without control characters")]
    Text {
        /// Which text.
        what: &'static str,
    },
    /// A certificate is not one, or is too long.
    #[error("`{what}` must be certificates in PEM of at most {PEM_BYTES_MAX} bytes, without a private key")]
    Certificate {
        /// Which field.
        what: &'static str,
    },
    /// A model without its protocol.
    #[error("a connection of kind `model` needs `options: {{ model_api: bedrock }}`, or `completions`")]
    NoModelApi,
    /// Slack options on another kind.
    #[error(
        "`channel`, `routes`, `team` and the signing secrets are options of kind `slack`, not of `{kind}`; remove them"
    )]
    SlackOptions {
        /// The kind of the connection.
        kind: ConnectionKind,
    },
    /// An approval channel without a bot token.
    #[error(
        "approval requests need the token of the bot; add `credential: {{ type: bearer, token: REF }}` to the connection"
    )]
    NoBotToken,
    /// A pager without a routing key.
    #[error(
        "a connection of kind `pagerduty` needs the routing key of the integration: `credential: {{ type: bearer, token: \
         REF }}`"
    )]
    NoRoutingKey,
    /// A channel that is not an id.
    #[error("{channel:?} is not a channel id; write the id of the channel, such as C0123ABCD")]
    Channel {
        /// The text.
        channel: String,
    },
    /// A team that is not an id.
    #[error("`team` must be the id of a Slack workspace, such as T0ACME")]
    Team,
    /// Routes without a channel for what they do not match.
    #[error("`routes` need `channel`, the channel for approval requests that no route matches")]
    NoDefaultChannel,
    /// Too many routes.
    #[error("a connection can have at most {ROUTES_MAX} `routes`")]
    TooManyRoutes,
    /// A route that matches everything.
    #[error(
        "route {number} has no condition: add `tier`, `group`, `workflow` or `environment`, or use `channel` in its place"
    )]
    RouteWithoutCondition {
        /// Its position, from 1.
        number: usize,
    },
    /// A previous secret alone.
    #[error("`previous_signing_secret` needs `signing_secret`")]
    OnlyPreviousSecret,
    /// Options of another kind.
    #[error("`model_api` and `prices` are options of kind `model`, not of `{kind}`; remove them")]
    Options {
        /// The kind of the connection.
        kind: ConnectionKind,
    },
}

/// Where a secret is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, VariantNames)]
#[strum(serialize_all = "kebab-case")]
pub enum SecretStore {
    /// `HashiCorp` Vault or `OpenBao`: `vault://MOUNT/PATH#FIELD`.
    Vault,
    /// AWS Secrets Manager: `aws-sm://NAME#FIELD`.
    AwsSm,
    /// AWS Systems Manager Parameter Store: `aws-ssm://NAME`.
    AwsSsm,
    /// A named secret of the process: an environment variable, or an entry of its secrets file: `env://NAME`.
    Env,
    /// A local file: `file:///run/secrets/token`.
    File,
}

impl SecretStore {
    /// Whether references belong to the operator alone. They name what the process itself can read, which is not the
    /// property of one tenant.
    pub fn is_operators(self) -> bool {
        matches!(self, Self::Env | Self::File)
    }
}

/// The name of a secret, as a URI. It is no secret itself.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretRef {
    text: String,
    store: SecretStore,
}

/// Why a text names no secret. The messages do not repeat the text: it may be a secret, written in the wrong place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidSecretRef {
    /// There is no `://`, or the scheme is unknown.
    #[error(
        "a secret is named by a reference, such as vault://kv/servicenow#password, aws-sm://NAME#FIELD, aws-ssm://NAME, \
         env://NAME or file:///PATH; never write the secret itself"
    )]
    Scheme,
    /// The path or the field is empty, too long, or has a character or segment that is not allowed.
    #[error(
        "the path of a secret reference has 1 to {TEXT_BYTES_MAX} bytes: letters, digits and `/_.+=@:-`, without the \
         segments `.` and `..` and without empty ones"
    )]
    Path,
}

impl SecretRef {
    /// Checks `text`.
    pub fn new(text: &str) -> Result<Self, InvalidSecretRef> {
        let (scheme, rest) = text.split_once("://").ok_or(InvalidSecretRef::Scheme)?;
        let store: SecretStore = scheme.parse().map_err(|_| InvalidSecretRef::Scheme)?;
        let (path, field) = rest.split_once('#').map_or((rest, None), |(path, field)| (path, Some(field)));
        // Only the path of a file starts with a slash.
        let segments = if store == SecretStore::File { path.strip_prefix('/') } else { Some(path) };
        let is_char = |c: char| c.is_ascii_alphanumeric() || "/_.+=@:-".contains(c);
        let is_path = |path: &str| {
            path.len() <= TEXT_BYTES_MAX
                && path.chars().all(is_char)
                && path.split('/').all(|segment| !matches!(segment, "" | "." | ".."))
        };
        if !segments.is_some_and(is_path) || field.is_some_and(|field| field.contains('/') || !is_path(field))
        {
            return Err(InvalidSecretRef::Path);
        }
        Ok(Self { text: text.to_owned(), store })
    }

    /// The whole reference.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Where the secret is stored.
    pub fn store(&self) -> SecretStore {
        self.store
    }

    /// The name of the secret in its store.
    pub fn path(&self) -> &str {
        let rest = self.text.split_once("://").map_or("", |(_, rest)| rest);
        rest.split_once('#').map_or(rest, |(path, _)| path)
    }

    /// The field of a secret that is a JSON object; the whole value, if absent.
    pub fn field(&self) -> Option<&str> {
        self.text.split_once('#').map(|(_, field)| field)
    }
}

checked_text!(SecretRef, InvalidSecretRef);

/// A prefix of the secrets that an operator has given to a tenant: `vault://kv/acme/`, or one whole reference without a
/// field.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct SecretGrant(String);

impl SecretGrant {
    /// Checks `text`: a reference without a field, or one that ends with a slash.
    pub fn new(text: &str) -> Result<Self, InvalidSecretRef> {
        let reference = SecretRef::new(text.strip_suffix('/').unwrap_or(text))?;
        if reference.field().is_some() {
            return Err(InvalidSecretRef::Path);
        }
        Ok(Self(text.to_owned()))
    }

    /// The prefix as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the grant covers `secret`.
    pub fn covers(&self, secret: &SecretRef) -> bool {
        let whole = secret.as_str().split_once('#').map_or(secret.as_str(), |(path, _)| path);
        if self.0.ends_with('/') { whole.starts_with(&self.0) } else { whole == self.0 }
    }
}

checked_text!(SecretGrant, InvalidSecretRef);

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(text: &str) -> SecretRef {
        text.parse().unwrap()
    }

    fn connection(json: &str) -> Result<Connection, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn secret_reference_has_store_path_and_field() {
        let secret = reference("vault://kv/servicenow/acme#password");
        assert_eq!((secret.store(), secret.path()), (SecretStore::Vault, "kv/servicenow/acme"));
        assert_eq!(secret.field(), Some("password"));
        let file = reference("file:///run/secrets/token");
        assert_eq!(
            (file.store(), file.path(), file.field()),
            (SecretStore::File, "/run/secrets/token", None)
        );
        assert_eq!(reference("aws-sm://prod/acme").store(), SecretStore::AwsSm);
        assert_eq!(reference("aws-ssm://prod/acme").store(), SecretStore::AwsSsm);
    }

    #[test]
    fn invalid_secret_reference_is_not_repeated() {
        for text in [
            "hunter2",
            "http://hunter2",
            "env://",
            "env://hunter2 x",
            "vault://kv/../hunter2",
            "vault://kv//hunter2",
            "vault:///kv/hunter2",
            "file://hunter2",
            "env://A#hunter2/b",
            "env://A#",
            "aws-sm://a?hunter2",
            "aws-sm://%2e%2e/hunter2",
        ] {
            let error = SecretRef::new(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{text}: {error}");
        }
    }

    #[test]
    fn grant_covers_whole_path_segments_only() {
        let prefix = SecretGrant::new("vault://kv/acme/").unwrap();
        assert!(prefix.covers(&reference("vault://kv/acme/servicenow#password")));
        for other in ["vault://kv/acme", "vault://kv/acme-2/servicenow", "aws-sm://kv/acme/x", "env://kv"] {
            assert!(!prefix.covers(&reference(other)), "{other}");
        }
        let one = SecretGrant::new("aws-sm://acme").unwrap();
        assert!(one.covers(&reference("aws-sm://acme#token")) && !one.covers(&reference("aws-sm://acme/x")));
        assert!(SecretGrant::new("vault://kv/acme#field").is_err() && SecretGrant::new("vault://").is_err());
    }

    #[test]
    fn environment_of_a_connection_is_production_by_default() {
        let read = connection(r#"{"kind": "servicenow", "base_url": "https://acme.example"}"#).unwrap();
        assert_eq!((read.environment, read.version), (Environment::Prod, 0));
        assert_eq!(read.check(), Ok(()));
    }

    #[test]
    fn secret_in_place_of_a_reference_is_refused_unseen() {
        let json = r#"{"kind": "github", "base_url": "https://a", "credential": {"type": "bearer", "token": "hunter2"}}"#;
        let error = connection(json).unwrap_err().to_string();
        assert!(error.contains("named by a reference") && !error.contains("hunter2"), "{error}");
    }

    #[test]
    fn approval_channels_are_checked() {
        let slack = |options: &str, credential: &str| {
            let json = format!(
                r#"{{"kind": "slack", "base_url": "https://slack.com/api", "options": {options}{credential}}}"#
            );
            connection(&json).map_err(|error| error.to_string())?.check().map_err(|error| error.to_string())
        };
        let bearer = r#", "credential": {"type": "bearer", "token": "vault://kv/a#b"}"#;
        let good = r#"{"channel": "C0A", "routes": [{"tier": "high", "channel": "C0B"}], "team": "T0A",
                       "signing_secret": "vault://kv/a#s",
                       "previous_signing_secret": {"secret": "vault://kv/b", "until": "2027-02-01T00:00:00Z"}}"#;
        assert_eq!(slack(good, bearer), Ok(()));
        for (options, why) in [
            (r#"{"channel": "general"}"#, "is not a channel id"),
            (r#"{"channel": "C0A", "team": "acme"}"#, "id of a Slack workspace"),
            (r#"{"routes": [{"tier": "high", "channel": "C0B"}]}"#, "`routes` need `channel`"),
            (r#"{"channel": "C0A", "routes": [{"channel": "C0B"}]}"#, "route 1 has no condition"),
            (r#"{"channel": "C0A", "routes": [{"teir": "high", "channel": "C0B"}]}"#, "unknown field"),
            (r#"{"channel": "C0A", "signing_secret": "hunter2"}"#, "named by a reference"),
            (
                r#"{"previous_signing_secret": {"secret": "vault://kv/b", "until": "2027-02-01T00:00:00Z"}}"#,
                "needs `signing_secret`",
            ),
            (
                r#"{"previous_signing_secret": {"secret": "vault://kv/b", "until": "soon"}}"#,
                "2027-02-01T00:00:00Z",
            ),
        ] {
            let error = slack(options, bearer).unwrap_err();
            assert!(error.contains(why) && !error.contains("hunter2"), "{options}: {error}");
        }
        assert!(slack(good, "").unwrap_err().contains("token of the bot"));
        let pager = connection(r#"{"kind": "pagerduty", "base_url": "https://events.pagerduty.com"}"#);
        assert_eq!(pager.unwrap().check(), Err(InvalidConnection::NoRoutingKey));
        let http = connection(r#"{"kind": "http", "base_url": "https://a", "options": {"channel": "C0A"}}"#);
        let refused = Err(InvalidConnection::SlackOptions { kind: ConnectionKind::Http });
        assert_eq!(http.unwrap().check(), refused);
    }

    #[test]
    fn options_of_another_kind_are_refused() {
        let model = |kind: &str, options: &str| {
            let json = format!(r#"{{"kind": "{kind}", "base_url": "https://a", "options": {options}}}"#);
            connection(&json).unwrap().check()
        };
        assert_eq!(model("model", r#"{"model_api": "bedrock"}"#), Ok(()));
        assert_eq!(model("model", "{}"), Err(InvalidConnection::NoModelApi));
        let refused = Err(InvalidConnection::Options { kind: ConnectionKind::GitHub });
        assert_eq!(model("github", r#"{"model_api": "bedrock"}"#), refused);
    }
}
