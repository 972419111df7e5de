//! The outside world on one machine: a ServiceNow, a Slack and a model, simulated, each on a port of its own.
//!
//! They are reached over HTTP and with credentials, as the real ones are; nothing else in the program knows
//! that they are simulated. The demo plays in such a world, and `dev` keeps one running.

use std::io;

use ::slack::{Secrets, Slack, client, window};
use domain::{GroupName, PersonId, Tenant, TenantId};
use fakes::model::{self, Model, Recording};
use fakes::servicenow::{self, ServiceNow};
use fakes::slack::{self, Shortcut, SimulatedSlack, User};
use ingress::slack::SlackInstallation;
use tokio::net::TcpListener;
use url::Url;

use crate::error::CliError;
use crate::random;

/// The channel in which people are asked.
const CHANNEL: &str = "C0APPROVALS";

/// The workspace.
pub(crate) const TEAM: &str = "T0SIM";

/// What the bot posts with.
const SLACK_TOKEN: &str = "xoxb-simulated";

/// Who is there: their name here, and their user in Slack.
pub(crate) const PEOPLE: [(&str, &str); 3] = [("ada", "U0ADA"), ("grace", "U0GRACE"), ("ben", "U0BEN")];

/// The variables that a configuration names, and what they hold.
pub(crate) const CREDENTIALS: [(&str, &str); 3] = [
    ("SIMULATED_SERVICENOW_PASSWORD", servicenow::PASSWORD),
    ("SIMULATED_SLACK_TOKEN", SLACK_TOKEN),
    ("SIMULATED_MODEL_KEY", model::KEY),
];

/// What the model said when it was asked about the two incidents that are there.
const ANSWERS: [(&str, &str); 2] = [
    (
        "Primary database does not answer",
        r#"{"group": "db-oncall", "urgency": "1", "confidence": 0.93, "because": "A database that does not answer is for the people who run it."}"#,
    ),
    (
        "Printer on floor 3",
        r#"{"group": "desktop", "urgency": "3", "confidence": 0.97, "because": "Toner is the desktop team's."}"#,
    ),
];

/// The outside world. It ends when this is dropped.
pub(crate) struct World {
    pub(crate) servicenow: ServiceNow,
    pub(crate) slack: SimulatedSlack,
    pub(crate) model: Model,
    signing_secret: String,
}

/// The ports of a world; 0 is any that is free.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ports {
    pub(crate) slack: u16,
    pub(crate) servicenow: u16,
    pub(crate) model: u16,
}

impl World {
    /// Opens a world with two incidents, three people, and a model that knows both incidents.
    pub(crate) async fn open(ports: Ports) -> Result<Self, CliError> {
        let signing_secret = random::hex::<16>()?;
        let settings = slack_settings(&signing_secret);
        Ok(Self {
            servicenow: ServiceNow::start_on(listen(ports.servicenow, "the simulated ServiceNow").await?)
                .map_err(failed("the simulated ServiceNow"))?,
            slack: SimulatedSlack::start_on(listen(ports.slack, "the simulated Slack").await?, settings)
                .map_err(failed("the simulated Slack"))?,
            model: Model::start_on(listen(ports.model, "the simulated model").await?, recordings())
                .map_err(failed("the simulated model"))?,
            signing_secret,
        })
    }

    /// The configuration of a worker that works in this world.
    pub(crate) fn config(&self) -> String {
        let [(password, _), (token, _), (key, _)] = CREDENTIALS;
        format!(
            "# Where the systems outside are, and which variables hold the credentials for them.\n\
             servicenow:\n  base: {}\n  user: {}\n  password_env: {password}\n\
             slack:\n  base: {}/api\n  token_env: {token}\n  channel: {CHANNEL}\n\
             models:\n  simulated:\n    base: {}\n    shape: bedrock\n    key_env: {key}\n    prices:\n      \
             # In millionths of a US dollar for a million tokens.\n      \
             triage-1: {{ input: 3000000, output: 15000000 }}\n",
            self.servicenow.url(),
            servicenow::USER,
            self.slack.url(),
            self.model.url(),
        )
    }

