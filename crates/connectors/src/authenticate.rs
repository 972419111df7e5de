//! Gives a connection the credential of its specification, with the secret that was fetched for one step.
//!
//! For OAuth 2.0 this requests a token. The token endpoint is subject to the same rules for addresses as the connection, and a
//! redirect is not followed. A failure here means that the external system has not been called.

use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use domain::connection::CredentialSpec;
use domain::{Failure, Millis, Timestamp};
use http_client::ClientIdentity;
use http_client::sigv4::AwsKeys;
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use secrecy::{ExposeSecret as _, SecretString};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use url::Url;
use url::form_urlencoded;

use crate::api::Credential;
use crate::connection::ToolConnection;
use crate::http::exchange::{Exchange, Route, exchange};
use crate::http::guard::{AddressError, AddressGuard, SystemResolver};
use crate::http::reply::{Body, Reply};
use crate::http::retry_after::retry_after;

/// The failure code of a credential that cannot be used.
pub const CREDENTIAL_UNAVAILABLE: &str = "CREDENTIAL_UNAVAILABLE";

/// The time to wait for a token.
const TOKEN_MAX: Duration = Duration::from_secs(10);

/// A connection with its credential.
#[derive(Debug)]
pub struct Authenticated {
    pub connection: ToolConnection,
    /// The secrets that an external system could repeat.
    pub secrets: Vec<SecretString>,
}

/// Why a connection has no credential.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotAuthenticated {
    /// Another attempt may succeed, after this long if the token endpoint named a time.
    Retryable(Failure, Option<Millis>),
    Terminal(Failure),
}

impl NotAuthenticated {
    fn terminal(why: impl Into<String>) -> Self {
        Self::Terminal(Failure::new(CREDENTIAL_UNAVAILABLE, why.into()))
    }

    fn retryable(why: impl Into<String>) -> Self {
        Self::Retryable(Failure::new(CREDENTIAL_UNAVAILABLE, why.into()), None)
    }
}

/// `connection` with the credential that `spec` describes. `at` is part of a signature for AWS.
pub async fn authenticate(
    connection: ToolConnection,
    spec: &CredentialSpec,
    secret: SecretString,
    at: Timestamp,
) -> Result<Authenticated, NotAuthenticated> {
    let mut secrets = vec![secret.clone()];
    let credential = match spec {
        CredentialSpec::Basic { user, .. } => Credential::Basic { user: user.clone(), password: secret },
        CredentialSpec::Bearer { .. } => Credential::Bearer(secret),
        CredentialSpec::Header { name, .. } => Credential::Header { name: name.clone(), value: secret },
        CredentialSpec::OAuth2 { token_url, client_id, scopes, .. } => {
            let token = request_token(&connection, token_url, (client_id, &secret), scopes).await?;
            secrets.push(token.clone());
            Credential::Bearer(token)
        }
        CredentialSpec::AwsSigv4 { region, service, .. } => {
            let keys = aws_keys(&secret)?;
            secrets.push(keys.secret_access_key.clone());
            secrets.extend(keys.session_token.clone());
            Credential::AwsSigv4 { keys, region: region.clone(), service: service.clone(), at }
        }
        CredentialSpec::ClientCertificate { certificate, .. } => {
            let identity = ClientIdentity { certificate: certificate.clone(), private_key: secret };
            let tls = http_client::config_with(connection.ca.as_deref(), Some(&identity));
            let tls =
                tls.map_err(|why| NotAuthenticated::terminal(format!("the client certificate: {why}")))?;
            return Ok(Authenticated { connection: ToolConnection { tls, ..connection }, secrets });
        }
    };
    Ok(Authenticated { connection: ToolConnection { credential, ..connection }, secrets })
}

/// The keys in a JSON object, as Vault's AWS engine and the AWS APIs write them.
fn aws_keys(secret: &SecretString) -> Result<AwsKeys, NotAuthenticated> {
    let fields: Value = serde_json::from_str(secret.expose_secret()).unwrap_or_default();
    let field = |names: [&str; 2]| names.iter().find_map(|name| fields[*name].as_str()).map(str::to_owned);
    let id = field(["access_key", "AccessKeyId"]);
    let key = field(["secret_key", "SecretAccessKey"]);
    let token = field(["security_token", "SessionToken"]).filter(|token| !token.is_empty());
    let (Some(access_key_id), Some(secret_access_key)) = (id, key) else {
        let why = "the secret of `keys` is not a JSON object with `access_key` and `secret_key`; omit the field of the \
                   reference";
        return Err(NotAuthenticated::terminal(why));
    };
    let (secret_access_key, session_token) = (secret_access_key.into(), token.map(Into::into));
    Ok(AwsKeys { access_key_id, secret_access_key, session_token })
}

