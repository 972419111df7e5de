//! Clicks, commands and shortcuts in a fake Slack, up to the runs they affect.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::net::TcpListener;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use ::slack::signature::{SIGNATURE_HEADER, TIMESTAMP_HEADER};
use ::slack::start_modal::{self, INPUT_BLOCK, INPUT_TEXT, WORKFLOW_BLOCK};
use ::slack::{Secrets, Slack, card};
use bytes::Bytes;
use config::{ConnectionNotifier, ProcessContext, SystemsConfig};
use connectors::{HostAllowList, ToolRegistry};
use countersign_ingress::slack::{SlackInstallation, command, interaction};
use domain::tenant::Person;
use domain::{
    Card, Cause, InboxEntry, InboxStatus, Initiator, QueueName, Role, RunKey, RunStatus, Tenant, Timestamp,
};
use engine::{ConnectionParts, Engine, StartRun};
use fakes::slack::{ButtonPress, Callback, FakeSlack, ShortcutUse, Submission, View};
use http::{Request, Response};
use secrecy::SecretString;
use serde_json::{Value, json};
use signing::sign;
use store::{
    Governance as _, Inbox as _, Intercepted, Ledger as _, Queue as _, SqliteStore, Store, StoreError,
};
use testkit::{ASK, Fault, Faults, HttpStub, StubReply, TestEnv};
use tokio::time::{self, Instant};

const SECRET: &str = "fake-signing-secret";

/// A run with a pending approval, a fake Slack that shows it, and the installation that receives its requests.
struct SlackEnv {
    env: TestEnv,
    slack: FakeSlack,
    installation: SlackInstallation,
    run: RunKey,
}

fn client(url: &str) -> Slack {
    let settings = slack::client::SlackClientSettings {
        base_url: format!("{url}/api").parse().unwrap(),
        token: SecretString::from("xoxb-fake"),
        channel: "C0APPROVALS".to_owned(),
    };
    Slack::new(settings).unwrap()
}

/// A Slack connection of every tenant.
fn connections(url: &str) -> ConnectionParts {
    connection("slack", "C0APPROVALS", url)
}

fn connection(name: &str, channel: &str, url: &str) -> ConnectionParts {
    let text = format!(
        "connections: [ {{ name: {name}, kind: slack, base_url: '{url}/api', options: {{ channel: {channel} }},\n  \
         credential: {{ type: bearer, token: 'env://TOKEN' }} }} ]"
    );
    let systems = SystemsConfig::parse(&text).unwrap();
    let token = |_: &str| Some("xoxb-fake".to_owned());
    systems.connection_parts(token, ProcessContext::without_aws(|| Timestamp(0))).unwrap()
}

fn directory() -> Tenant {
    let mut tenant = Tenant::new("acme".parse().unwrap());
    for (person, user) in [("anna", "U0ANNA"), ("ben", "U0BEN")] {
        let slack = Some(format!("T0SIM:{user}"));
        let slack_roles = [Role::Operator, Role::Approver].into_iter().collect();
        tenant.people.insert(person.parse().unwrap(), Person { slack, oidc: None, slack_roles });
    }
    tenant
}

impl Deref for SlackEnv {
    type Target = TestEnv;

    fn deref(&self) -> &TestEnv {
        &self.env
    }
}

impl SlackEnv {
    async fn new() -> Self {
        Self::with_workflow(ASK).await
    }

    /// A run of `workflow`, which waits for an approval.
    async fn with_workflow(workflow: &str) -> Self {
        Self::with_tools(ToolRegistry::default(), workflow).await
    }

    async fn with_tools(tools: ToolRegistry, workflow: &str) -> Self {
        let slack = FakeSlack::start().await.unwrap();
        let notifier = Some(Arc::new(ConnectionNotifier::default()) as _);
        let engine = testkit::engine().tools(tools).connections(connections(&slack.url()));
        let env = engine.notifier(notifier).env();
        env.store().put_tenant(directory()).await.unwrap();
        let by = Initiator::new(Cause::User, "anna");
        let run = env.start_as(StartRun { by, ..env.request(workflow, "k") }).await;
        env.advance(&run).await;
        let secrets = Secrets::new(SecretString::from(SECRET)).unwrap();
        let installation = SlackInstallation::new("acme".parse().unwrap(), secrets, client(&slack.url()));
        let env = Self { env, slack, installation, run };
        env.post_card().await;
        env
    }

    async fn post_card(&self) {
        let approval = self.approval(&self.run).await;
        self.engine.governance().notify_approval(&self.run, &approval.id, approval.revision).await.unwrap();
    }

    fn press(&self, action: &str, user: &str) -> Callback {
        self.press_on(0, action, user)
    }

    /// Presses a button on the card that was posted after `earlier` others.
    fn press_on(&self, earlier: usize, action: &str, user: &str) -> Callback {
        let message = &self.slack.messages()[earlier];
        let place = format!("{}/{}", message.channel, message.ts);
        let at_secs = self.engine.now().0 / 1_000;
        let press = ButtonPress { place: &place, action_id: action, user, team: "T0SIM", at_secs };
        self.slack.press(&press).unwrap()
    }

    /// The card that was posted after `earlier` others.
    fn card(&self, earlier: usize) -> String {
        serde_json::to_string(&self.slack.messages()[earlier].blocks).unwrap()
    }

    /// Resumes the run as `person`, and posts the card of the approval that it then waits for.
    async fn resume(&self, person: &str) {
        self.handle(person).resume(&self.run.run, "again").await.unwrap();
        assert_eq!(self.advance(&self.run).await, RunStatus::WaitingApproval);
        self.post_card().await;
    }

