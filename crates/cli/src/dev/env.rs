//! The fake external systems of `dev` and `demo`: ServiceNow, Slack and a model, each on its own port.
//!
//! They are reached over HTTP with credentials, like the real systems; no other part of the program knows that they
//! are fakes.

use std::io;

use ::config::{ProcessContext, SystemsConfig};
use ::slack::start_modal;
use domain::{GroupName, PersonId, Role, Tenant, TenantId};
use fakes::model::{self, Model, Recording};
use fakes::servicenow::{self, ServiceNow};
use fakes::slack::{self, FakeShortcut, FakeSlack, User};
use ingress::configured;
use ingress::slack::SlackInstallations;
use store::{Clock as _, SystemClock};
use tokio::net::TcpListener;

use crate::error::CliError;
use crate::random;

/// The channel for approval cards.
const CHANNEL: &str = "C0APPROVALS";

/// The Slack workspace.
pub(crate) const TEAM: &str = "T0SIM";

const SLACK_TOKEN: &str = "xoxb-fake";

/// The variable with the signing secret of the fake Slack. Only this process has it.
const SIGNING_SECRET: &str = "SIMULATED_SLACK_SIGNING_SECRET";

/// The sample users: name and Slack user id.
pub(crate) const PEOPLE: [(&str, &str); 3] = [("ada", "U0ADA"), ("grace", "U0GRACE"), ("ben", "U0BEN")];

/// The variables that the configuration names, and their values.
pub(crate) const CREDENTIALS: [(&str, &str); 3] = [
    ("SIMULATED_SERVICENOW_PASSWORD", servicenow::PASSWORD),
    ("SIMULATED_SLACK_TOKEN", SLACK_TOKEN),
    ("SIMULATED_MODEL_KEY", model::KEY),
];

/// The recorded replies of the model about the two sample incidents.
const MODEL_REPLIES: [(&str, &str); 2] = [
    (
        "Primary database does not answer",
        r#"{"group": "db-oncall", "urgency": "1", "confidence": 0.93, "because": "The database team operates the primary database."}"#,
    ),
    (
        "Printer on floor 3",
        r#"{"group": "desktop", "urgency": "3", "confidence": 0.97, "because": "The desktop team replaces toner."}"#,
    ),
];

/// The fake systems. They stop when this is dropped.
pub(crate) struct DevEnv {
    pub(crate) servicenow: ServiceNow,
    pub(crate) slack: FakeSlack,
    pub(crate) model: Model,
    signing_secret: String,
}

/// The ports of the fake systems; 0 chooses a free one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ports {
    pub(crate) slack: u16,
    pub(crate) servicenow: u16,
    pub(crate) model: u16,
}

impl DevEnv {
    /// Starts the fakes with two incidents, three users, and recorded model replies for both incidents.
    pub(crate) async fn open(ports: Ports) -> Result<Self, CliError> {
        let signing_secret = random::hex::<16>()?;
        let settings = slack_settings(&signing_secret);
        Ok(Self {
            servicenow: ServiceNow::start_on(listen(ports.servicenow, "the fake ServiceNow").await?)
                .map_err(failed("the fake ServiceNow"))?,
            slack: FakeSlack::start_on(listen(ports.slack, "the fake Slack").await?, settings)
                .map_err(failed("the fake Slack"))?,
            model: Model::start_on(listen(ports.model, "the fake model").await?, recordings())
                .map_err(failed("the fake model"))?,
            signing_secret,
        })
    }

    /// The configuration of a worker that uses these systems.
    pub(crate) fn config(&self, tenant: &TenantId) -> String {
        let [(password, _), (token, _), (key, _)] = CREDENTIALS;
        format!(
            "# External systems and the environment variables that hold their credentials.\n\
             connections:\n\
             \x20 # A workflow cannot be laxer than the environment of its connection.\n\
             \x20 - {{ name: servicenow, kind: servicenow, base_url: '{servicenow}', environment: dev,\n\
             \x20     credential: {{ type: basic, user: {user}, password: 'env://{password}' }} }}\n\
             \x20 # Shows approval requests in its channel, and receives the clicks on them.\n\
             \x20 - {{ tenant: {tenant}, name: slack, kind: slack, base_url: '{slack}/api', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://{token}' }},\n\
             \x20     options: {{ channel: {CHANNEL}, team: {TEAM}, signing_secret: 'env://{SIGNING_SECRET}' }} }}\n\
             \x20 # Prices are in millionths of a US dollar for a million tokens.\n\
             \x20 - {{ name: simulated, kind: model, base_url: '{model}', environment: dev,\n\
             \x20     credential: {{ type: bearer, token: 'env://{key}' }},\n\
             \x20     options: {{ model_api: bedrock, prices: {{ triage-1: {{ input: 3000000, output: 15000000 }} }} }} }}\n",
            servicenow = self.servicenow.url(),
            user = servicenow::USER,
            slack = self.slack.url(),
            model = self.model.url(),
        )
    }

