//! Clicks, commands and shortcuts in a simulated Slack, all the way to the runs they are about.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::net::TcpListener;
use std::sync::Arc;
use std::time::Duration;

use ::slack::window::{self, INPUT_BLOCK, INPUT_TEXT, WORKFLOW_BLOCK};
use ::slack::{Secrets, Slack, card};
use config::InSlack;
use connectors::Toolbox;
use countersign_ingress::slack::{Request, Response, SlackInstallation, command, interaction};
use domain::tenant::Person;
use domain::{Cause, InboxEntry, InboxStatus, Initiator, QueueName, RunKey, RunStatus, Tenant, ToolName};
use engine::{AdvanceLimits, Engine, Parts, StartRun, Timing};
use fakes::slack::{Callback, Press, SimulatedSlack, Submission, Use, View};
use secrecy::SecretString;
use serde_json::{Value, json};
use signing::sign;
use store::{
    Governance as _, Inbox as _, Intercept, Intercepted, Ledger as _, Queue as _, Site, SqliteOptions,
    SqliteStore, Store, StoreError, SystemClock,
};
use tokio::time::{self, Instant};

const WORKFLOW: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
const SECRET: &str = "simulated-signing-secret";

/// A run that asks, a Slack that shows it, and the door that clicks come in through.
struct Scene {
    slack: SimulatedSlack,
    engine: Engine<SqliteStore>,
    door: SlackInstallation,
    run: RunKey,
}

/// Speaks to the Slack at `url`.
fn client(url: &str) -> Slack {
    let settings = slack::client::Settings {
        base_url: format!("{url}/api").parse().unwrap(),
        token: SecretString::from("xoxb-simulated"),
        channel: "C0APPROVALS".to_owned(),
    };
    Slack::new(settings).unwrap()
}

fn directory() -> Tenant {
    let mut tenant = Tenant::new("acme".parse().unwrap());
    for (person, user) in [("anna", "U0ANNA"), ("ben", "U0BEN")] {
        let slack = Some(format!("T0SIM:{user}"));
        tenant.people.insert(person.parse().unwrap(), Person { slack });
    }
    tenant
}

impl Scene {
    async fn set() -> Self {
        let slack = SimulatedSlack::start().await.unwrap();
        let store = Arc::new(SqliteStore::memory(SqliteOptions::default()).unwrap());
        store.put_tenant(directory()).await.unwrap();
        let engine = Engine::new(Parts {
            store,
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "w".parse().unwrap(),
            timing: Timing::default(),
            shows: Some(Arc::new(InSlack(client(&slack.url())))),
            sealing: None,
        });
        let wish = StartRun {
            tenant: "acme".parse().unwrap(),
            workspace: "main".parse().unwrap(),
            plan: workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap(),
            trigger_kind: "test".to_owned(),
            record: None,
            key: "k".parse().unwrap(),
            input: json!({}),
            by: Initiator::new(Cause::User, "anna"),
        };
        let run = engine.start(wish).await.unwrap().run;
        Box::pin(engine.advance(&run, &(), AdvanceLimits::default())).await.unwrap();
        let secrets = Secrets::new(SecretString::from(SECRET)).unwrap();
        let door = SlackInstallation::new("acme".parse().unwrap(), secrets, client(&slack.url()));
        let scene = Self { slack, engine, door, run };
        scene.show().await;
        scene
    }

    async fn show(&self) {
        let asked = self.engine.store().approvals(&self.run).await.unwrap().pop().unwrap();
        self.engine.show(&self.run, &asked.id).await.unwrap();
    }

    fn press(&self, action: &str, user: &str) -> Callback {
        let message = &self.slack.messages()[0];
        let place = format!("{}/{}", message.channel, message.ts);
        let at_secs = self.engine.now().0 / 1_000;
        let press = Press { place: &place, action_id: action, user, team: "T0SIM", at_secs };
        self.slack.press(&press).unwrap()
    }

    async fn deliver(&self, callback: &Callback) -> Response {
        delivered(&self.engine, &self.door, callback).await
    }

    /// Types `text` after `/countersign`; gives back what is shown.
    async fn types(&self, user: &str, text: &str) -> String {
        self.uses(user, text, "13345224609.738474920.8088930838d88f008e0").await
    }