    /// Ben rejects the approval with `reason`.
    async fn reject(&self, reason: &str) {
        assert_eq!(self.deliver(&self.press(card::REJECT, "U0BEN")).await.status(), 200);
        let view = self.slack.views().pop().unwrap();
        let (view, at_secs) = (view.id.as_str(), self.engine.now().0 / 1_000);
        let submission =
            Submission { view, user: "U0BEN", team: "T0SIM", text: reason, choice: None, at_secs };
        assert_eq!(self.deliver(&self.slack.submit_view(&submission).unwrap()).await.status(), 200);
    }

    async fn deliver(&self, callback: &Callback) -> Response<String> {
        deliver(&self.engine, &self.installation, callback).await
    }

    /// Types `text` after `/countersign`; returns the reply.
    async fn type_command(&self, user: &str, text: &str) -> String {
        self.type_command_as(user, text, "13345224609.738474920.8088930838d88f008e0").await
    }

    /// The same, with Slack's id `trigger`.
    async fn type_command_as(&self, user: &str, text: &str, trigger: &str) -> String {
        type_command(&self.engine, &self.installation, user, text, trigger).await
    }

    /// Applies the workflow for acme, and a workflow `theirs` for another tenant.
    async fn apply_workflows(&self) {
        let theirs = ASK.replace("workflow: w", "workflow: theirs");
        for (tenant, source) in [("acme", ASK), ("umbrella", theirs.as_str())] {
            self.handle_of(tenant, "ada").apply(&testkit::plan(&self.engine, source)).await.unwrap();
        }
    }

    /// `user` uses the global shortcut, or the message shortcut on the card.
    fn shortcut(&self, user: &str, on_card: bool) -> Callback {
        let place = on_card.then(|| self.slack.messages()[0].place());
        let callback_id = if on_card { start_modal::ON_MESSAGE } else { start_modal::START };
        let at_secs = self.engine.now().0 / 1_000;
        let shortcut = ShortcutUse { callback_id, place: place.as_deref(), user, team: "T0SIM", at_secs };
        self.slack.use_shortcut(&shortcut).unwrap()
    }

    /// The modal that a shortcut opens for `user`.
    async fn modal(&self, user: &str, on_card: bool) -> View {
        let response = self.deliver(&self.shortcut(user, on_card)).await;
        assert_empty(&response);
        self.slack.views().pop().unwrap()
    }

    /// Ben submits `view`.
    fn submission(&self, view: &View, choice: &str, text: &str) -> Callback {
        let (choice, at_secs) = (Some(choice), self.engine.now().0 / 1_000);
        let submission = Submission { view: &view.id, user: "U0BEN", team: "T0SIM", text, choice, at_secs };
        self.slack.submit_view(&submission).unwrap()
    }

    /// The id of the run that `view` starts.
    fn run_of(&self, view: &View) -> RunKey {
        InboxEntry::run_of(&self.installation.tenant, &format!("slack:T0SIM:{}", view.id).parse().unwrap())
    }

    async fn is_accepted(&self, view: &View) -> bool {
        self.store().entry(&self.run_of(view)).await.unwrap().is_some()
    }

    /// The direct messages of the app to `user`.
    fn direct_messages(&self, user: &str) -> Vec<String> {
        let messages = self.slack.messages().into_iter();
        messages.filter(|message| message.channel == user).map(|message| message.text).collect()
    }

    async fn status(&self) -> RunStatus {
        self.env.status(&self.run).await
    }
}

async fn deliver<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    callback: &Callback,
) -> Response<String> {
    let request = request(&callback.timestamp, &callback.signature, &callback.body);
    Box::pin(interaction(engine, installation, &request)).await
}

fn request(timestamp: &str, signature: &str, body: &[u8]) -> Request<Bytes> {
    Request::post("/")
        .header(TIMESTAMP_HEADER, timestamp)
        .header(SIGNATURE_HEADER, signature)
        .body(Bytes::copy_from_slice(body))
        .unwrap()
}

/// Asserts that Slack gets an empty 200.
#[track_caller]
fn assert_empty(response: &Response<String>) {
    assert_eq!((response.status().as_u16(), response.body().as_str()), (200, ""));
}

