//! Two tenants with a run each, and people with keys.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use api::CursorSecret;
use api::auth::session::{Over, Sessions};
use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode, header};
use connectors::{Ask, Call, Done, Outcome, Survey, Tool, Toolbox};
use countersign_console::{Console, Parts, router};
use domain::access::{ShownKey, secret_digest};
use domain::{
    Action, ApiKey, Approval, Cause, Digest, EffectClass, Failure, FieldChange, IdempotencyKey, Initiator,
    KeyId, PersonId, Reversibility, Role, RunKey, TenantId, Timestamp, ToolName,
};
use engine::{AdvanceLimits, Engine, Sealing, StartRun, Timing};
use evidence::SigningKey;
use serde_json::{Value, json};
use store::{Access as _, Governance as _, PageQuery, SqliteOptions, SqliteStore, SystemClock};
use tower::ServiceExt as _;

/// Changes one record outside, which needs approval in production.
pub(crate) const CHANGE: &str = "\
workflow: change-it
version: 3
environment: prod
sample: { to: \"a sample\" }
steps:
  - { id: set, tool: test.set, with: { to: \"${ trigger.to }\" }, rollback: auto }
  - { id: ask, tool: approval.gate, with: { message: \"Was it right?\" } }
";

/// Changes a record under a key that every run shares, and nobody is asked.
pub(crate) const ONCE: &str = "\
workflow: once
version: 1
environment: dev
steps:
  - { id: update, tool: test.once, blast_radius: low }
";

/// Every page with nothing to name.
pub(crate) const PAGES: [&str; 5] = ["/", "/runs", "/approvals", "/workflows", "/health"];

struct SetIt(Mutex<String>);

#[async_trait]
impl Tool for SetIt {
    fn name(&self) -> ToolName {
        "test.set".parse().unwrap()
    }

    async fn survey(&self, _ask: &Ask<'_>) -> Survey {
        Survey::Found(json!(*self.0.lock().unwrap()))
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        let key = IdempotencyKey::for_step(&self.name(), &ask.run.run, ask.step);
        let (before, after) = (ask.found.cloned(), ask.fields["to"].clone());
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: EffectClass::CompareAndSet,
            reversibility: Reversibility::Inverse,
            target: "the record".to_owned(),
            key: if ask.undo { key.undo() } else { key },
            key_retention: None,
            changes: vec![FieldChange { field: "says".to_owned(), before, after }],
            destructive: false,
            estimate_microusd: None,
            fields: ask.fields,
        })
    }

    async fn perform(&self, call: Call<'_>) -> Outcome {
        let change = &call.action.changes[0];
        let mut says = self.0.lock().unwrap();
        let before = json!(*says);
        change.after.as_str().unwrap().clone_into(&mut says);
        let inverse = json!({ "tool": "test.set", "with": { "to": before } });
        Outcome::Done(Done { inverse: Some(inverse), ..Done::default() })
    }
}

/// Fails the first time, for good, and never again.
#[derive(Default)]
struct FailsFirst(AtomicBool);

#[async_trait]
impl Tool for FailsFirst {
    fn name(&self) -> ToolName {
        "test.once".parse().unwrap()
    }

    fn propose(&self, ask: Ask<'_>) -> Result<Action, Failure> {
        Ok(Action {
            tool: self.name(),
            contract: 1,
            class: EffectClass::NativeKey,
            reversibility: Reversibility::Inverse,
            target: "the shared record".to_owned(),
            key: "the-one-update".parse().unwrap(),
            key_retention: None,
            changes: Vec::new(),
            destructive: false,
            estimate_microusd: None,
            fields: ask.fields,
        })
    }

    async fn perform(&self, _call: Call<'_>) -> Outcome {
        if self.0.swap(true, Ordering::SeqCst) {
            return Outcome::Done(Done::default());
        }
        Outcome::Terminal(Failure::new("NO_SUCH_FIELD", "the record has no such field"))
    }
}

/// A console on a store of its own.
pub(crate) struct Scene {
    pub(crate) engine: Arc<Engine<SqliteStore>>,
    pub(crate) router: Router,
}

/// An answer.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn location(&self) -> &str {
        self.headers[header::LOCATION].to_str().unwrap()
    }

    /// The session that it begins.
    pub(crate) fn cookie(&self) -> String {
        let set = self.headers[header::SET_COOKIE].to_str().unwrap();
        set.split(';').next().unwrap().to_owned()
    }

    /// What a form on the page must bring.
    pub(crate) fn token(&self) -> String {
        let (_, rest) = self.body.split_once("name=\"token\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

impl Scene {
    pub(crate) fn new() -> Self {
        let key = SigningKey::from_seed([7; 32]);
        let public = key.public();
        let engine = Arc::new(Engine::new(engine::Parts {
            store: Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap()),
            tools: Toolbox::default().with(SetIt(Mutex::new("old".to_owned()))).with(FailsFirst::default()),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: Some(Sealing { key: Arc::new(key), origin: "test.example/log".to_owned() }),
        }));
        let sessions = Arc::new(Sessions::new([1; 32], Over::Https));
        let cursors = CursorSecret::new([2; 32]);
        let parts = Parts { engine: Arc::clone(&engine), sessions, cursors, key: Some(public) };
        let console = Console::new(parts);
        Self { router: router(Arc::new(console)), engine }
    }

    /// A key of `person`, as it is shown to them.
    pub(crate) async fn key(&self, tenant: &str, person: &str, roles: &[Role]) -> String {
        let tenant: TenantId = tenant.parse().unwrap();
        let person: PersonId = person.parse().unwrap();
        let id = KeyId::new(&Digest::of_bytes(person.as_str().as_bytes()).short()).unwrap();
        let secret = "0123456789abcdef".repeat(4);
        let key = ApiKey {
            secret: secret_digest(&tenant, &id, &secret),
            tenant: tenant.clone(),
            id: id.clone(),
            person,
            roles: roles.iter().copied().collect(),
            note: String::new(),
            created_at: Timestamp(0),
            expires_at: None,
            revoked_at: None,
            revision: 0,
        };
        self.engine.store().put_key(key).await.unwrap();
        ShownKey::write(&tenant, &id, &secret)
    }

    pub(crate) async fn revoke(&self, tenant: &str) {
        let tenant: TenantId = tenant.parse().unwrap();
        for key in self.engine.store().keys(&tenant, PageQuery::first(100)).await.unwrap().keys {
            let revision = key.revision + 1;
            let key = ApiKey { revoked_at: Some(Timestamp(1)), revision, ..key };
            self.engine.store().put_key(key).await.unwrap();
        }
    }

    /// The session of somebody with these roles.
    pub(crate) async fn enter(&self, tenant: &str, person: &str, roles: &[Role]) -> String {
        let key = self.key(tenant, person, roles).await;
        let answer = self.send("/login", "", &[("key", &key), ("next", "/runs")]).await;
        assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
        answer.cookie()
    }

    /// A run that was asked for by ada and waits for somebody to say yes.
    pub(crate) async fn run(&self, tenant: &str, to: &str) -> RunKey {
        self.run_of(CHANGE, tenant, json!({ "to": to })).await
    }

    pub(crate) async fn run_of(&self, source: &str, tenant: &str, input: Value) -> RunKey {
        self.run_about(None, source, tenant, input).await
    }

    /// The same, about a record outside.
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

    /// The same, which nobody has worked on.
    pub(crate) async fn started(
        &self,
        record: Option<&str>,
        source: &str,
        tenant: &str,
        input: Value,
    ) -> RunKey {
        let names = self.engine.tools().names().cloned().collect();
        let plan = workflow::parse(source, &names).unwrap();
        let tenant: TenantId = tenant.parse().unwrap();
        let by = Initiator::new(Cause::User, "ada");
        self.engine.apply(&tenant, &plan, by.clone()).await.unwrap();
        let key = format!("{}:{input}", plan.workflow);
        let key = Digest::of_bytes(key.as_bytes()).short();
        let wish = StartRun {
            tenant,
            workspace: "main".parse().unwrap(),
            plan,
            trigger_kind: "test".to_owned(),
            record: record.map(|record| record.parse().unwrap()),
            key: key.parse().unwrap(),
            input,
            by,
        };
        self.engine.start(wish).await.unwrap().run
    }

    pub(crate) async fn advance(&self, run: &RunKey) {
        Box::pin(self.engine.advance(run, &(), AdvanceLimits::default())).await.unwrap();
    }

    pub(crate) async fn asked(&self, run: &RunKey) -> Approval {
        self.engine.store().approvals(run).await.unwrap().pop().unwrap()
    }

    pub(crate) async fn get(&self, path: &str, cookie: &str) -> Answer {
        self.ask(Request::get(path).header(header::COOKIE, cookie).body(Body::empty()).unwrap()).await
    }

    /// A form that a page of this server sends.
    pub(crate) async fn send(&self, path: &str, cookie: &str, fields: &[(&str, &str)]) -> Answer {
        let request = Request::post(path)
            .header(header::COOKIE, cookie)
            .header(header::HOST, "console.example")
            .header(header::ORIGIN, "https://console.example")
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        self.ask(request.body(Body::from(form(fields))).unwrap()).await
    }

    pub(crate) async fn ask(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body = String::from_utf8(to_bytes(body, usize::MAX).await.unwrap().to_vec()).unwrap();
        Answer { status: parts.status, headers: parts.headers, body }
    }
}

pub(crate) fn form(fields: &[(&str, &str)]) -> String {
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<Vec<_>>().concat();
    fields.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect::<Vec<_>>().join("&")
}