/// Requests a token with the client's credentials (RFC 6749, section 4.4.2).
async fn request_token(
    connection: &ToolConnection,
    token_url: &str,
    (client, secret): (&str, &SecretString),
    scopes: &[String],
) -> Result<SecretString, NotAuthenticated> {
    let url = parse_token_url(token_url)?;
    let deadline = Instant::now() + TOKEN_MAX;
    let guard = AddressGuard::new(connection.allow.clone(), SystemResolver);
    let late = |_| NotAuthenticated::retryable("the token endpoint did not answer in time");
    let addresses =
        timeout_at(deadline, guard.admit(&url)).await.map_err(late)?.map_err(|error| match error {
            AddressError::AddressRefused(refused) => {
                NotAuthenticated::terminal(format!("token_url: {refused}"))
            }
            error => NotAuthenticated::retryable(format!("token_url: {error}")),
        })?;
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = BASE64_STANDARD.encode(format!("{}:{}", encode(client), encode(secret.expose_secret())));
    let invalid = |_| NotAuthenticated::terminal("the client's credentials cannot be sent");
    let mut authorization = HeaderValue::from_str(&format!("Basic {pair}")).map_err(invalid)?;
    authorization.set_sensitive(true);
    let body = token_form(scopes);
    let secrets = [pair, secret.expose_secret().to_owned()];
    let route = Route { addresses, tls: &connection.tls, deadline, secrets: &secrets };
    let sent = exchange(route, |client| {
        client
            .post(url)
            .header(AUTHORIZATION, authorization)
            .header(ACCEPT, "application/json")
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body)
    });
    token_of(sent.await)
}

fn token_form(scopes: &[String]) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    if !scopes.is_empty() {
        form.append_pair("scope", &scopes.join(" "));
    }
    form.finish()
}

fn parse_token_url(text: &str) -> Result<Url, NotAuthenticated> {
    let url = Url::parse(text).ok().filter(|url| url.username().is_empty() && url.password().is_none());
    let url =
        url.ok_or_else(|| NotAuthenticated::terminal("`token_url` is not a URL without credentials"))?;
    if http_client::is_safe(&url) {
        Ok(url)
    } else {
        Err(NotAuthenticated::terminal("`token_url` must begin with `https://`"))
    }
}

/// The texts name the status only: the body of a token endpoint may contain a token.
fn token_of(exchange: Exchange) -> Result<SecretString, NotAuthenticated> {
    let reply = match exchange {
        Exchange::Replied(reply) => reply,
        Exchange::NotSent(why) | Exchange::NoReply(why) => {
            return Err(NotAuthenticated::retryable(format!("the token endpoint did not answer: {why}")));
        }
    };
    let status = reply.status.as_u16();
    match (status, &reply.body) {
        (200..=299, Body::Whole(bytes)) => parse_token(bytes),
        (400 | 401 | 403, _) => {
            let why = format!(
                "the token endpoint refused the client ({status}); check the client id, its secret and the scopes"
            );
            Err(NotAuthenticated::terminal(why))
        }
        (408 | 425 | 429 | 500.., _) => Err(retry_later(&reply)),
        _ => Err(NotAuthenticated::terminal(format!("the token endpoint answered {status}"))),
    }
}

fn retry_later(reply: &Reply) -> NotAuthenticated {
    let why = format!("the token endpoint answered {}", reply.status.as_u16());
    NotAuthenticated::Retryable(Failure::new(CREDENTIAL_UNAVAILABLE, why), retry_after(reply))
}

fn parse_token(body: &[u8]) -> Result<SecretString, NotAuthenticated> {
    let fields: Value = serde_json::from_slice(body).unwrap_or_default();
    let is_bearer = fields["token_type"].as_str().is_some_and(|kind| kind.eq_ignore_ascii_case("bearer"));
    match fields["access_token"].as_str() {
        Some(token) if is_bearer && !token.is_empty() => Ok(token.into()),
        Some(_) | None => Err(NotAuthenticated::terminal(
            "the token endpoint returned no `access_token` of the type `Bearer`",
        )),
    }
}
