//! Fakes of the external systems that the governed workflow calls: ServiceNow, a model, and Slack for approvals.

use std::sync::Arc;

use connectors::OperatorConnections;
use credentials::LocalSecrets;
use domain::connection::{ConnectionOptions, CredentialSpec, ModelApi};
use domain::plan::Environment;
use domain::tenant::Person;
use domain::{Connection, ConnectionKind, PersonId, Role, SecretRef, Tenant, TenantId};
use engine::ConnectionParts;
use fakes::model::{KEY, Model, Recording};
use fakes::servicenow::{PASSWORD, ServiceNow, USER};
use fakes::slack::FakeSlack;

/// The approver.
pub(crate) const SECOND_PERSON: &str = "grace";
pub(crate) const TEAM: &str = "T0SIM";
pub(crate) const SLACK_USER: &str = "U0GRACE";

const MODEL_REPLY: &str = r#"{"group": "db-oncall", "urgency": "1", "confidence": 0.93, "because": "A database that does not answer is for the people who run it."}"#;

/// The fake servers. They stop when this is dropped.
pub(crate) struct ExternalSystems {
    servicenow: ServiceNow,
    slack: FakeSlack,
    model: Model,
}

impl ExternalSystems {
    pub(crate) async fn open() -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let reply = Recording {
            input_tokens: 186,
            output_tokens: 41,
            ..Recording::new("Primary database does not answer", MODEL_REPLY)
        };
        Ok(Self {
            servicenow: ServiceNow::start().await.map_err(failed)?,
            slack: FakeSlack::start().await.map_err(failed)?,
            model: Model::start(vec![reply]).await.map_err(failed)?,
        })
    }

    /// The connections to the fakes, as an operator configures them.
    pub(crate) fn connections(&self) -> Result<ConnectionParts, String> {
        let connection = |kind, base_url, credential, options| Connection {
            kind,
            base_url,
            environment: Environment::Dev,
            credential: Some(credential),
            workspace: None,
            options,
            version: 0,
        };
        let secret =
            |name: &str| format!("env://{name}").parse::<SecretRef>().map_err(|error| error.to_string());
        let basic = CredentialSpec::Basic { user: USER.to_owned(), password: secret("PASSWORD")? };
        let bearer = CredentialSpec::Bearer { token: secret("KEY")? };
        let bedrock =
            ConnectionOptions { model_api: Some(ModelApi::Bedrock), ..ConnectionOptions::default() };
        let bot = CredentialSpec::Bearer { token: secret("BOT_TOKEN")? };
        let channel = Some("C0APPROVALS".to_owned());
        let in_channel = ConnectionOptions { channel, ..ConnectionOptions::default() };
        let (instance, model) = (self.servicenow.url(), self.model.url());
        let slack = format!("{}/api", self.slack.url());
        let connections = [
            connection(ConnectionKind::ServiceNow, instance, basic, ConnectionOptions::default()),
            connection(ConnectionKind::Model, model, bearer, bedrock),
            connection(ConnectionKind::Slack, slack, bot, in_channel),
        ];
        let named = |connection: Connection| Some((connection.kind.to_string().parse().ok()?, connection));
        let shared = connections.into_iter().filter_map(named).collect();
        let operator = Arc::new(OperatorConnections { shared, ..OperatorConnections::default() });
        let secrets = LocalSecrets::new(|name| match name {
            "PASSWORD" => Some(PASSWORD.to_owned()),
            "KEY" => Some(KEY.to_owned()),
            "BOT_TOKEN" => Some("xoxb-fake".to_owned()),
            _ => None,
        });
        Ok(ConnectionParts { operator, is_complete: true, secrets: Arc::new(secrets) })
    }
}

/// A tenant with an approver.
pub(crate) fn tenant_of(tenant: TenantId) -> Result<Tenant, String> {
    let mut tenant = Tenant::new(tenant);
    let person = PersonId::new(SECOND_PERSON).map_err(|error| error.to_string())?;
    let slack_roles = [Role::Approver].into_iter().collect();
    let slack = Some(format!("{TEAM}:{SLACK_USER}"));
    tenant.people.insert(person, Person { slack, oidc: None, slack_roles });
    Ok(tenant)
}