    /// The same, where Slack calls it `trigger`.
    async fn uses(&self, user: &str, text: &str, trigger: &str) -> String {
        typed(&self.engine, &self.door, user, text, trigger).await
    }

    /// Puts the workflow to use, and one of another tenant's that is called `theirs`.
    async fn put_to_use(&self) {
        let theirs = WORKFLOW.replace("workflow: w", "workflow: theirs");
        for (tenant, source) in [("acme", WORKFLOW), ("umbrella", theirs.as_str())] {
            let plan = workflow::parse(source, &BTreeSet::<ToolName>::new()).unwrap();
            let ada = Initiator::new(Cause::User, "ada");
            self.engine.apply(&tenant.parse().unwrap(), &plan, ada).await.unwrap();
        }
    }

    /// `user` uses the shortcut that is found everywhere, or the one on the card.
    fn shortcut(&self, user: &str, on_card: bool) -> Callback {
        let place = on_card.then(|| self.slack.messages()[0].place());
        let callback_id = if on_card { window::ON_MESSAGE } else { window::START };
        let at_secs = self.engine.now().0 / 1_000;
        let shortcut = Use { callback_id, place: place.as_deref(), user, team: "T0SIM", at_secs };
        self.slack.use_shortcut(&shortcut).unwrap()
    }

    /// The window that a shortcut opens for `user`.
    async fn window(&self, user: &str, on_card: bool) -> View {
        let response = self.deliver(&self.shortcut(user, on_card)).await;
        assert_eq!((response.status, response.body.as_str()), (200, ""));
        self.slack.views().pop().unwrap()
    }

    /// Ben sends `view` off.
    fn sent_off(&self, view: &View, choice: &str, text: &str) -> Callback {
        let (choice, at_secs) = (Some(choice), self.engine.now().0 / 1_000);
        let submission = Submission { view: &view.id, user: "U0BEN", team: "T0SIM", text, choice, at_secs };
        self.slack.submit_view(&submission).unwrap()
    }

    /// The run that `view` starts, or would.
    fn run_of(&self, view: &View) -> RunKey {
        InboxEntry::run_of(&self.door.tenant, &format!("slack:T0SIM:{}", view.id).parse().unwrap())
    }

    async fn has_come(&self, view: &View) -> bool {
        self.engine.store().entry(&self.run_of(view)).await.unwrap().is_some()
    }

    /// What the app wrote to `user` alone.
    fn written_to(&self, user: &str) -> Vec<String> {
        let messages = self.slack.messages().into_iter();
        messages.filter(|message| message.channel == user).map(|message| message.text).collect()
    }

    async fn status(&self) -> RunStatus {
        self.engine.store().load(&self.run).await.unwrap().unwrap().status
    }
}

async fn delivered<S: Store>(engine: &Engine<S>, door: &SlackInstallation, callback: &Callback) -> Response {
    let request = Request {
        timestamp: Some(&callback.timestamp),
        signature: Some(&callback.signature),
        body: &callback.body,
    };
    Box::pin(interaction(engine, door, request)).await
}