/// The reply to `text` after `/countersign`, with Slack's id `trigger`.
async fn type_command<S: Store>(
    engine: &Engine<S>,
    installation: &SlackInstallation,
    user: &str,
    text: &str,
    trigger: &str,
) -> String {
    let fields = [
        ("team_id", "T0SIM"),
        ("user_id", user),
        ("command", "/countersign"),
        ("text", text),
        ("trigger_id", trigger),
    ];
    let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
    let timestamp = (engine.now().0 / 1_000).to_string();
    let signature = sign(&SECRET.into(), &timestamp, body.as_bytes());
    let request = request(&timestamp, &signature, body.as_bytes());
    let response = command(engine, installation, &request).await;
    let shown: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!((response.status().as_u16(), &shown["response_type"]), (200, &json!("ephemeral")));
    // Slack formats nothing of the reply.
    let blocks = shown["blocks"].as_array().unwrap().iter().map(|block| block["text"]["type"].clone());
    assert!(blocks.clone().all(|kind| kind == "plain_text") && blocks.count() > 0, "{shown}");
    shown["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn approval_click_ends_the_wait_and_updates_the_card() {
    let env = SlackEnv::new().await;
    let response = env.deliver(&env.press(card::APPROVE, "U0BEN")).await;
    assert_eq!((response.status().as_u16(), env.status().await), (200, RunStatus::Succeeded));
    env.post_card().await;
    let shown = serde_json::to_string(&env.slack.messages()[0].blocks).unwrap();
    assert!(shown.contains("ben") && !shown.contains(card::APPROVE), "{shown}");
}

impl SlackEnv {
    /// Updates the card in a process with another Slack connection.
    async fn post_card_on(&self, name: &str, channel: &str) {
        let connections = connection(name, channel, &self.slack.url());
        let notifier = Some(Arc::new(ConnectionNotifier::default()) as _);
        let engine = testkit::engine().connections(connections).notifier(notifier);
        let engine = engine.on(SqliteStore::clone(self.store()));
        let approval = self.approval(&self.run).await;
        engine.governance().notify_approval(&self.run, &approval.id, approval.revision).await.unwrap();
    }
}

#[tokio::test]
async fn card_is_updated_where_it_was_posted() {
    let env = SlackEnv::new().await;
    env.deliver(&env.press(card::APPROVE, "U0BEN")).await;
    env.post_card_on("slack", "C0ELSEWHERE").await;
    let messages = env.slack.messages();
    assert_eq!((messages.len(), messages[0].edits), (1, 1));
}

#[tokio::test]
async fn card_of_a_removed_connection_is_posted_again() {
    let env = SlackEnv::new().await;
    let approval = env.approval(&env.run).await;
    let stored = env.store().card(&env.run.tenant, &approval.id).await.unwrap();
    let older = stored.clone().map(|card| Card { revision: 0, ..card }).unwrap();
    env.store().put_card(&env.run.tenant, &approval.id, older, stored).await.unwrap();
    env.post_card_on("slack-2", "C0APPROVALS").await;
    assert_eq!(env.slack.messages().len(), 2);
    let stored = env.store().card(&env.run.tenant, &approval.id).await.unwrap().unwrap();
    assert_eq!(stored.connection, Some("slack-2".parse().unwrap()));
}

#[tokio::test]
async fn requester_cannot_approve_in_slack() {
    let env = SlackEnv::new().await;
    let response = env.deliver(&env.press(card::APPROVE, "U0ANNA")).await;
    assert_eq!((response.status().as_u16(), env.status().await), (200, RunStatus::WaitingApproval));
    let text = serde_json::to_string(&env.slack.answers()).unwrap();
    assert!(text.contains("cannot approve it"), "{text}");
}

#[tokio::test]
async fn unknown_slack_user_cannot_decide() {
    let env = SlackEnv::new().await;
    let response = env.deliver(&env.press(card::APPROVE, "U0CARA")).await;
    assert_eq!((response.status().as_u16(), env.status().await), (200, RunStatus::WaitingApproval));
}

#[tokio::test]
async fn incomplete_card_is_not_approved_in_slack() {
    let env = SlackEnv::with_workflow(&ASK.replace("Go on?", &"&".repeat(1_000))).await;
    let console = "https://countersign.acme.example/".parse().unwrap();
    let slack = client(&env.slack.url()).with_console(console);
    let secrets = Secrets::new(SecretString::from(SECRET)).unwrap();
    let installation = SlackInstallation::new("acme".parse().unwrap(), secrets, slack);
    let shown = serde_json::to_string(&env.slack.messages()[0].blocks).unwrap();
    assert!(shown.contains(card::REJECT) && !shown.contains(card::APPROVE), "{shown}");
    // A click on a button that the card does not have.
    let mut payload = env.press(card::REJECT, "U0BEN").payload();
    payload["actions"][0]["action_id"] = json!(card::APPROVE);
    let click = Callback::signed(&payload, SECRET, env.engine.now().0 / 1_000);
    assert_empty(&deliver(&env.engine, &installation, &click).await);
    assert_eq!(env.status().await, RunStatus::WaitingApproval);
    let approval = env.approval(&env.run).await;
    assert_eq!(approval.votes, []);
    let reply = serde_json::to_string(&env.slack.answers()).unwrap();
    assert!(reply.contains("question") && reply.contains(approval.id.as_str()), "{reply}");
    assert!(reply.contains("countersign.acme.example/approvals/"), "{reply}");
}

/// The requester asks again for an action or a question that an approver has rejected.
#[tokio::test]
async fn rejection_hidden_on_second_request() {
    let env = SlackEnv::with_workflow(&ASK.replace("'Go on?'", "'Go on?', on_reject: pause")).await;
    env.reject("the account is wrong").await;
    assert_eq!(env.status().await, RunStatus::Paused);

    env.resume("anna").await;

    let shown = env.card(1);
    assert!(shown.contains("An earlier request was rejected by ben at "), "{shown}");
    assert!(shown.contains(": the account is wrong"), "{shown}");
}

/// A payment whose reply is lost may have been made. Anna requested the run; Anna or Ben asks for another attempt.
#[tokio::test]
async fn retry_of_unknown_hides_first_attempt() {
    for (resumer, refused) in [("anna", &["U0ANNA"][..]), ("ben", &["U0ANNA", "U0BEN"])] {
        let bank = HttpStub::answering(StubReply::none());
        let tools = connectors::standard_tools(HostAllowList { hosts: vec!["127.0.0.1".parse().unwrap()] });
        let pay = format!("tool: http.request, with: {{ method: POST, url: '{}' }}", bank.url("/payments"));
        let workflow =
            format!("workflow: w\nversion: 1\nenvironment: prod\nsteps:\n  - {{ id: pay, {pay} }}\n");
        let env = SlackEnv::with_tools(tools, &workflow).await;
        env.deliver(&env.press(card::APPROVE, "U0BEN")).await;
        assert_eq!(env.advance(&env.run).await, RunStatus::Paused);
        assert_eq!(bank.requests().len(), 1);

        env.resume(resumer).await;

        let warning = "This action may already have happened: it was attempted at ";
        assert!(!env.card(0).contains(warning) && env.card(1).contains(warning), "{}", env.card(1));
        for user in refused {
            env.deliver(&env.press_on(1, card::APPROVE, user)).await;
        }
        assert_eq!(env.advance(&env.run).await, RunStatus::WaitingApproval);
        assert_eq!(bank.requests().len(), 1, "asked again by {resumer}");
        let approval = env.approval(&env.run).await;
        assert_eq!(approval.votes, []);
    }
}

/// The body comes before the method and the URL in the alphabet.
#[tokio::test]
async fn card_flooded_by_long_body() {
    let body = "x".repeat(10_000);
    let with = format!(
        "{{ method: DELETE, url: 'https://bank.example/accounts?owner=mallory&all=1', body: {{ a: {body} }} }}"
    );
    let workflow = format!(
        "workflow: w\nversion: 1\nenvironment: prod\nsteps:\n  - {{ id: a, tool: http.request, with: {with} }}\n"
    );
    let tools = connectors::standard_tools(HostAllowList::default());
    let env = SlackEnv::with_tools(tools, &workflow).await;

    let shown = env.card(0);
    let position = |text: &str| shown.find(text).unwrap_or_else(|| panic!("{text}: {shown}"));
    let long_text = position("xxxxxxxx");
    assert!(position("DELETE") < long_text);
    assert!(position("bank.example/accounts?owner=mallory&amp;all=1") < long_text);
    assert!(shown.contains("Not shown in full: body.a."), "{shown}");
    assert!(shown.contains(card::REJECT) && !shown.contains(card::APPROVE), "{shown}");
    // A click on a button that the card does not have.
    let mut payload = env.press(card::REJECT, "U0BEN").payload();
    payload["actions"][0]["action_id"] = json!(card::APPROVE);
    let click = Callback::signed(&payload, SECRET, env.engine.now().0 / 1_000);
    assert_empty(&env.deliver(&click).await);
    assert_eq!(env.status().await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn repeated_click_is_rejected() {
    let env = SlackEnv::new().await;
    let click = env.press(card::APPROVE, "U0BEN");
    assert_eq!(env.deliver(&click).await.status(), 200);
    assert_eq!(env.deliver(&click).await.status(), 409);
}

#[tokio::test]
async fn unsigned_click_is_rejected() {
    let env = SlackEnv::new().await;
    let mut click = env.press(card::APPROVE, "U0BEN");
    click.signature = click.signature.replace("v0=", "v0=0");
    assert_eq!(env.deliver(&click).await.status(), 401);
    assert_eq!(env.status().await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn installation_cannot_decide_for_another_tenant() {
    let mut env = SlackEnv::new().await;
    env.installation.tenant = "umbrella".parse().unwrap();
    assert_eq!(env.deliver(&env.press(card::APPROVE, "U0BEN")).await.status(), 200);
    assert_eq!(env.status().await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn rejection_asks_for_a_reason_and_records_it() {
    let env = SlackEnv::new().await;
    env.reject("not on a Friday").await;
    assert_eq!(env.status().await, RunStatus::FailedTerminal);
    let approval = env.approval(&env.run).await;
    assert_eq!(approval.votes[0].reason, "not on a Friday");
}

#[tokio::test]
async fn slack_retry_num_header() {
    let env = SlackEnv::new().await;
    let click = env.press(card::APPROVE, "U0BEN");
    assert_eq!(env.deliver(&click).await.status(), 200);
    // Slack got no response and sends the request again, signed anew, with `X-Slack-Retry-Num: 1`. The header is
    // ignored: the decision is recorded once. `lambda.rs` tests that a request with the header is handled.
    let timestamp = (env.engine.now().0 / 1_000 + 1).to_string();
    let signature = sign(&SECRET.into(), &timestamp, &click.body);
    let again = Callback { timestamp, signature, body: click.body.clone() };
    assert_eq!(env.deliver(&again).await.status(), 200);
    assert_eq!(env.status().await, RunStatus::Succeeded);
    let approval = env.approval(&env.run).await;
    assert_eq!(approval.votes.len(), 1);
}

#[tokio::test]
async fn commands_show_approvals_and_run_status() {
    let env = SlackEnv::new().await;
    let run = env.run.run.as_str();
    let reply = env.type_command("U0BEN", "approvals").await;
    assert!(reply.contains("`w`, step `ask`") && reply.contains("Go on?") && reply.contains(run), "{reply}");
    let status = env.type_command("U0BEN", &format!("  run   {run} ")).await;
    assert!(status.contains("waiting_approval") && status.contains("step 1 of 1"), "{status}");
    env.deliver(&env.press(card::APPROVE, "U0BEN")).await;
    assert_eq!(env.type_command("U0BEN", "approvals").await, "No pending approvals.");
}

#[tokio::test]
async fn replies_show_times_and_hosts_unchanged() {
    let question = "Restart *db1* on https://ops.example:8443 at 12:30 :tada: <!channel>?";
    let env = SlackEnv::with_workflow(&ASK.replace("Go on?", question)).await;
    let reply = env.type_command("U0BEN", "approvals").await;
    let escaped = question.replace('<', "&lt;").replace('>', "&gt;");
    assert!(reply.contains(&escaped), "{reply}");
    assert!(!reply.contains('\u{a789}'), "{reply}");
    // After the decision, the reply to a click names the time.
    env.deliver(&env.press(card::APPROVE, "U0BEN")).await;
    env.deliver(&env.press(card::APPROVE, "U0BEN")).await;
    for answer in env.slack.answers() {
        assert_eq!(answer["blocks"][0]["text"]["type"], "plain_text", "{answer}");
        assert!(!answer.to_string().contains('\u{a789}'), "{answer}");
    }
}

#[tokio::test]
async fn certificate_check_gets_an_empty_reply() {
    let env = SlackEnv::new().await;
    let body = b"ssl_check=1&token=abc";
    let timestamp = (env.engine.now().0 / 1_000).to_string();
    let signature = sign(&SECRET.into(), &timestamp, body);
    let response = command(&env.engine, &env.installation, &request(&timestamp, &signature, body)).await;
    assert_empty(&response);
}

#[tokio::test]
async fn unknown_and_other_tenants_run_look_the_same() {
    let mut env = SlackEnv::new().await;
    let own = format!("run {}", env.run.run);
    let unknown = env.type_command("U0BEN", "run unknown-run").await;
    assert_eq!(env.type_command("U0BEN", "run ../../etc").await, unknown);
    let mut others = directory();
    others.tenant = "umbrella".parse().unwrap();
    env.store().put_tenant(others).await.unwrap();
    env.installation.tenant = "umbrella".parse().unwrap();
    assert_eq!(env.type_command("U0BEN", &own).await, unknown);
    assert_eq!(env.type_command("U0BEN", "approvals").await, "No pending approvals.");
}

#[tokio::test]
async fn unknown_command_shows_the_help() {
    let env = SlackEnv::new().await;
    for typed in ["", "help", "approve everything", "run", "approvals now"] {
        assert!(env.type_command("U0BEN", typed).await.contains("/countersign run RUN"), "{typed}");
    }
}

#[tokio::test]
async fn start_command_starts_one_run_for_its_user() {
    let env = SlackEnv::new().await;
    env.apply(ASK).await;
    let text = env.type_command_as("U0BEN", r#"start w {"host": "db1"}"#, "1.2.a").await;
    let key = "slack:T0SIM:1.2.a".parse().unwrap();
    let run = InboxEntry::run_of(&testkit::acme(), &key);
    assert!(text.contains(run.run.as_str()) && text.contains("`w`"), "{text}");
    assert_eq!(env.type_command_as("U0BEN", r#"start w {"host": "db1"}"#, "1.2.a").await, text);

    env.engine.admission().process_entry(&run).await.unwrap();
    let started = env.record(&run).await;
    assert_eq!(started.trigger.kind, "slack");
    assert_eq!(started.trigger.requester.unwrap().as_str(), "ben");
    let input = env.store().input(&run).await.unwrap().unwrap();
    assert_eq!(json!(input), json!({ "inline": { "host": "db1" } }));
}

/// A workflow with one run at a time per host, named after its `on_conflict`.
fn one_at_a_time(on_conflict: &str) -> String {
    let concurrency =
        format!("concurrency: {{ key: '${{ trigger.host }}', on_conflict: {on_conflict}, scope: workflow }}");
    ASK.replace("workflow: w\n", &format!("workflow: {on_conflict}\n{concurrency}\n"))
}

#[tokio::test]
async fn start_with_a_held_concurrency_key_reports_the_outcome() {
    let env = SlackEnv::new().await;
    let acme = &env.installation.tenant;
    let run_of = |trigger: &str| InboxEntry::run_of(acme, &format!("slack:T0SIM:{trigger}").parse().unwrap());
    for (on_conflict, expected) in [
        ("join", "holds the same concurrency key"),
        ("queue", "waits for a worker or for its concurrency key"),
        ("reject", "was not started"),
    ] {
        env.apply(&one_at_a_time(on_conflict)).await;
        let triggers = ["1", "2"].map(|number| format!("1.{number}.{on_conflict}"));
        let start = format!("start {on_conflict} host=db1");
        for trigger in &triggers {
            let text = env.type_command_as("U0BEN", &start, trigger).await;
            assert!(text.contains("was accepted") && !text.contains("starts"), "{text}");
            let reply = env.type_command("U0BEN", &format!("run {}", run_of(trigger).run)).await;
            assert!(reply.contains("waits for a worker"), "{reply}");
            env.engine.admission().process_entry(&run_of(trigger)).await.unwrap();
        }
        let [first, second] = triggers.each_ref().map(|trigger| run_of(trigger).run);
        let status = env.type_command("U0BEN", &format!("run {first}")).await;
        assert!(status.contains("`queued`"), "{status}");
        let outcome = env.type_command("U0BEN", &format!("run {second}")).await;
        assert!(outcome.contains(second.as_str()) && outcome.contains(expected), "{on_conflict}: {outcome}");
        if on_conflict == "join" {
            assert!(outcome.contains(first.as_str()), "{outcome}");
            assert_eq!(env.type_command_as("U0BEN", &start, &triggers[1]).await, outcome);
        }
    }
}

#[tokio::test]
async fn other_tenants_start_request_is_not_visible() {
    let mut env = SlackEnv::new().await;
    env.apply_workflows().await;
    env.type_command_as("U0BEN", "start w", "1.2.a").await;
    let run = InboxEntry::run_of(&env.installation.tenant, &"slack:T0SIM:1.2.a".parse().unwrap()).run;
    let mut others = directory();
    others.tenant = "umbrella".parse().unwrap();
    env.store().put_tenant(others).await.unwrap();
    env.installation.tenant = "umbrella".parse().unwrap();
    let unknown = env.type_command("U0BEN", "run unknown-run").await;
    assert_eq!(env.type_command("U0BEN", &format!("run {run}")).await, unknown);
}

#[tokio::test]
async fn invalid_start_is_explained_and_starts_nothing() {
    let env = SlackEnv::new().await;
    env.apply(ASK).await;
    for (user, command, expected) in [
        ("U0BEN", "start nope", "Workflow not found"),
        ("U0BEN", "start w {", "a JSON object"),
        ("U0BEN", "start w [1]", "a JSON object"),
        ("U0BEN", "start", "/countersign start WORKFLOW"),
        ("U0BEN", "startw", "/countersign start WORKFLOW"),
        ("U0CARA", "start w", "not registered here"),
    ] {
        let text = env.type_command_as(user, command, "1.2.a").await;
        assert!(text.contains(expected), "{command}: {text}");
    }
    assert!(env.type_command_as("U0BEN", "start w", "a:b").await.contains("try again"));
    let run = InboxEntry::run_of(&testkit::acme(), &"slack:T0SIM:1.2.a".parse().unwrap());
    assert_eq!(env.store().entry(&run).await.unwrap(), None);
}

#[tokio::test]
async fn unknown_user_and_forged_command_see_nothing() {
    let env = SlackEnv::new().await;
    assert_eq!(
        env.type_command("U0CARA", "approvals").await,
        "your Slack user is not registered here; ask an administrator to add it"
    );
    let body = b"team_id=T0SIM&user_id=U0BEN&text=approvals";
    let timestamp = (env.engine.now().0 / 1_000).to_string();
    let forged = sign(&"the secret of another app".into(), &timestamp, body);
    let request = request(&timestamp, &forged, body);
    let response = command(&env.engine, &env.installation, &request).await;
    assert_eq!((response.status().as_u16(), response.body().contains("ask")), (401, false));
}

/// `callback` as Slack would send it `secs` later.
fn later(callback: &Callback, secs: i64) -> Callback {
    let at_secs = callback.timestamp.parse::<i64>().unwrap() + secs;
    Callback::signed(&callback.payload(), SECRET, at_secs)
}

/// The error that an open modal shows at the field of `block`.
fn field_error(response: &Response<String>, block: &str) -> String {
    let shown: Value = serde_json::from_str(response.body()).unwrap();
    assert_eq!((response.status().as_u16(), &shown["response_action"]), (200, &json!("errors")), "{shown}");
    assert_eq!(shown["errors"].as_object().unwrap().len(), 1, "{shown}");
    shown["errors"][block].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn shortcut_opens_a_modal_with_the_workflows() {
    let env = SlackEnv::new().await;
    assert!(env.modal("U0BEN", false).await.view.to_string().contains("No workflow is applied."));
    env.apply_workflows().await;
    let view = env.modal("U0BEN", false).await;
    assert_eq!((view.user.as_str(), &view.view["callback_id"]), ("U0BEN", &json!(start_modal::CALLBACK_ID)));
    let options = view.view["blocks"][1]["element"]["options"].as_array().unwrap().clone();
    let names: Vec<_> = options.iter().map(|option| option["value"].as_str().unwrap()).collect();
    assert_eq!(names, ["w"]);
}

#[tokio::test]
async fn modal_starts_one_run_however_often_submitted() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let view = env.modal("U0BEN", false).await;
    let sent = env.submission(&view, "w", "host=db1");
    assert_empty(&env.deliver(&sent).await);
    assert_eq!(env.deliver(&sent).await.status(), 409);
    for secs in 1..3 {
        assert_empty(&env.deliver(&later(&sent, secs)).await);
    }
    let run = env.run_of(&view);
    env.engine.admission().process_entry(&run).await.unwrap();
    let started = env.record(&run).await;
    assert_eq!((started.trigger.kind.as_str(), started.workflow.as_str()), ("slack", "w"));
    assert_eq!(started.trigger.requester.unwrap().as_str(), "ben");
    let input = env.store().input(&run).await.unwrap().unwrap();
    assert_eq!(json!(input), json!({ "inline": { "host": "db1" } }));
    let text = env.direct_messages("U0BEN");
    assert!(text[0].contains(run.run.as_str()) && text[0].contains("`w`"), "{text:?}");
    assert!(text.iter().all(|again| *again == text[0]), "{text:?}");
}

#[tokio::test]
async fn resubmitted_modal_with_other_input_is_refused() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let view = env.modal("U0BEN", false).await;
    let sent = env.submission(&view, "w", "host=db1");
    assert_empty(&env.deliver(&sent).await);
    let mut other = sent.payload();
    other["view"]["state"]["values"][INPUT_BLOCK][INPUT_TEXT]["value"] = json!("host=db2");
    let other = Callback::signed(&other, SECRET, sent.timestamp.parse().unwrap());
    let why = field_error(&env.deliver(&other).await, INPUT_BLOCK);
    assert!(why.contains(env.run_of(&view).run.as_str()), "{why}");
    assert_eq!(env.direct_messages("U0BEN").len(), 1);
}

#[tokio::test]
async fn message_shortcut_passes_the_message_to_the_run() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let view = env.modal("U0BEN", true).await;
    let initial_value = view.view["blocks"][2]["element"]["initial_value"].as_str().unwrap().to_owned();
    assert_eq!(env.deliver(&env.submission(&view, "w", &initial_value)).await.status(), 200);
    let run = env.run_of(&view);
    env.engine.admission().process_entry(&run).await.unwrap();
    let input = json!(env.store().input(&run).await.unwrap().unwrap());
    let (message, card) = (&input["inline"]["message"], &env.slack.messages()[0]);
    assert_eq!((&message["channel"], &message["ts"]), (&json!(card.channel), &json!(card.ts)));
    assert_eq!(message["text"], card.text);
}

#[tokio::test]
async fn unknown_user_cannot_start_from_the_shortcut() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let shown = env.modal("U0CARA", false).await.view.to_string();
    assert!(
        shown.contains("your Slack user is not registered here; ask an administrator to add it")
            && !shown.contains(WORKFLOW_BLOCK),
        "{shown}"
    );
    let view = env.modal("U0BEN", false).await;
    let mut sent = env.submission(&view, "w", "").payload();
    sent["user"]["id"] = json!("U0CARA");
    let sent = Callback::signed(&sent, SECRET, env.engine.now().0 / 1_000);
    assert_eq!(
        field_error(&env.deliver(&sent).await, WORKFLOW_BLOCK),
        "your Slack user is not registered here; ask an administrator to add it"
    );
    assert!(!env.is_accepted(&view).await);
}

#[tokio::test]
async fn unknown_and_other_tenants_workflow_look_the_same() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let mut text = Vec::new();
    for choice in ["theirs", "nope", ""] {
        let view = env.modal("U0BEN", false).await;
        let sent = env.submission(&view, choice, "");
        text.push(field_error(&env.deliver(&sent).await, WORKFLOW_BLOCK));
        assert!(!env.is_accepted(&view).await, "{choice}");
    }
    assert_eq!(text, ["Workflow not found."; 3]);
}

#[tokio::test]
async fn invalid_input_is_shown_at_its_field() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let view = env.modal("U0BEN", false).await;
    let sent = env.submission(&view, "w", "{\"host\": ");
    let why = field_error(&env.deliver(&sent).await, INPUT_BLOCK);
    assert!(why.contains("a JSON object") && !env.is_accepted(&view).await, "{why}");
    let mut corrected = sent.payload();
    corrected["view"]["state"]["values"][INPUT_BLOCK][INPUT_TEXT]["value"] = json!(r#"{"host": "db1"}"#);
    let corrected = Callback::signed(&corrected, SECRET, sent.timestamp.parse().unwrap());
    assert_empty(&env.deliver(&corrected).await);
    assert!(env.is_accepted(&view).await);
}

#[tokio::test]
async fn forged_or_repeated_shortcut_opens_nothing() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let used = env.shortcut("U0BEN", false);
    let forged = Callback { signature: used.signature.replace("v0=", "v0=0"), ..used.clone() };
    let now = env.engine.now().0 / 1_000;
    let others = Callback::signed(&used.payload(), "the secret of another app", now);
    for bad in [forged, others, later(&used, -301)] {
        assert_eq!(env.deliver(&bad).await.status(), 401);
    }
    assert!(env.slack.views().is_empty());
    assert_eq!(env.deliver(&used).await.status(), 200);
    assert_eq!(env.deliver(&used).await.status(), 409);
    assert_eq!(env.slack.views().len(), 1);
}

#[tokio::test]
async fn forged_modal_submission_starts_nothing() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let view = env.modal("U0BEN", false).await;
    let sent = env.submission(&view, "w", "");
    let now = env.engine.now().0 / 1_000;
    let forged = Callback::signed(&sent.payload(), "the secret of another app", now);
    for bad in [forged, later(&sent, -301)] {
        assert_eq!(env.deliver(&bad).await.status(), 401);
    }
    assert!(!env.is_accepted(&view).await && env.direct_messages("U0BEN").is_empty());
}

// A slow store and a slow Slack.

/// Slack gives up after three seconds, part of which is network time.
const IN_TIME: Duration = Duration::from_millis(2_500);

/// A store that reports busy at once, which the engine retries, and one that hangs.
const BUSY: [StoreFault; 2] = [StoreFault::Busy(Duration::ZERO), StoreFault::Busy(Duration::from_hours(1))];

#[derive(Debug, Clone, Copy)]
enum StoreFault {
    /// Reports busy after this long.
    Busy(Duration),
    /// Executes this call and never returns its result.
    LostReply(&'static str),
}

impl StoreFault {
    fn faults(self) -> Faults {
        match self {
            Self::Busy(after) => {
                Faults::new(move |_| Fault::FailAfter(after, StoreError::Busy { doing: "answer" }))
            }
            Self::LostReply(call) => Faults::at(call, || Fault::NoReply),
        }
    }
}

impl SlackEnv {
    /// Another engine on the same store, with faults.
    fn engine_with(&self, fault: StoreFault) -> Engine<Intercepted<SqliteStore, Faults>> {
        let store = self.store().clone();
        testkit::engine().me("faulty").on(Intercepted::new(store, fault.faults()))
    }

    /// Connects the installation to a Slack that accepts every call and never responds, until the listener is dropped.
    fn silence_slack(&mut self) -> TcpListener {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        self.installation.slack = client(&url_of(&silent));
        silent
    }

    /// A click by Ben whose response URL is on the silent Slack.
    fn press_with_silent_reply(&self, action: &str, silent: &TcpListener) -> Callback {
        let click = self.press(action, "U0BEN");
        let mut payload = click.payload();
        let address = payload["response_url"].as_str().unwrap().replace(&self.slack.url(), &url_of(silent));
        payload["response_url"] = json!(address);
        Callback::signed(&payload, SECRET, click.timestamp.parse().unwrap())
    }
}

fn url_of(listener: &TcpListener) -> String {
    format!("http://{}", listener.local_addr().unwrap())
}

/// The result of `call`, which must be available within Slack's time limit.
async fn in_time<T>(call: impl Future<Output = T>) -> T {
    let started_at = Instant::now();
    let result = call.await;
    assert!(started_at.elapsed() < IN_TIME, "it took {:?}", started_at.elapsed());
    result
}

#[tokio::test]
async fn busy_store_or_silent_slack_does_not_delay_replies() {
    let mut env = SlackEnv::new().await;
    let silent = env.silence_slack();
    time::pause();
    for fault in BUSY {
        let engine = env.engine_with(fault);
        let yes = env.press_with_silent_reply(card::APPROVE, &silent);
        let no = env.press_with_silent_reply(card::REJECT, &silent);
        for sent in [yes, no, env.shortcut("U0BEN", false)] {
            let response = in_time(Box::pin(deliver(&engine, &env.installation, &sent))).await;
            assert_empty(&response);
        }
    }
    assert_eq!(env.status().await, RunStatus::WaitingApproval);
    let again = env.press_with_silent_reply(card::APPROVE, &silent);
    assert_empty(&in_time(Box::pin(env.deliver(&again))).await);
    assert_eq!(env.status().await, RunStatus::Succeeded);
}

#[tokio::test]
async fn late_outcome_is_reported_as_not_known_yet() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let start_modal_view = env.modal("U0BEN", false).await;
    let start_form = env.submission(&start_modal_view, "w", "host=db1");
    assert_eq!(env.deliver(&env.press(card::REJECT, "U0BEN")).await.status(), 200);
    let reject_modal = env.slack.views().pop().unwrap();
    let reason = env.submission(&reject_modal, "", "not on a Friday");
    let run = InboxEntry::run_of(&env.installation.tenant, &"slack:T0SIM:1.2.a".parse().unwrap()).run;
    time::pause();
    for (secs, fault) in (0..).zip(BUSY) {
        let (engine, installation) = (env.engine_with(fault), &env.installation);
        let response = in_time(Box::pin(deliver(&engine, installation, &later(&reason, secs)))).await;
        assert!(response.body().contains("not known yet"), "{fault:?}: {}", response.body());
        let response = in_time(Box::pin(deliver(&engine, installation, &later(&start_form, secs)))).await;
        let shown = field_error(&response, WORKFLOW_BLOCK);
        assert!(shown.contains("not known yet") && shown.contains("again"), "{fault:?}: {shown}");
        let shown =
            in_time(Box::pin(type_command(&engine, installation, "U0BEN", "approvals", "1.2.b"))).await;
        assert!(shown.contains("try again"), "{fault:?}: {shown}");
        let shown = in_time(Box::pin(type_command(&engine, installation, "U0BEN", "start w", "1.2.a"))).await;
        assert!(shown.contains("not known yet") && shown.contains(run.as_str()), "{fault:?}: {shown}");
    }
    time::resume();
    assert!(env.status().await == RunStatus::WaitingApproval && !env.is_accepted(&start_modal_view).await);
    assert_empty(&env.deliver(&later(&start_form, 2)).await);
    assert_empty(&env.deliver(&later(&reason, 2)).await);
    assert!(env.status().await == RunStatus::FailedTerminal && env.is_accepted(&start_modal_view).await);
}

#[tokio::test]
async fn start_with_a_lost_store_reply_still_starts() {
    let env = SlackEnv::new().await;
    env.apply_workflows().await;
    let key = "slack:T0SIM:1.2.c".parse().unwrap();
    let run = InboxEntry::run_of(&env.installation.tenant, &key);
    let before = env.store().depth(QueueName::Ingest).await.unwrap();
    time::pause();
    let engine = env.engine_with(StoreFault::LostReply("inbox.accept"));
    let shown =
        in_time(Box::pin(type_command(&engine, &env.installation, "U0BEN", "start w", "1.2.c"))).await;
    time::resume();
    assert!(shown.contains("not known yet") && shown.contains(run.run.as_str()), "{shown}");
    let entry = env.store().entry(&run).await.unwrap().unwrap();
    assert_eq!(entry.status, InboxStatus::Pending);
    // Slack does not send it again: the delayed message was sent before.
    assert_eq!(env.store().depth(QueueName::Ingest).await.unwrap(), before + 1);
    assert_eq!(env.store().visible(QueueName::Ingest).await.unwrap(), before, "the message is delayed");
}

#[tokio::test]
async fn decision_with_a_lost_store_reply_counts_once() {
    let mut env = SlackEnv::new().await;
    let silent = env.silence_slack();
    time::pause();
    let engine = env.engine_with(StoreFault::LostReply("ledger.commit"));
    let click = env.press_with_silent_reply(card::APPROVE, &silent);
    let response = in_time(Box::pin(deliver(&engine, &env.installation, &click))).await;
    assert_empty(&response);
    assert_eq!(env.status().await, RunStatus::Succeeded);
    let again = env.press_with_silent_reply(card::APPROVE, &silent);
    assert_empty(&in_time(Box::pin(env.deliver(&again))).await);
    let approval = env.approval(&env.run).await;
    assert_eq!(approval.votes.len(), 1);
}
