//! The systems outside that the governed workflow speaks to, simulated in this process: a ServiceNow, a model,
//! and a Slack in which people are asked.

use std::collections::BTreeMap;
use std::sync::Arc;

use ::slack::Slack;
use async_trait::async_trait;
use connectors::{Allow, Credential, Toolbox, model, servicenow};
use domain::tenant::Person;
use domain::{Approval, Card, PersonId, Tenant, TenantId};
use engine::{Again, NotShown, Showing, Shows};
use fakes::model::{KEY, Model, Recording};
use fakes::servicenow::{PASSWORD, ServiceNow, USER};
use fakes::slack::SimulatedSlack;

/// Who answers.
pub(crate) const SECOND_PERSON: &str = "grace";
pub(crate) const TEAM: &str = "T0SIM";
pub(crate) const SLACK_USER: &str = "U0GRACE";

const SAID: &str = r#"{"group": "db-oncall", "urgency": "1", "confidence": 0.93, "because": "A database that does not answer is for the people who run it."}"#;

/// The outside world. It ends when this is dropped.
pub(crate) struct World {
    servicenow: ServiceNow,
    slack: SimulatedSlack,
    model: Model,
}

impl World {
    pub(crate) async fn open() -> Result<Self, String> {
        let failed = |error: std::io::Error| error.to_string();
        let said = Recording {
            input_tokens: 186,
            output_tokens: 41,
            ..Recording::new("Primary database does not answer", SAID)
        };
        Ok(Self {
            servicenow: ServiceNow::start().await.map_err(failed)?,
            slack: SimulatedSlack::start().await.map_err(failed)?,
            model: Model::start(vec![said]).await.map_err(failed)?,
        })
    }

    /// The tools of a worker that works in this world.
    pub(crate) fn tools(&self) -> Result<Toolbox, String> {
        let provider = model::Provider {
            base: base(&self.model.url())?,
            shape: model::Shape::Bedrock,
            credential: Credential::Bearer(KEY.into()),
            prices: BTreeMap::new(),
        };
        let settings = connectors::Settings {
            servicenow: Some(servicenow::Settings {
                base: base(&self.servicenow.url())?,
                credential: Credential::Basic { user: USER.to_owned(), password: PASSWORD.into() },
            }),
            model: Some(model::Settings { providers: [("simulated".to_owned(), provider)].into() }),
            ..connectors::Settings::default()
        };
        Ok(connectors::standard(Allow::default(), settings))
    }

    /// Who shows people what they are asked.
    pub(crate) fn shows(&self) -> Result<Showing, String> {
        let settings = slack::client::Settings {
            base_url: format!("{}/api", self.slack.url()).parse().map_err(|_| "a bad address")?,
            token: "xoxb-simulated".into(),
            channel: "C0APPROVALS".to_owned(),
        };
        let slack = Slack::new(settings).map_err(|error| error.to_string())?;
        Ok(Some(Arc::new(InSlack(slack))))
    }
}

/// A tenant with somebody who can say yes.
pub(crate) fn tenant_of(tenant: TenantId) -> Result<Tenant, String> {
    let mut settled = Tenant::new(tenant);
    let person = PersonId::new(SECOND_PERSON).map_err(|error| error.to_string())?;
    settled.people.insert(person, Person { slack: Some(format!("{TEAM}:{SLACK_USER}")) });
    Ok(settled)
}

fn base(url: &str) -> Result<connectors::Base, String> {
    url.parse().map_err(|error| format!("{url}: {error}"))
}

struct InSlack(Slack);

#[async_trait]
impl Shows for InSlack {
    async fn show(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotShown> {
        self.0.show(approval, card).await.map_err(|error| NotShown {
            approval: approval.id.clone(),
            why: engine::told(&error),
            so_far: None,
            again: Again::No,
        })
    }
}