/// What is shown to whoever types `text` after `/countersign`, where Slack calls that `trigger`.
async fn typed<S: Store>(
    engine: &Engine<S>,
    door: &SlackInstallation,
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
    let request = Request { timestamp: Some(&timestamp), signature: Some(&signature), body: body.as_bytes() };
    let response = command(engine, door, request).await;
    let shown: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!((response.status, &shown["response_type"]), (200, &json!("ephemeral")));
    shown["text"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_click_by_somebody_who_may_ends_the_wait_and_the_card_says_who() {
    let scene = Scene::set().await;
    let response = scene.deliver(&scene.press(card::APPROVE, "U0BEN")).await;
    assert_eq!((response.status, scene.status().await), (200, RunStatus::Succeeded));
    scene.show().await;
    let shown = serde_json::to_string(&scene.slack.messages()[0].blocks).unwrap();
    assert!(shown.contains("ben") && !shown.contains(card::APPROVE), "{shown}");
}

#[tokio::test]
async fn whoever_asked_is_told_that_they_cannot_answer() {
    let scene = Scene::set().await;
    let response = scene.deliver(&scene.press(card::APPROVE, "U0ANNA")).await;
    assert_eq!((response.status, scene.status().await), (200, RunStatus::WaitingApproval));
    let told = serde_json::to_string(&scene.slack.answers()).unwrap();
    assert!(told.contains("does not approve it"), "{told}");
}

#[tokio::test]
async fn somebody_whom_nobody_knows_changes_nothing() {
    let scene = Scene::set().await;
    let response = scene.deliver(&scene.press(card::APPROVE, "U0CARA")).await;
    assert_eq!((response.status, scene.status().await), (200, RunStatus::WaitingApproval));
}

#[tokio::test]
async fn a_click_that_comes_twice_is_turned_away() {
    let scene = Scene::set().await;
    let click = scene.press(card::APPROVE, "U0BEN");
    assert_eq!(scene.deliver(&click).await.status, 200);
    assert_eq!(scene.deliver(&click).await.status, 409);
}

#[tokio::test]
async fn a_click_that_slack_did_not_sign_is_turned_away() {
    let scene = Scene::set().await;
    let mut click = scene.press(card::APPROVE, "U0BEN");
    click.signature = click.signature.replace("v0=", "v0=0");
    assert_eq!(scene.deliver(&click).await.status, 401);
    assert_eq!(scene.status().await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn a_door_answers_nothing_for_another_tenant() {
    let mut scene = Scene::set().await;
    scene.door.tenant = "umbrella".parse().unwrap();
    assert_eq!(scene.deliver(&scene.press(card::APPROVE, "U0BEN")).await.status, 200);
    assert_eq!(scene.status().await, RunStatus::WaitingApproval);
}

#[tokio::test]
async fn a_no_asks_for_a_reason_and_the_reason_stands_in_the_ledger() {
    let scene = Scene::set().await;
    assert_eq!(scene.deliver(&scene.press(card::REJECT, "U0BEN")).await.status, 200);
    let view = scene.slack.views().pop().unwrap();
    let at_secs = scene.engine.now().0 / 1_000;
    let submission = Submission {
        view: &view.id,
        user: "U0BEN",
        team: "T0SIM",
        text: "not on a Friday",
        choice: None,
        at_secs,
    };
    assert_eq!(scene.deliver(&scene.slack.submit_view(&submission).unwrap()).await.status, 200);
    assert_eq!(scene.status().await, RunStatus::FailedTerminal);
    let asked = scene.engine.store().approvals(&scene.run).await.unwrap().pop().unwrap();
    assert_eq!(asked.votes[0].reason, "not on a Friday");
}

#[tokio::test]
async fn slack_retry_num_header() {
    let scene = Scene::set().await;
    let click = scene.press(card::APPROVE, "U0BEN");
    assert_eq!(scene.deliver(&click).await.status, 200);
    // Slack heard nothing and sends it again, signed anew, with `X-Slack-Retry-Num: 1`. Nobody looks at that
    // header: whatever it says, the answer stands there once. `lambda.rs` shows that a request with it is heard.
    let timestamp = (scene.engine.now().0 / 1_000 + 1).to_string();
    let signature = sign(&SECRET.into(), &timestamp, &click.body);
    let again = Callback { timestamp, signature, body: click.body.clone() };
    assert_eq!(scene.deliver(&again).await.status, 200);
    assert_eq!(scene.status().await, RunStatus::Succeeded);
    let asked = scene.engine.store().approvals(&scene.run).await.unwrap().pop().unwrap();
    assert_eq!(asked.votes.len(), 1);
}

#[tokio::test]
async fn whoever_asks_is_shown_what_waits_and_how_a_run_stands() {
    let scene = Scene::set().await;
    let run = scene.run.run.as_str();
    let waits = scene.types("U0BEN", "approvals").await;
    assert!(waits.contains("`w`, step `ask`") && waits.contains("Go on?") && waits.contains(run), "{waits}");
    let stands = scene.types("U0BEN", &format!("  run   {run} ")).await;
    assert!(stands.contains("waiting_approval") && stands.contains("step 1 of 1"), "{stands}");
    scene.deliver(&scene.press(card::APPROVE, "U0BEN")).await;
    assert_eq!(scene.types("U0BEN", "approvals").await, "Nothing waits for an answer.");
}

#[tokio::test]
async fn an_unknown_run_and_another_tenants_run_read_the_same() {
    let mut scene = Scene::set().await;
    let own = format!("run {}", scene.run.run);
    let unknown = scene.types("U0BEN", "run run-of-nobody").await;
    assert_eq!(scene.types("U0BEN", "run ../../etc").await, unknown);
    let mut others = directory();
    others.tenant = "umbrella".parse().unwrap();
    scene.engine.store().put_tenant(others).await.unwrap();
    scene.door.tenant = "umbrella".parse().unwrap();
    assert_eq!(scene.types("U0BEN", &own).await, unknown);
    assert_eq!(scene.types("U0BEN", "approvals").await, "Nothing waits for an answer.");
}

#[tokio::test]
async fn a_command_that_nobody_knows_is_answered_with_those_there_are() {
    let scene = Scene::set().await;
    for typed in ["", "help", "approve everything", "run", "approvals now"] {
        assert!(scene.types("U0BEN", typed).await.contains("/countersign run RUN"), "{typed}");
    }
}

#[tokio::test]
async fn a_run_that_somebody_asks_for_is_theirs_and_begins_once() {
    let scene = Scene::set().await;
    let plan = workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap();
    let (acme, ada) = ("acme".parse().unwrap(), Initiator::new(Cause::User, "ada"));
    scene.engine.apply(&acme, &plan, ada).await.unwrap();
    let told = scene.uses("U0BEN", r#"start w {"host": "db1"}"#, "1.2.a").await;
    let key = "slack:T0SIM:1.2.a".parse().unwrap();
    let run = InboxEntry::run_of(&acme, &key);
    assert!(told.contains(run.run.as_str()) && told.contains("`w`"), "{told}");
    assert_eq!(scene.uses("U0BEN", r#"start w {"host": "db1"}"#, "1.2.a").await, told);

    scene.engine.begin(&run).await.unwrap();
    let begun = scene.engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!(begun.trigger.kind, "slack");
    assert_eq!(begun.trigger.requester.unwrap().as_str(), "ben");
    let input = scene.engine.store().input(&run).await.unwrap().unwrap();
    assert_eq!(json!(input), json!({ "inline": { "host": "db1" } }));
}

/// A workflow that has one run at a time for each host, called by what becomes of others.
fn one_at_a_time(when_taken: &str) -> String {
    let ticket = format!("ticket: {{ of: '${{ trigger.host }}', when_taken: {when_taken} }}");
    WORKFLOW.replace("workflow: w\n", &format!("workflow: {when_taken}\n{ticket}\n"))
}

#[tokio::test]
async fn whoever_asks_for_a_run_on_a_taken_ticket_reads_what_became_of_it() {
    let scene = Scene::set().await;
    let acme = &scene.door.tenant;
    let run_of = |trigger: &str| InboxEntry::run_of(acme, &format!("slack:T0SIM:{trigger}").parse().unwrap());
    for (when_taken, says) in [
        ("join", "has its ticket, and answers for it"),
        ("queue", "waits for a worker or its ticket"),
        ("refuse", "was not started"),
    ] {
        let plan = workflow::parse(&one_at_a_time(when_taken), &BTreeSet::<ToolName>::new()).unwrap();
        scene.engine.apply(acme, &plan, Initiator::new(Cause::User, "ada")).await.unwrap();
        let triggers = ["1", "2"].map(|number| format!("1.{number}.{when_taken}"));
        let start = format!("start {when_taken} host=db1");
        for trigger in &triggers {
            let told = scene.uses("U0BEN", &start, trigger).await;
            assert!(told.contains("was taken in") && !told.contains("starts"), "{told}");
            let waits = scene.types("U0BEN", &format!("run {}", run_of(trigger).run)).await;
            assert!(waits.contains("waits for a worker"), "{waits}");
            scene.engine.begin(&run_of(trigger)).await.unwrap();
        }
        let [first, second] = triggers.each_ref().map(|trigger| run_of(trigger).run);
        let stands = scene.types("U0BEN", &format!("run {first}")).await;
        assert!(stands.contains("`queued`"), "{stands}");
        let became = scene.types("U0BEN", &format!("run {second}")).await;
        assert!(became.contains(second.as_str()) && became.contains(says), "{when_taken}: {became}");
        if when_taken == "join" {
            assert!(became.contains(first.as_str()), "{became}");
            assert_eq!(scene.uses("U0BEN", &start, &triggers[1]).await, became);
        }
    }
}

#[tokio::test]
async fn what_somebody_of_another_tenant_asked_for_is_not_there() {
    let mut scene = Scene::set().await;
    scene.put_to_use().await;
    scene.uses("U0BEN", "start w", "1.2.a").await;
    let run = InboxEntry::run_of(&scene.door.tenant, &"slack:T0SIM:1.2.a".parse().unwrap()).run;
    let mut others = directory();
    others.tenant = "umbrella".parse().unwrap();
    scene.engine.store().put_tenant(others).await.unwrap();
    scene.door.tenant = "umbrella".parse().unwrap();
    let unknown = scene.types("U0BEN", "run run-of-nobody").await;
    assert_eq!(scene.types("U0BEN", &format!("run {run}")).await, unknown);
}

#[tokio::test]
async fn a_start_that_cannot_be_is_explained_and_starts_nothing() {
    let scene = Scene::set().await;
    let plan = workflow::parse(WORKFLOW, &BTreeSet::<ToolName>::new()).unwrap();
    let acme = "acme".parse().unwrap();
    scene.engine.apply(&acme, &plan, Initiator::new(Cause::User, "ada")).await.unwrap();
    for (user, typed, says) in [
        ("U0BEN", "start nope", "no such workflow"),
        ("U0BEN", "start w {", "a JSON object"),
        ("U0BEN", "start w [1]", "a JSON object"),
        ("U0BEN", "start", "/countersign start WORKFLOW"),
        ("U0BEN", "startw", "/countersign start WORKFLOW"),
        ("U0CARA", "start w", "not known here"),
    ] {
        let told = scene.uses(user, typed, "1.2.a").await;
        assert!(told.contains(says), "{typed}: {told}");
    }
    assert!(scene.uses("U0BEN", "start w", "a:b").await.contains("try again"));
    let run = InboxEntry::run_of(&acme, &"slack:T0SIM:1.2.a".parse().unwrap());
    assert_eq!(scene.engine.store().entry(&run).await.unwrap(), None);
}

#[tokio::test]
async fn a_stranger_and_a_forger_are_shown_nothing() {
    let scene = Scene::set().await;
    assert_eq!(scene.types("U0CARA", "approvals").await, "you are not known here");
    let body = b"team_id=T0SIM&user_id=U0BEN&text=approvals";
    let timestamp = (scene.engine.now().0 / 1_000).to_string();
    let forged = sign(&"some secret of somebody's".into(), &timestamp, body);
    let request = Request { timestamp: Some(&timestamp), signature: Some(&forged), body };
    let response = command(&scene.engine, &scene.door, request).await;
    assert_eq!((response.status, response.body.contains("ask")), (401, false));
}

/// `callback` as Slack would send it `secs` later.
fn later(callback: &Callback, secs: i64) -> Callback {
    let at_secs = callback.timestamp.parse::<i64>().unwrap() + secs;
    Callback::signed(&callback.payload(), SECRET, at_secs)
}

/// What a window that stays open shows under the field of `block`.
fn shown_under(response: &Response, block: &str) -> String {
    let shown: Value = serde_json::from_str(&response.body).unwrap();
    assert_eq!((response.status, &shown["response_action"]), (200, &json!("errors")), "{shown}");
    assert_eq!(shown["errors"].as_object().unwrap().len(), 1, "{shown}");
    shown["errors"][block].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_shortcut_opens_a_window_that_offers_the_workflows_in_use() {
    let scene = Scene::set().await;
    assert!(scene.window("U0BEN", false).await.view.to_string().contains("No workflow is in use."));
    scene.put_to_use().await;
    let view = scene.window("U0BEN", false).await;
    assert_eq!((view.user.as_str(), &view.view["callback_id"]), ("U0BEN", &json!(window::CALLBACK_ID)));
    let options = view.view["blocks"][1]["element"]["options"].as_array().unwrap().clone();
    let names: Vec<_> = options.iter().map(|option| option["value"].as_str().unwrap()).collect();
    assert_eq!(names, ["w"]);
}

#[tokio::test]
async fn a_window_starts_one_run_however_often_it_is_sent_off() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let view = scene.window("U0BEN", false).await;
    let sent = scene.sent_off(&view, "w", "host=db1");
    assert_eq!(scene.deliver(&sent).await, Response::text(200, ""));
    assert_eq!(scene.deliver(&sent).await.status, 409);
    for secs in 1..3 {
        assert_eq!(scene.deliver(&later(&sent, secs)).await, Response::text(200, ""));
    }
    let run = scene.run_of(&view);
    scene.engine.begin(&run).await.unwrap();
    let begun = scene.engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!((begun.trigger.kind.as_str(), begun.workflow.as_str()), ("slack", "w"));
    assert_eq!(begun.trigger.requester.unwrap().as_str(), "ben");
    let input = scene.engine.store().input(&run).await.unwrap().unwrap();
    assert_eq!(json!(input), json!({ "inline": { "host": "db1" } }));
    let told = scene.written_to("U0BEN");
    assert!(told[0].contains(run.run.as_str()) && told[0].contains("`w`"), "{told:?}");
    assert!(told.iter().all(|again| *again == told[0]), "{told:?}");
}

#[tokio::test]
async fn a_window_that_is_sent_off_with_something_else_starts_nothing_more() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let view = scene.window("U0BEN", false).await;
    let sent = scene.sent_off(&view, "w", "host=db1");
    assert_eq!(scene.deliver(&sent).await, Response::text(200, ""));
    let mut other = sent.payload();
    other["view"]["state"]["values"][INPUT_BLOCK][INPUT_TEXT]["value"] = json!("host=db2");
    let other = Callback::signed(&other, SECRET, sent.timestamp.parse().unwrap());
    let why = shown_under(&scene.deliver(&other).await, INPUT_BLOCK);
    assert!(why.contains(scene.run_of(&view).run.as_str()), "{why}");
    assert_eq!(scene.written_to("U0BEN").len(), 1);
}

#[tokio::test]
async fn a_shortcut_on_a_message_hands_what_it_says_to_the_run() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let view = scene.window("U0BEN", true).await;
    let offered = view.view["blocks"][2]["element"]["initial_value"].as_str().unwrap().to_owned();
    assert_eq!(scene.deliver(&scene.sent_off(&view, "w", &offered)).await.status, 200);
    let run = scene.run_of(&view);
    scene.engine.begin(&run).await.unwrap();
    let input = json!(scene.engine.store().input(&run).await.unwrap().unwrap());
    let (message, card) = (&input["inline"]["message"], &scene.slack.messages()[0]);
    assert_eq!((&message["channel"], &message["ts"]), (&json!(card.channel), &json!(card.ts)));
    assert_eq!(message["text"], card.text);
}

#[tokio::test]
async fn somebody_whom_nobody_knows_is_offered_nothing_and_starts_nothing() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let shown = scene.window("U0CARA", false).await.view.to_string();
    assert!(shown.contains("you are not known here") && !shown.contains(WORKFLOW_BLOCK), "{shown}");
    let view = scene.window("U0BEN", false).await;
    let mut sent = scene.sent_off(&view, "w", "").payload();
    sent["user"]["id"] = json!("U0CARA");
    let sent = Callback::signed(&sent, SECRET, scene.engine.now().0 / 1_000);
    assert_eq!(shown_under(&scene.deliver(&sent).await, WORKFLOW_BLOCK), "you are not known here");
    assert!(!scene.has_come(&view).await);
}

#[tokio::test]
async fn another_tenants_workflow_and_one_that_there_is_not_read_the_same() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let mut told = Vec::new();
    for choice in ["theirs", "nope", ""] {
        let view = scene.window("U0BEN", false).await;
        let sent = scene.sent_off(&view, choice, "");
        told.push(shown_under(&scene.deliver(&sent).await, WORKFLOW_BLOCK));
        assert!(!scene.has_come(&view).await, "{choice}");
    }
    assert_eq!(told, ["There is no such workflow in use."; 3]);
}

#[tokio::test]
async fn an_input_that_cannot_be_used_is_named_at_its_field_and_can_be_mended() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let view = scene.window("U0BEN", false).await;
    let sent = scene.sent_off(&view, "w", "{\"host\": ");
    let why = shown_under(&scene.deliver(&sent).await, INPUT_BLOCK);
    assert!(why.contains("a JSON object") && !scene.has_come(&view).await, "{why}");
    let mut mended = sent.payload();
    mended["view"]["state"]["values"][INPUT_BLOCK][INPUT_TEXT]["value"] = json!(r#"{"host": "db1"}"#);
    let mended = Callback::signed(&mended, SECRET, sent.timestamp.parse().unwrap());
    assert_eq!(scene.deliver(&mended).await, Response::text(200, ""));
    assert!(scene.has_come(&view).await);
}

#[tokio::test]
async fn a_shortcut_that_is_forged_or_comes_twice_opens_nothing() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let used = scene.shortcut("U0BEN", false);
    let forged = Callback { signature: used.signature.replace("v0=", "v0=0"), ..used.clone() };
    let now = scene.engine.now().0 / 1_000;
    let others = Callback::signed(&used.payload(), "some secret of somebody's", now);
    for bad in [forged, others, later(&used, -301)] {
        assert_eq!(scene.deliver(&bad).await.status, 401);
    }
    assert!(scene.slack.views().is_empty());
    assert_eq!(scene.deliver(&used).await.status, 200);
    assert_eq!(scene.deliver(&used).await.status, 409);
    assert_eq!(scene.slack.views().len(), 1);
}

#[tokio::test]
async fn a_window_that_slack_did_not_send_off_starts_nothing() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let view = scene.window("U0BEN", false).await;
    let sent = scene.sent_off(&view, "w", "");
    let now = scene.engine.now().0 / 1_000;
    let forged = Callback::signed(&sent.payload(), "some secret of somebody's", now);
    for bad in [forged, later(&sent, -301)] {
        assert_eq!(scene.deliver(&bad).await.status, 401);
    }
    assert!(!scene.has_come(&view).await && scene.written_to("U0BEN").is_empty());
}

// A store and a Slack that keep us waiting.

/// Slack gives up after three seconds, and the way takes some of them.
const IN_TIME: Duration = Duration::from_millis(2_500);

/// A store that turns everybody away at once, which the engine is patient with, and one that hangs.
const BUSY: [Trouble; 2] = [Trouble::Busy(Duration::ZERO), Trouble::Busy(Duration::from_hours(1))];

/// What a store does to whoever calls it.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    /// It says after this long that it is busy.
    Busy(Duration),
    /// It does what this call asks for, and never says so.
    Mute(&'static str),
}

impl Intercept for Trouble {
    type Pass = bool;

    async fn before(&self, site: &Site) -> Result<bool, StoreError> {
        match *self {
            Self::Busy(after) => {
                time::sleep(after).await;
                Err(StoreError::Busy { doing: "answer" })
            }
            Self::Mute(call) => Ok(site.name == call),
        }
    }

    async fn after(&self, mute: bool) -> Result<(), StoreError> {
        if mute {
            std::future::pending::<()>().await;
        }
        Ok(())
    }
}

impl Scene {
    /// Another engine on the same store, which is in trouble.
    fn troubled(&self, trouble: Trouble) -> Engine<Intercepted<SqliteStore, Trouble>> {
        Engine::new(Parts {
            store: Arc::new(Intercepted::new(SqliteStore::clone(self.engine.store()), trouble)),
            tools: Toolbox::default(),
            clock: Arc::new(SystemClock),
            me: "troubled".parse().unwrap(),
            timing: Timing::default(),
            shows: None,
            sealing: None,
        })
    }

    /// Has the door speak to a Slack that takes every call and says nothing while the listener is kept.
    fn silence(&mut self) -> TcpListener {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        self.door.slack = client(&url_of(&silent));
        silent
    }

    /// A click by Ben that is to be answered there.
    fn press_unheard(&self, action: &str, silent: &TcpListener) -> Callback {
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

/// What `answering` gives, which takes no longer than Slack waits.
async fn in_time<T>(answering: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = answering.await;
    assert!(began.elapsed() < IN_TIME, "it took {:?}", began.elapsed());
    answer
}

#[tokio::test]
async fn neither_a_busy_store_nor_a_silent_slack_keeps_slack_waiting() {
    let mut scene = Scene::set().await;
    let silent = scene.silence();
    time::pause();
    for trouble in BUSY {
        let engine = scene.troubled(trouble);
        let yes = scene.press_unheard(card::APPROVE, &silent);
        let no = scene.press_unheard(card::REJECT, &silent);
        for sent in [yes, no, scene.shortcut("U0BEN", false)] {
            let response = in_time(Box::pin(delivered(&engine, &scene.door, &sent))).await;
            assert_eq!(response, Response::text(200, ""), "{trouble:?}");
        }
    }
    assert_eq!(scene.status().await, RunStatus::WaitingApproval);
    let again = scene.press_unheard(card::APPROVE, &silent);
    assert_eq!(in_time(Box::pin(scene.deliver(&again))).await, Response::text(200, ""));
    assert_eq!(scene.status().await, RunStatus::Succeeded);
}

#[tokio::test]
async fn whoever_cannot_be_told_in_time_reads_that_it_is_not_known_yet_and_what_to_do() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let offered = scene.window("U0BEN", false).await;
    let wish = scene.sent_off(&offered, "w", "host=db1");
    assert_eq!(scene.deliver(&scene.press(card::REJECT, "U0BEN")).await.status, 200);
    let asked = scene.slack.views().pop().unwrap();
    let reason = scene.sent_off(&asked, "", "not on a Friday");
    let run = InboxEntry::run_of(&scene.door.tenant, &"slack:T0SIM:1.2.a".parse().unwrap()).run;
    time::pause();
    for (secs, trouble) in (0..).zip(BUSY) {
        let (engine, door) = (scene.troubled(trouble), &scene.door);
        let response = in_time(Box::pin(delivered(&engine, door, &later(&reason, secs)))).await;
        assert!(response.body.contains("not known yet"), "{trouble:?}: {}", response.body);
        let response = in_time(Box::pin(delivered(&engine, door, &later(&wish, secs)))).await;
        let shown = shown_under(&response, WORKFLOW_BLOCK);
        assert!(shown.contains("not known yet") && shown.contains("again"), "{trouble:?}: {shown}");
        let shown = in_time(Box::pin(typed(&engine, door, "U0BEN", "approvals", "1.2.b"))).await;
        assert!(shown.contains("please try again"), "{trouble:?}: {shown}");
        let shown = in_time(Box::pin(typed(&engine, door, "U0BEN", "start w", "1.2.a"))).await;
        assert!(shown.contains("not known yet") && shown.contains(run.as_str()), "{trouble:?}: {shown}");
    }
    time::resume();
    assert!(scene.status().await == RunStatus::WaitingApproval && !scene.has_come(&offered).await);
    assert_eq!(scene.deliver(&later(&wish, 2)).await, Response::text(200, ""));
    assert_eq!(scene.deliver(&later(&reason, 2)).await, Response::text(200, ""));
    assert!(scene.status().await == RunStatus::FailedTerminal && scene.has_come(&offered).await);
}

#[tokio::test]
async fn a_start_that_is_kept_without_a_word_is_begun_all_the_same() {
    let scene = Scene::set().await;
    scene.put_to_use().await;
    let key = "slack:T0SIM:1.2.c".parse().unwrap();
    let run = InboxEntry::run_of(&scene.door.tenant, &key);
    let before = scene.engine.store().depth(QueueName::Ingest).await.unwrap();
    time::pause();
    let engine = scene.troubled(Trouble::Mute("inbox.accept"));
    let shown = in_time(Box::pin(typed(&engine, &scene.door, "U0BEN", "start w", "1.2.c"))).await;
    time::resume();
    assert!(shown.contains("not known yet") && shown.contains(run.run.as_str()), "{shown}");
    let kept = scene.engine.store().entry(&run).await.unwrap().unwrap();
    assert_eq!(kept.status, InboxStatus::Pending);
    // Nobody can send it again: the message that has it begun was sent before.
    assert_eq!(scene.engine.store().depth(QueueName::Ingest).await.unwrap(), before + 1);
    assert_eq!(
        scene.engine.store().waiting(QueueName::Ingest).await.unwrap(),
        before,
        "not before it is kept"
    );
}

#[tokio::test]
async fn an_answer_that_is_recorded_without_a_word_counts_once() {
    let mut scene = Scene::set().await;
    let silent = scene.silence();
    time::pause();
    let engine = scene.troubled(Trouble::Mute("ledger.commit"));
    let click = scene.press_unheard(card::APPROVE, &silent);
    let response = in_time(Box::pin(delivered(&engine, &scene.door, &click))).await;
    assert_eq!((response, scene.status().await), (Response::text(200, ""), RunStatus::Succeeded));
    let again = scene.press_unheard(card::APPROVE, &silent);
    assert_eq!(in_time(Box::pin(scene.deliver(&again))).await, Response::text(200, ""));
    let asked = scene.engine.store().approvals(&scene.run).await.unwrap().pop().unwrap();
    assert_eq!(asked.votes.len(), 1);
}
