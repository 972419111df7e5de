//! `http.request`: sends one HTTP request to an endpoint that the workflow names.
//!
//! ```yaml
//! tool: http.request
//! with:
//!   method: POST                  # GET (default), HEAD, POST, PUT, PATCH, DELETE
//!   url: https://api.example.com/orders
//!   headers: { accept: application/json }
//!   body: { sku: A-17 }           # JSON, or a string if `content-type` is not JSON
//!   timeout: 20s                  # at most 5m
//!   effect: native_key            # read_only | native_key | compare_and_set | opaque
//!   idempotency_key: order-4711   # default: this step of this run
//!   key_retention: 24h            # how long the endpoint remembers a key
//! ```
//!
//! # Effect classes
//! Every request with an effect carries `Idempotency-Key`.
//! * `read_only` (only GET and HEAD): the request changes nothing. Policy decides whether it may be sent.
//! * `native_key`: the author states that the endpoint acts once for each `Idempotency-Key`.
//! * `compare_and_set`: the request has a precondition that its own effect makes false. Prefer an entity tag:
//!   `If-Unmodified-Since` has a resolution of one second and misses a second change within it.
//! * `opaque` (default for other methods): nothing is known, so an attempt without a reply pauses the run.
//!
//! There is no `look_up`. The tool has no credential that could be revoked, so a request of a frozen worker may arrive
//! after the look-up, and *absent* would prove nothing.
//!
//! # When an earlier attempt may have acted
//! The result of this attempt does not tell what the earlier one did. A refused connection or a 404 proves nothing,
//! and a 412 may be caused by the earlier write itself. So with
//! [`ToolCall::again`](crate::ToolCall::again) every outcome except success is *may have happened*. When attempts
//! run out, the outcome is unknown and an operator decides.
//!
//! # Secrets and addresses
//! Headers that carry credentials are rejected, and so are parameters that can replace the method ([`method_override`]). Error messages contain host and path, and an [`excerpt`] of the reply. The
//! query of a URL is part of the action and visible to approvers: do not put a secret there. [`guard`] decides which addresses a request
//! may reach.

pub mod address;
mod effect;
mod excerpt;
pub(crate) mod exchange;
pub mod guard;
mod headers;
mod method_override;
pub(crate) mod outcome;
pub(crate) mod reply;
mod request;
pub(crate) mod retry_after;

use std::error::Error;
use std::sync::Arc;

use async_trait::async_trait;
use domain::{Action, ConnectionKind, EffectClass, Failure, IdempotencyKey, ToolName};
use http_client::sigv4::UnsignedRequest;
use reqwest::Client;
use reqwest::header::{HeaderName, HeaderValue};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::api::{BaseUrl, Credential};
use crate::connection::ToolConnection;
use crate::fields::{Fields, invalid};
use crate::tool::{self, ConnectionUse, ProposalRequest, Tool, ToolCall, ToolOutcome};

use effect::DeclaredEffect;
use exchange::Route;
use guard::{AddressError, AddressGuard, HostAllowList, SystemResolver};
use request::Request;

/// Increase it when the meaning of the fields changes.
const CONTRACT: u32 = 1;

#[derive(Debug, Clone)]
pub struct HttpRequest {
    guard: AddressGuard,
    tls: ClientConfig,
    /// The address and the credential, if the step names a connection.
    connection: Option<(BaseUrl, Credential)>,
}

impl HttpRequest {
    /// Allows requests to the internet and to the hosts in `allow`.
    pub fn new(allow: HostAllowList) -> Self {
        Self::with_guard(AddressGuard::new(allow, SystemResolver))
    }

    /// Uses `guard` to decide which addresses are allowed.
    pub fn with_guard(guard: AddressGuard) -> Self {
        Self { guard, tls: http_client::config(), connection: None }
    }

    /// The request, which must stay below the base URL of the connection. Its `url` may be a path below that.
    fn parse_request(&self, fields: &mut Fields) -> Result<Request, Failure> {
        let Some((base, _)) = &self.connection else { return Request::take(fields) };
        if let Some(path) = fields.string("url")? {
            let url = if path.starts_with('/') { base.with_path(&path) } else { path };
            fields.put("url", url.into());
        }
        let request = Request::take(fields)?;
        if !base.contains(&request.url) {
            let message =
                format!("`url` must be a path, or an address below {base}, which the connection has");
            return Err(invalid(message));
        }
        Ok(request)
    }