    /// Authenticates the requests that the fake Slack sends for `tenant`.
    pub(crate) fn slack_installations(&self, tenant: &TenantId) -> Result<SlackInstallations, CliError> {
        let signing_secret = self.signing_secret.clone();
        let look_up = move |name: &str| match name {
            SIGNING_SECRET => Some(signing_secret.clone()),
            name => credential(name),
        };
        let process = ProcessContext::without_aws(|| SystemClock.now());
        let systems = SystemsConfig::parse(&self.config(tenant))?;
        Ok(configured::slack_installations(&systems, look_up, process)?)
    }
}

/// The value of the variable `name` of [`CREDENTIALS`].
pub(crate) fn credential(name: &str) -> Option<String> {
    CREDENTIALS.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
}

/// A tenant with the sample users and the group `db-oncall`.
pub(crate) fn sample_tenant(tenant: TenantId) -> Result<Tenant, CliError> {
    let mut record = Tenant::new(tenant);
    for (name, user) in PEOPLE {
        let slack_roles = [Role::Operator, Role::Approver].into_iter().collect();
        let person =
            domain::tenant::Person { slack: Some(format!("{TEAM}:{user}")), oidc: None, slack_roles };
        record.people.insert(PersonId::new(name)?, person);
    }
    let on_call = ["grace", "ben"].into_iter().map(PersonId::new).collect::<Result<_, _>>()?;
    record.groups.insert(GroupName::new("db-oncall")?, on_call);
    Ok(record)
}

/// Binds a port on 127.0.0.1.
pub(crate) async fn listen(port: u16, what: &'static str) -> Result<TcpListener, CliError> {
    TcpListener::bind(("127.0.0.1", port)).await.map_err(|error| match error.kind() {
        io::ErrorKind::AddrInUse => CliError::Usage(format!(
            "port {port} for {what} is already in use; choose another with --port, or 0 for free ports"
        )),
        _ => CliError::Start { what, source: error },
    })
}

fn failed(what: &'static str) -> impl Fn(io::Error) -> CliError {
    move |source| CliError::Start { what, source }
}

fn slack_settings(signing_secret: &str) -> slack::FakeSlackSettings {
    let user = |(name, id): (&str, &str)| User { id: id.to_owned(), name: name.to_owned() };
    let shortcut = |(name, id, on_message): (&str, &str, bool)| FakeShortcut {
        name: name.to_owned(),
        callback_id: id.to_owned(),
        on_message,
    };
    slack::FakeSlackSettings {
        token: SLACK_TOKEN.to_owned(),
        signing_secret: signing_secret.to_owned(),
        team: TEAM.to_owned(),
        channels: vec![CHANNEL.to_owned()],
        users: PEOPLE.map(user).into(),
        shortcuts: [
            ("Start a run", start_modal::START, false),
            ("Start a run about this", start_modal::ON_MESSAGE, true),
        ]
        .map(shortcut)
        .into(),
        callback: None,
    }
}

fn recordings() -> Vec<Recording> {
    let recording = |(about, reply): (&str, &str)| Recording {
        input_tokens: 186,
        output_tokens: 41,
        ..Recording::new(about, reply)
    };
    MODEL_REPLIES.map(recording).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::read_config;

    #[tokio::test]
    async fn configuration_covers_all_fakes_without_secrets() {
        let systems = DevEnv::open(Ports::default()).await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("countersign.yaml");
        let tenant = "default".parse().unwrap();
        std::fs::write(&file, systems.config(&tenant)).unwrap();
        let config = read_config(Some(&file)).unwrap();
        assert_eq!(config.connections(&credential).unwrap().of(&tenant).len(), 3);
        assert!(config.notifier().unwrap().is_some());
        assert!(systems.slack_installations(&tenant).is_ok());
        assert!(!systems.config(&tenant).contains(servicenow::PASSWORD));
    }

    #[test]
    fn slack_user_maps_to_sample_user() {
        let tenant = sample_tenant("default".parse().unwrap()).unwrap();
        let person = tenant.slack_person(TEAM, "U0GRACE").map(ToString::to_string);
        assert_eq!(person.as_deref(), Some("grace"));
    }
}
