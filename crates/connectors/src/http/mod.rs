//! `http.request`: one HTTP request to an endpoint of the author's choice.
//!
//! ```yaml
//! tool: http.request
//! with:
//!   method: POST                  # GET (default), HEAD, POST, PUT, PATCH, DELETE
//!   url: https://api.example.com/orders
//!   headers: { accept: application/json }
//!   body: { sku: A-17 }           # JSON, or a text where `content-type` says that it is not JSON
//!   timeout: 20s                  # at most 5m
//!   effect: native_key            # read_only | native_key | compare_and_set | opaque
//!   idempotency_key: order-4711   # default: this step of this run
//!   key_retention: 24h            # how long the endpoint remembers a key
//! ```
//!
//! # What each class promises
//! Every request with an effect carries `Idempotency-Key`.
//! * `read_only` (GET and HEAD alone): nothing changes, so nobody is asked. No other method can claim it.
//! * `native_key`: the author states that the endpoint does nothing twice for one `Idempotency-Key`.
//! * `compare_and_set`: the request has a precondition that its own effect makes false. `If-Unmodified-Since`
//!   counts whole seconds and so cannot tell two changes within one apart; an entity tag is better.
//! * `opaque` (default for the others): nothing is known, so an attempt without a reply pauses the run.
//!
//! There is no `look_up`. Without a credential that could be revoked, the request of a holder that froze may
//! still arrive after anybody has looked, and "absent" would mean nothing.
//!
//! # When an earlier attempt may have acted
//! What an attempt learns about itself does not settle what the earlier one did: a refused connection, a 404,
//! a 412 above all, which our own first write may have caused as well as a stranger's. So with
//! [`Call::again`](crate::Call::again) every outcome but success is *may have happened*; when attempts run
//! out, a person is shown *outcome unknown*.
//!
//! # What never leaves, what never arrives
//! Credentials in headers are refused, and error texts hold host and path only. A URL's query goes into the
//! action as it stands, and is no place for a secret. Where requests may go is [`guard`]'s to say.

pub mod address;
pub(crate) mod exchange;
pub mod guard;
mod headers;
pub(crate) mod outcome;
mod promise;
pub(crate) mod reply;
mod request;
pub(crate) mod wait;

use std::collections::BTreeSet;
use std::error::Error;

use async_trait::async_trait;
use domain::{Action, EffectClass, Failure, IdempotencyKey, ToolName};
use rustls::ClientConfig;
use serde_json::Value;
use tokio::time::{Instant, timeout_at};

use crate::fields::Fields;
use crate::tool::{self, Ask, Call, Outcome, Tool};

use exchange::Route;
use guard::{Allow, Guard, NoAddress, SystemResolver};
use promise::Promise;
use request::Request;

/// Grows when the fields change their meaning.
const CONTRACT: u32 = 1;

/// The tool `http.request`.
#[derive(Debug, Clone)]
pub struct HttpRequest {
    guard: Guard,
    secret_headers: BTreeSet<String>,
    tls: ClientConfig,
}

impl HttpRequest {
    /// Requests to the internet, and to the hosts in `allow`.
    pub fn new(allow: Allow) -> Self {
        Self::guarded(Guard::new(allow, SystemResolver))
    }

    /// Requests to where `guard` lets them go.
    pub fn guarded(guard: Guard) -> Self {
        Self { guard, secret_headers: BTreeSet::new(), tls: http_client::config() }
    }

    /// The same tool, refusing further headers because their values are credentials.
    #[must_use]
    pub fn with_secret_headers<'a>(mut self, names: impl IntoIterator<Item = &'a str>) -> Self {
        self.secret_headers.extend(names.into_iter().map(str::to_ascii_lowercase));
        self
    }

    fn read(&self, fields: &Value) -> Result<Request, Failure> {
        Request::take(&mut Fields::of(fields.clone(), request::FIELDS)?, &self.secret_headers)
    }

    /// Makes the call. The outcome is about this attempt alone.
    async fn attempt(&self, call: &Call<'_>) -> Outcome {
        let request = match self.read(&call.action.fields) {
            Ok(request) => request,
            Err(failure) => return Outcome::Terminal(failure),
        };
        let place = request.place();
        let deadline = Instant::now() + request.timeout.std().min(call.time_left);
        let addresses = match timeout_at(deadline, self.guard.admit(&request.url)).await {
            Ok(Ok(addresses)) if Instant::now() < deadline => addresses,
            Ok(Ok(_)) | Err(_) => return outcome::unreachable(&place, "no time is left"),
            Ok(Err(error)) => return not_admitted(&place, &error),
        };
        let class = call.action.class;
        let key = class.has_effect().then_some(&call.action.key);
        let route = Route { addresses, tls: &self.tls, deadline };
        outcome::of(exchange::exchange(route, |client| request.build(client, key)).await, class, &place)
    }
}