    fn authorization(&self, request: &Request) -> Result<Vec<(HeaderName, HeaderValue)>, Failure> {
        let Some((_, credential)) = &self.connection else { return Ok(Vec::new()) };
        let body = request.body_bytes().unwrap_or_default();
        credential.headers(UnsignedRequest {
            method: request.method.as_str(),
            url: &request.url,
            headers: &[],
            body: &body,
        })
    }

    /// The outcome describes this attempt only.
    async fn attempt(&self, call: &ToolCall<'_>) -> ToolOutcome {
        let fields = Fields::parse(call.action.fields.clone(), request::FIELDS);
        let request = fields.and_then(|mut fields| self.parse_request(&mut fields));
        let authorized = request.and_then(|request| Ok((self.authorization(&request)?, request)));
        let (authorization, request) = match authorized {
            Ok(sent) => sent,
            Err(failure) => return ToolOutcome::Terminal(failure),
        };
        let endpoint = request.endpoint();
        let deadline = Instant::now() + request.timeout.std().min(call.time_left);
        let addresses = match timeout_at(deadline, self.guard.admit(&request.url)).await {
            Ok(Ok(addresses)) if Instant::now() < deadline => addresses,
            Ok(Ok(_)) | Err(_) => return outcome::unreachable(&endpoint, "no time left"),
            Ok(Err(error)) => return not_admitted(&endpoint, &error),
        };
        let class = call.action.class;
        let key = class.has_effect().then_some(&call.action.key);
        let mut secrets = request.query_values();
        secrets.extend(self.connection.iter().flat_map(|(_, credential)| credential.secrets()));
        let route = Route { addresses, tls: &self.tls, deadline, secrets: &secrets };
        let build = |client: &Client| {
            let built = request.build(client, key);
            authorization.into_iter().fold(built, |built, (name, value)| built.header(name, value))
        };
        outcome::classify(exchange::exchange(route, build).await, class, &endpoint)
    }
}

fn not_admitted(endpoint: &str, error: &AddressError) -> ToolOutcome {
    match error {
        AddressError::AddressRefused(refused) => {
            ToolOutcome::Terminal(Failure::new(outcome::BLOCKED, refused.to_string()))
        }
        AddressError::Resolve { .. } | AddressError::NoRecord { .. } => {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            outcome::unreachable(endpoint, &format!("{error}{cause}"))
        }
    }
}

#[async_trait]
impl Tool for HttpRequest {
    fn name(&self) -> ToolName {
        tool::name("http.request")
    }

    fn effect_class(&self, with: &Value) -> Option<EffectClass> {
        effect::declared_class(with)
    }

    fn connection_use(&self) -> ConnectionUse {
        ConnectionUse::Optional(ConnectionKind::Http)
    }

    fn connect(&self, connection: &ToolConnection) -> Option<Arc<dyn Tool>> {
        let ToolConnection { kind, base, credential, allow, tls, .. } = connection.clone();
        let guard = AddressGuard::new(allow, SystemResolver);
        let connection = Some((base, credential));
        (kind == ConnectionKind::Http).then(|| Arc::new(Self { guard, tls, connection }) as _)
    }

