//! A click in a simulated Slack, all the way to the run that waits for it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeSet;
use std::sync::Arc;

use connectors::Toolbox;
use countersign_functions::slack::{Request, Response, SlackDoor, command, interaction};
use domain::tenant::Person;
use domain::{Arrival, Cause, Initiator, RunKey, RunStatus, Tenant, ToolName};
use engine::{Engine, Parts, StartRun, Timing, WalkLimits};
use notify::{Secrets, Slack, card};
use secrecy::SecretString;
use serde_json::{Value, json};
use signing::sign;
use simulated::slack::{Callback, Press, SimulatedSlack, Submission};
use store::{Governance as _, Inbox as _, Ledger as _, SqliteOptions, SqliteStore, SystemClock};
use systems::InSlack;

const WORKFLOW: &str =
    "workflow: w\nversion: 1\nsteps:\n  - { id: ask, tool: approval.gate, with: { message: 'Go on?' } }\n";
const SECRET: &str = "simulated-signing-secret";

/// A run that asks, a Slack that shows it, and the door that clicks come in through.
struct Scene {
    slack: SimulatedSlack,
    engine: Engine<SqliteStore>,
    door: SlackDoor,
    run: RunKey,
}

fn client(slack: &SimulatedSlack) -> Slack {
    let settings = notify::client::Settings {
        base_url: format!("{}/api", slack.url()).parse().unwrap(),
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
            shows: Some(Arc::new(InSlack(client(&slack)))),
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
        Box::pin(engine.walk(&run, &(), WalkLimits::default())).await.unwrap();
        let secrets = Secrets::new(SecretString::from(SECRET)).unwrap();
        let door = SlackDoor::new("acme".parse().unwrap(), secrets, client(&slack));
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
        let request = Request {
            timestamp: Some(&callback.timestamp),
            signature: Some(&callback.signature),
            body: &callback.body,
        };
        Box::pin(interaction(&self.engine, &self.door, request)).await
    }

    /// Types `text` after `/countersign`; gives back what is shown.
    async fn types(&self, user: &str, text: &str) -> String {
        self.uses(user, text, "13345224609.738474920.8088930838d88f008e0").await
    }

    /// The same, where Slack calls it `trigger`.
    async fn uses(&self, user: &str, text: &str, trigger: &str) -> String {
        let fields = [
            ("team_id", "T0SIM"),
            ("user_id", user),
            ("command", "/countersign"),
            ("text", text),
            ("trigger_id", trigger),
        ];
        let body = url::form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let timestamp = (self.engine.now().0 / 1_000).to_string();
        let signature = sign(&SECRET.into(), &timestamp, body.as_bytes());
        let request =
            Request { timestamp: Some(&timestamp), signature: Some(&signature), body: body.as_bytes() };
        let response = command(&self.engine, &self.door, request).await;
        let shown: Value = serde_json::from_str(&response.body).unwrap();
        assert_eq!((response.status, &shown["response_type"]), (200, &json!("ephemeral")));
        shown["text"].as_str().unwrap().to_owned()
    }

    async fn status(&self) -> RunStatus {
        self.engine.store().load(&self.run).await.unwrap().unwrap().status
    }
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
    let submission =
        Submission { view: &view.id, user: "U0BEN", team: "T0SIM", text: "not on a Friday", at_secs };
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
    // header: whatever it says, the answer stands there once.
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
    let run = Arrival::run_of(&acme, &key);
    assert!(told.contains(run.run.as_str()) && told.contains("`w`"), "{told}");
    assert_eq!(scene.uses("U0BEN", r#"start w {"host": "db1"}"#, "1.2.a").await, told);

    scene.engine.begin(&run).await.unwrap();
    let begun = scene.engine.store().load(&run).await.unwrap().unwrap();
    assert_eq!(begun.trigger.kind, "slack");
    assert_eq!(begun.trigger.requester.unwrap().as_str(), "ben");
    let input = scene.engine.store().input(&run).await.unwrap().unwrap();
    assert_eq!(json!(input), json!({ "inline": { "host": "db1" } }));
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
    let run = Arrival::run_of(&acme, &"slack:T0SIM:1.2.a".parse().unwrap());
    assert_eq!(scene.engine.store().arrival(&run).await.unwrap(), None);
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