fn not_admitted(place: &str, error: &NoAddress) -> Outcome {
    match error {
        NoAddress::Refused(refused) => Outcome::Terminal(Failure::new(outcome::REFUSED, refused.to_string())),
        NoAddress::LookUp { .. } | NoAddress::Nowhere { .. } => {
            let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
            outcome::unreachable(place, &format!("{error}{cause}"))
        }
    }
}

#[async_trait]
impl Tool for HttpRequest {
    fn name(&self) -> ToolName {
        tool::name("http.request")
    }

    fn declares(&self, with: &Value) -> Option<EffectClass> {
        promise::declared(with)
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let mut fields = Fields::of(ask.fields, &[request::FIELDS, promise::FIELDS].concat())?;
        let request = Request::take(&mut fields, &self.secret_headers)?;
        self.guard
            .check(&request.url)
            .map_err(|refused| Failure::new(outcome::REFUSED, refused.to_string()))?;
        let promise = Promise::take(&mut fields, &request)?;
        let reversibility = promise.reversibility();
        let for_step = || IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        let key = promise.key.unwrap_or_else(for_step);
        Ok(Action {
            tool: self.name(),
            contract: CONTRACT,
            class: promise.class,
            reversibility,
            target: request.target().to_owned(),
            // A rollback that names the key of its step would otherwise be taken for done.
            key: if ask.undo { key.undo() } else { key },
            key_retention: promise.key_retention,
            changes: Vec::new(),
            destructive: request.method == reqwest::Method::DELETE,
            estimate_microusd: None,
            fields: request.to_fields(),
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let outcome = self.attempt(&call).await;
        if call.again && call.action.class.has_effect() { outcome.after_open_attempt() } else { outcome }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::{Millis, Reversibility, RunId, RunKey, StepId, TenantId};
    use serde_json::json;

    fn propose(with: Value, undo: bool) -> Result<Action, Failure> {
        let run = RunKey { tenant: TenantId::new("acme").unwrap(), run: RunId::new("run-1").unwrap() };
        let tool = HttpRequest::new(Allow::default()).with_secret_headers(["X-Acme-Pass"]);
        tool.propose(Ask { run: &run, step: &StepId::new("order").unwrap(), undo, fields: with, found: None })
    }

    fn order(extra: (&str, Value)) -> Value {
        let mut with =
            json!({"method": "POST", "url": "https://api.example.com/orders?q=1", "effect": "native_key"});
        with[extra.0] = extra.1;
        with
    }

    #[test]
    fn an_action_says_what_would_be_done_with_every_default() {
        let action = propose(order(("body", json!({"sku": 1}))), false).unwrap();
        assert_eq!(action.class, EffectClass::NativeKey);
        assert_eq!(action.reversibility, Reversibility::Compensable);
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
    fn the_author_may_name_the_effect() {
        let with = order(("idempotency_key", json!("order-4711")));
        assert_eq!(propose(with, false).unwrap().key.as_str(), "order-4711");
    }

    #[test]
    fn undoing_has_a_key_of_its_own_even_where_the_author_repeats_it() {
        for with in [order(("timeout", json!("5s"))), order(("idempotency_key", json!("order-4711")))] {
            let done = propose(with.clone(), false).unwrap();
            assert_eq!(propose(with, true).unwrap().key, done.key.undo());
        }
    }

    #[test]
    fn an_unknown_field_is_refused_with_the_known_ones() {
        let error = propose(order(("boddy", json!(1))), false).unwrap_err();
        assert!(
            error.message.starts_with("unknown field `boddy`; known are `method`, `url`"),
            "{}",
            error.message
        );
        assert!(error.message.ends_with("`idempotency_key`, `key_retention`"), "{}", error.message);
    }

    #[test]
    fn a_header_that_the_operator_calls_secret_is_refused() {
        let error = propose(order(("headers", json!({"x-acme-pass": "hunter2"}))), false).unwrap_err();
        assert!(error.message.contains("credentials are not part of a workflow"), "{}", error.message);
    }

    #[test]
    fn what_can_be_refused_at_once_is_never_proposed() {
        let error = propose(json!({"url": "http://10.0.0.1/"}), false).unwrap_err();
        assert_eq!(error.code, "HTTP_REFUSED");
    }
}