    fn propose(&self, proposal: ProposalRequest<'_>) -> Result<Action, Failure> {
        let mut fields = Fields::parse(proposal.fields, &[request::FIELDS, effect::FIELDS].concat())?;
        let mut request = self.parse_request(&mut fields)?;
        self.guard
            .check(&request.url)
            .map_err(|refused| Failure::new(outcome::BLOCKED, refused.to_string()))?;
        let effect = DeclaredEffect::take(&mut fields, &request)?;
        // The rollback of a step has no rollback of its own.
        let reversibility = effect.reversibility(&request, proposal.has_rollback && !proposal.reverts);
        let for_step = || IdempotencyKey::for_step(&self.name(), &proposal.run.run, proposal.step);
        let key = request.effect_key().unwrap_or_else(for_step);
        // A rollback with the key of its step would look as if it were already done, here and at the endpoint.
        let key = if proposal.reverts { key.reverse() } else { key };
        if proposal.reverts {
            request.idempotency_key = None;
        }
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: effect.class,
            reversibility,
            target: request.target().to_owned(),
            key,
            key_retention: effect.key_retention,
            changes: Vec::new(),
            destructive: request.method == reqwest::Method::DELETE,
            estimate_microusd: None,
            connection: None,
            fields: request.to_fields(),
        })
    }

    async fn perform(&self, call: ToolCall<'_>) -> ToolOutcome {
        let outcome = self.attempt(&call).await;
        if call.again && call.action.class.has_effect() { outcome.after_open_attempt() } else { outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{Millis, Reversibility, RunId, RunKey, StepId, TenantId};
    use serde_json::json;

    fn propose(with: Value, reverts: bool) -> Result<Action, Failure> {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        let tool = HttpRequest::new(HostAllowList::default());
        tool.propose(ProposalRequest {
            run: &run,
            step: &StepId::new("order").unwrap(),
            reverts,
            has_rollback: false,
            fields: with,
            observed: None,
        })
    }

    fn order(extra: (&str, Value)) -> Value {
        let mut with =
            json!({"method": "POST", "url": "https://api.example.com/orders?q=1", "effect": "native_key"});
        with[extra.0] = extra.1;
        with
    }

    #[test]
    fn action_contains_every_default() {
        let action = propose(order(("body", json!({"sku": 1}))), false).unwrap();
        assert_eq!(action.class, EffectClass::NativeKey);
        assert!(matches!(action.reversibility, Reversibility::Irreversible(_)));
        assert_eq!(action.target, "api.example.com/orders");
        assert_eq!(action.key.as_str(), "http.request:run-1:order");
        assert_eq!(action.key_retention, Some(Millis::hours(24)));
        assert_eq!(
            action.fields,
            json!({
                "method": "POST", "url": "https://api.example.com/orders?q=1", "headers": {}, "body": {"sku": 1},
                "timeout": "20s",
            })
        );
    }

    #[test]
    fn author_may_set_the_key() {
        let with = order(("idempotency_key", json!("order-4711")));
        let action = propose(with.clone(), false).unwrap();
        assert_eq!(action.fields["idempotency_key"], "order-4711", "policy and approvers see it");
        assert_eq!(propose(with, true).unwrap().fields.get("idempotency_key"), None);
        for text in ["", "a b"] {
            assert!(propose(order(("idempotency_key", json!(text))), false).is_err(), "{text:?}");
        }
    }

    /// `WordPress` executes this GET as a DELETE. If policy took it for a read, it would need no approval.
    #[test]
    fn get_that_overrides_its_method_is_no_action() {
        let propose_at = |query: &str| {
            let url = format!("https://site.example/wp-json/wp/v2/posts/1?{query}");
            propose(json!({"url": url}), false)
        };
        assert_eq!(propose_at("context=view").unwrap().class, EffectClass::ReadOnly);
        let refused = propose_at("_method=DELETE&force=1").unwrap_err().message;
        assert!(refused.contains("remove it, and set `method`"), "{refused}");
    }

    /// An author who could name the key of another step or of its rollback could make it look done.
    #[test]
    fn author_cannot_choose_a_key_of_the_runtime() {
        let own = propose(order(("timeout", json!("5s"))), false).unwrap().key;
        for taken in [own.clone(), own.reverse()] {
            let action = propose(order(("idempotency_key", json!(taken.as_str()))), false).unwrap();
            assert_ne!(action.key, taken);
            assert!(action.key.as_str().starts_with("http.key:"), "{:?}", action.key);
        }
        let key = |url: &str| {
            let with = json!({"method": "POST", "url": url, "idempotency_key": "order-4711"});
            propose(with, false).unwrap().key
        };
        assert_eq!(key("https://a.example/orders"), key("https://a.example/refunds"));
        assert_ne!(key("https://a.example/orders"), key("https://b.example/orders"));
    }

    #[test]
    fn undo_has_its_own_key() {
        for with in [order(("timeout", json!("5s"))), order(("idempotency_key", json!("order-4711")))] {
            let done = propose(with.clone(), false).unwrap();
            assert_eq!(propose(with, true).unwrap().key, done.key.reverse());
        }
    }

    #[test]
    fn unknown_field_error_lists_known_fields() {
        let error = propose(order(("boddy", json!(1))), false).unwrap_err();
        assert!(
            error.message.starts_with("unknown field `boddy`; known fields are `method`, `url`"),
            "{}",
            error.message
        );
        assert!(error.message.ends_with("`effect`, `key_retention`"), "{}", error.message);
    }

    #[test]
    fn secret_headers_are_rejected() {
        let error = propose(order(("headers", json!({"x-api-key": "hunter2"}))), false).unwrap_err();
        assert!(error.message.contains("workflows must not contain credentials"), "{}", error.message);
    }

    #[test]
    fn blocked_address_is_never_proposed() {
        let error = propose(json!({"url": "http://10.0.0.1/"}), false).unwrap_err();
        assert_eq!(error.code, "HTTP_BLOCKED");
    }
}