    /// The door through which clicks of this world's Slack come in.
    pub(crate) fn door(&self, tenant: TenantId) -> Result<SlackInstallation, CliError> {
        let bad = |error: String| CliError::Usage(format!("the simulated Slack cannot be used: {error}"));
        let secrets = Secrets::new(self.signing_secret.clone().into());
        let settings = client::Settings {
            base_url: Url::parse(&self.slack.url()).map_err(|error| bad(error.to_string()))?,
            token: SLACK_TOKEN.into(),
            channel: CHANNEL.to_owned(),
        };
        let slack = Slack::new(settings).map_err(|error| bad(error.to_string()))?;
        Ok(SlackInstallation::new(tenant, secrets.map_err(|error| bad(error.to_string()))?, slack))
    }
}

/// What the variable `name` of [`CREDENTIALS`] holds.
pub(crate) fn credential(name: &str) -> Option<String> {
    CREDENTIALS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// A tenant with everybody in it, known by their Slack users.
pub(crate) fn tenant_of(tenant: TenantId) -> Result<Tenant, CliError> {
    let mut settled = Tenant::new(tenant);
    for (name, user) in PEOPLE {
        let person = domain::tenant::Person { slack: Some(format!("{TEAM}:{user}")) };
        settled.people.insert(PersonId::new(name)?, person);
    }
    let on_call = ["grace", "ben"].into_iter().map(PersonId::new).collect::<Result<_, _>>()?;
    settled.groups.insert(GroupName::new("db-oncall")?, on_call);
    Ok(settled)
}

/// A port of the loopback.
pub(crate) async fn listen(port: u16, what: &'static str) -> Result<TcpListener, CliError> {
    TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => CliError::Usage(format!(
            "port {port}, for {what}, is taken; name another with --port, or 0 for any"
        )),
        _ => CliError::Start { what, source: error },
    })
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> CliError {
    move |source| CliError::Start { what, source }
}

fn slack_settings(signing_secret: &str) -> slack::Settings {
    let user = |(name, id): (&str, &str)| User { id: id.to_owned(), name: name.to_owned() };
    let shortcut = |(name, id, on_message): (&str, &str, bool)| Shortcut {
        name: name.to_owned(),
        callback_id: id.to_owned(),
        on_message,
    };
    slack::Settings {
        token: SLACK_TOKEN.to_owned(),
        signing_secret: signing_secret.to_owned(),
        team: TEAM.to_owned(),
        channels: vec![CHANNEL.to_owned()],
        users: PEOPLE.map(user).into(),
        shortcuts: [
            ("Start a run", window::START, false),
            ("Start a run about this", window::ON_MESSAGE, true),
        ]
        .map(shortcut)
        .into(),
        callback: None,
    }
}

fn recordings() -> Vec<Recording> {
    let recording = |(about, said): (&str, &str)| Recording {
        input_tokens: 186,
        output_tokens: 41,
        ..Recording::new(about, said)
    };
    ANSWERS.map(recording).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config;

    #[tokio::test]
    async fn a_worker_finds_everything_it_needs_in_the_configuration() {
        let world = World::open(Ports::default()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("countersign.yaml");
        std::fs::write(&file, world.config()).unwrap();
        let config = config::read(Some(&file)).unwrap();
        let settings = config.settings(&credential).unwrap();
        assert!(settings.servicenow.is_some() && settings.slack.is_some() && settings.model.is_some());
        assert!(config.showing(&credential).unwrap().is_some());
        assert!(!world.config().contains(servicenow::PASSWORD));
    }

    #[test]
    fn everybody_is_known_by_their_slack_user() {
        let tenant = tenant_of("default".parse().unwrap()).unwrap();
        let person = tenant.slack_person(TEAM, "U0GRACE").map(ToString::to_string);
        assert_eq!(person.as_deref(), Some("grace"));
    }
}
