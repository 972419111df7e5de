//! Fakes of the external systems that the governed workflow calls: ServiceNow, a model, and Slack for approvals.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::slack::Slack;
use async_trait::async_trait;
use connectors::{Credential, HostAllowList, ToolRegistry, model, servicenow};
use domain::tenant::Person;
use domain::{Approval, Card, PersonId, Role, Tenant, TenantId};
use engine::{ApprovalNotifier, Notifier, NotifyFailure, RetryHint};
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

    /// The tools of a worker, connected to the fakes.
    pub(crate) fn tools(&self) -> Result<ToolRegistry, String> {
        let provider = model::Provider {
            base: base(&self.model.url())?,
            format: model::ApiFormat::Bedrock,
            credential: Credential::Bearer(KEY.into()),
            prices: BTreeMap::new(),
        };
        let settings = connectors::ConnectorSettings {
            servicenow: Some(servicenow::ServiceNowSettings {
                base: base(&self.servicenow.url())?,
                credential: Credential::Basic { user: USER.to_owned(), password: PASSWORD.into() },
            }),
            model: Some(model::ModelSettings { providers: [("simulated".to_owned(), provider)].into() }),
            ..connectors::ConnectorSettings::default()
        };
        Ok(connectors::standard_tools(HostAllowList::default(), settings))
    }

    /// The approval notifier.
    pub(crate) fn notifier(&self) -> Result<Notifier, String> {
        let settings = slack::client::SlackClientSettings {
            base_url: format!("{}/api", self.slack.url()).parse().map_err(|_| "invalid Slack address")?,
            token: "xoxb-fake".into(),
            channel: "C0APPROVALS".to_owned(),
        };
        let slack = Slack::new(settings).map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(SlackNotifier(slack))))
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

fn base(url: &str) -> Result<connectors::BaseUrl, String> {
    url.parse().map_err(|error| format!("{url}: {error}"))
}

struct SlackNotifier(Slack);

#[async_trait]
impl ApprovalNotifier for SlackNotifier {
    async fn notify(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotifyFailure> {
        self.0.sync_card(approval, card).await.map_err(|error| NotifyFailure {
            approval: approval.id.clone(),
            why: engine::error_chain(&error),
            so_far: None,
            retry: RetryHint::Never,
        })
    }
}
