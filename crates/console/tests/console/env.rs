//! A console with test tools, runs and API keys.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use api::CursorSecret;
use api::auth::session::{CookieSecurity, Sessions};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use connectors::{
    HostAllowList, OperatorConnections, ProposalRequest, TenantConnections, Tool, ToolCall, ToolOutcome,
    ToolResult,
};
use countersign_console::{Console, Parts, router};
use domain::{
    Action, ApiKey, Digest, EffectClass, Failure, Reversibility, Role, RunKey, TenantId, Timestamp, ToolName,
};
use engine::{ConnectionParts, StartRun};
use serde_json::{Value, json};
use store::{Access as _, PageQuery};
use testkit::{ExternalRecord, SetRecord, TestEnv};
use tower::ServiceExt as _;

/// Changes an external record, which needs approval in production.
pub(crate) const CHANGE: &str = "\
workflow: change-it
version: 3
environment: prod
sample: { to: \"a sample\" }
steps:
  - { id: set, tool: test.set, with: { to: \"${ trigger.to }\" }, rollback: auto }
  - { id: ask, tool: approval.gate, with: { message: \"Was it right?\" } }
";

/// Changes a record under an idempotency key that all runs share, without approval.
pub(crate) const ONCE: &str = "\
workflow: once
version: 1
environment: dev
steps:
  - { id: update, tool: test.once, blast_radius: low }
";

/// The pages without path parameters.
pub(crate) const PAGES: [&str; 7] =
    ["/", "/runs", "/approvals", "/workflows", "/connections", "/audit", "/health"];

/// Fails terminally the first time and then succeeds.
#[derive(Default)]
struct FailsFirst(AtomicBool);

#[async_trait]
impl Tool for FailsFirst {
    fn name(&self) -> ToolName {
        "test.once".parse().unwrap()
    }

    fn propose(&self, ask: ProposalRequest<'_>) -> Result<Action, Failure> {
        Ok(Action {
            class: EffectClass::NativeKey,
            reversibility: Reversibility::Inverse,
            target: "the shared record".to_owned(),
            key: "the-one-update".parse().unwrap(),
            ..testkit::action(self.name(), ask)
        })
    }

    async fn perform(&self, _call: ToolCall<'_>) -> ToolOutcome {
        if self.0.swap(true, Ordering::SeqCst) {
            return ToolOutcome::Done(ToolResult::default());
        }
        ToolOutcome::Terminal(Failure::new("NO_SUCH_FIELD", "the record has no such field"))
    }
}

pub(crate) struct ConsoleEnv {
    env: TestEnv,
    pub(crate) router: Router,
}

impl Deref for ConsoleEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

pub(crate) struct Page {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Page {
    pub(crate) fn location(&self) -> &str {
        self.headers[header::LOCATION].to_str().unwrap()
    }

    /// The cookie of the new session.
    pub(crate) fn cookie(&self) -> String {
        let set = self.headers[header::SET_COOKIE].to_str().unwrap();
        set.split(';').next().unwrap().to_owned()
    }

    /// The token that forms on the page must send.
    pub(crate) fn token(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

impl ConsoleEnv {
    pub(crate) fn new() -> Self {
        let record =
            Arc::new(ExternalRecord { says: Mutex::new("old".to_owned()), ..ExternalRecord::default() });
        let tools = connectors::standard_tools(HostAllowList::default());
        let tools = tools.with(SetRecord(record)).with(FailsFirst::default());
        let engine = testkit::engine().tools(tools).connections(granting("acme", "vault://kv/acme/"));
        let env = engine.signed().env();
        let public = testkit::signing_key().public();
        let sessions = Arc::new(Sessions::new([1; 32], CookieSecurity::Https));
        let cursors = CursorSecret::new([2; 32]);
        let parts = Parts { engine: Arc::clone(&env.engine), sessions, cursors, keys: Some(public.into()) };
        let console = Console::new(parts);
        Self { router: router(Arc::new(console)), env }
    }

    pub(crate) async fn revoke(&self, tenant: &str) {
        let tenant: TenantId = tenant.parse().unwrap();
        for key in self.store().keys(&tenant, PageQuery::first(100)).await.unwrap().keys {
            let revision = key.revision + 1;
            let key = ApiKey { revoked_at: Some(Timestamp(1)), revision, ..key };
            self.store().put_key(key).await.unwrap();
        }
    }

    /// The session cookie of a user with these roles.
    pub(crate) async fn log_in(&self, tenant: &str, person: &str, roles: &[Role]) -> String {
        let key = self.put_key(tenant, person, roles).await;
        let page = self.send("/login", "", &[("key", &key), ("next", "/runs")]).await;
        assert_eq!(page.status, StatusCode::SEE_OTHER, "{}", page.body);
        page.cookie()
    }

    /// A run that ada requested and that waits for approval.
    pub(crate) async fn run(&self, tenant: &str, to: &str) -> RunKey {
        self.run_of(CHANGE, tenant, json!({ "to": to })).await
    }

    pub(crate) async fn run_of(&self, source: &str, tenant: &str, input: Value) -> RunKey {
        self.run_about(None, source, tenant, input).await
    }

    /// The same, about an external record.
    pub(crate) async fn run_about(
        &self,
        record: Option<&str>,
        source: &str,
        tenant: &str,
        input: Value,
    ) -> RunKey {
        let run = self.started(record, source, tenant, input).await;
        self.advance(&run).await;
        run
    }

    /// The same, but not advanced.
    pub(crate) async fn started(
        &self,
        record: Option<&str>,
        source: &str,
        tenant: &str,
        input: Value,
    ) -> RunKey {
        let plan = testkit::plan(&self.engine, source);
        self.handle_of(tenant, "ada").apply(&plan).await.unwrap();
        let key = format!("{}:{input}", plan.workflow);
        let key = Digest::of_bytes(key.as_bytes()).short();
        let record = record.map(|record| record.parse().unwrap());
        let tenant = tenant.parse().unwrap();
        self.start_as(StartRun { tenant, record, input, ..self.request(source, &key) }).await
    }

    pub(crate) async fn get(&self, path: &str, cookie: &str) -> Page {
        self.send_request(Request::get(path).header(header::COOKIE, cookie).body(Body::empty()).unwrap())
            .await
    }

    /// Sends a form from a page of this server.
    pub(crate) async fn send(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Page {
        let request = Request::post(path)
            .header(header::COOKIE, cookie)
            .header(header::HOST, "console.example")
            .header(header::ORIGIN, "https://console.example")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.send_request(request.body(Body::from(form(fields))).unwrap()).await
    }

    pub(crate) async fn send_request(&self, request: Request<Body>) -> Page {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        Page { status: parts.status, headers: parts.headers, body }
    }
}

/// The operator of the installation lets `tenant` name these secrets.
fn granting(tenant: &str, secrets: &str) -> ConnectionParts {
    let grants =
        TenantConnections { secrets: vec![secrets.parse().unwrap()], ..TenantConnections::default() };
    let operator = OperatorConnections {
        tenants: [(tenant.parse().unwrap(), grants)].into(),
        ..OperatorConnections::default()
    };
    ConnectionParts { operator: Arc::new(operator), ..ConnectionParts::default() }
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}
