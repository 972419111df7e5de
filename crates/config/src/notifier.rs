//! The engine's approval notifier: cards and pages over the connections of each tenant.

use async_trait::async_trait;
use domain::{Approval, Card, ConnectionKind, ConnectionName, Failure, Millis, Page, PageStatus};
use engine::{
    ApprovalNotifier, CredentialFailure, DeliveryConnection, NotifyContext, NotifyFailure,
    ResolvedConnection, RetryHint,
};
use slack::{Pager, Slack, SlackError, client};
use url::Url;

/// Posts cards over connections of kind `slack`, and pages over those of kind `pagerduty`. The token is fetched for each
/// delivery, so a rotated one works without a restart.
#[derive(Debug, Clone, Default)]
pub struct ConnectionNotifier {
    /// The address of the console. Cards link to it.
    pub console: Option<Url>,
}

/// Why something could not be delivered.
struct Undelivered {
    why: String,
    retry: RetryHint,
}

impl Undelivered {
    fn permanent(why: String) -> Self {
        Self { why, retry: RetryHint::Never }
    }

    fn into_failure(self, approval: &Approval, kind: ConnectionKind, so_far: Option<Card>) -> NotifyFailure {
        let why = format!("{kind}: {}", self.why);
        NotifyFailure { approval: approval.id.clone(), why, so_far, retry: self.retry }
    }
}

impl From<CredentialFailure> for Undelivered {
    fn from(failure: CredentialFailure) -> Self {
        match failure {
            CredentialFailure::Retryable(failure, after) => Self::retryable(text(&failure), after),
            CredentialFailure::Terminal(failure) => Self::permanent(text(&failure)),
        }
    }
}

impl Undelivered {
    fn retryable(why: String, after: Option<Millis>) -> Self {
        Self { why, retry: RetryHint::After(after) }
    }

    fn slack(error: &SlackError, why: String) -> Self {
        match error {
            SlackError::RateLimited { retry_after } => Self::retryable(why, Some(*retry_after)),
            error if error.is_retryable() => Self::retryable(why, None),
            _ => Self::permanent(why),
        }
    }
}

#[async_trait]
impl ApprovalNotifier for ConnectionNotifier {
    async fn notify(
        &self,
        approval: &Approval,
        card: Option<&Card>,
        context: &NotifyContext<'_>,
    ) -> Result<Option<Card>, NotifyFailure> {
        let kind = ConnectionKind::Slack;
        let failed = |undelivered: Undelivered| undelivered.into_failure(approval, kind, None);
        if let Some(card) = card.filter(|card| client::is_current(approval, card)) {
            return Ok(Some(card.clone()));
        }
        let posted_on = card.and_then(|card| card.connection.as_ref());
        let (resolved, card) = match choose(context, kind, posted_on).map_err(failed)? {
            Chosen::Use(resolved) => (resolved, card),
            // The connection of the card was removed: the request is posted again if it is open.
            Chosen::Removed if !approval.is_open() => return Ok(card.cloned()),
            Chosen::Removed => match choose(context, kind, None).map_err(failed)? {
                Chosen::Use(resolved) => (resolved, None),
                Chosen::Removed | Chosen::None => return Ok(None),
            },
            Chosen::None => return Ok(None),
        };
        let Some(channel) = resolved.connection.options.channel_of(approval).or(card.map(channel_of)) else {
            return Ok(None);
        };
        let delivery = open(context, &resolved).await.map_err(failed)?;
        let result = self.sync_card(&delivery, channel, (approval, card)).await;
        let result = result.map_err(|(undelivered, so_far)| {
            let why = delivery.redact(&undelivered.why);
            let so_far = so_far.map(|card| on_connection(card, &resolved.name));
            Undelivered { why, ..undelivered }.into_failure(approval, kind, so_far)
        });
        delivery.release().await;
        result.map(|card| Some(on_connection(card, &resolved.name)))
    }

    async fn page(
        &self,
        approval: &Approval,
        page: Option<&Page>,
        context: &NotifyContext<'_>,
    ) -> Result<Option<Page>, NotifyFailure> {
        let kind = ConnectionKind::PagerDuty;
        let failed = |undelivered: Undelivered| undelivered.into_failure(approval, kind, None);
        let paged_on = page.and_then(|page| page.connection.as_ref());
        let resolved = match choose(context, kind, paged_on).map_err(failed)? {
            Chosen::Use(resolved) => resolved,
            // Its connection was removed, so the page cannot be resolved.
            Chosen::Removed => return Ok(page.cloned()),
            Chosen::None => return Ok(None),
        };
        let delivery = open(context, &resolved).await.map_err(failed)?;
        let result = sync_page(&delivery, approval, page).await.map_err(|error| {
            let why = delivery.redact(&engine::error_chain(&error));
            Undelivered::slack(&error, why).into_failure(approval, kind, None)
        });
        delivery.release().await;
        let status = result?;
        Ok(status.map(|status| Page { status, connection: Some(resolved.name) }))
    }
}

impl ConnectionNotifier {
    async fn sync_card(
        &self,
        delivery: &DeliveryConnection,
        channel: &str,
        (approval, card): (&Approval, Option<&Card>),
    ) -> Result<Card, (Undelivered, Option<Card>)> {
        let invalid = |error: SlackError| (Undelivered::permanent(error.to_string()), None);
        let slack = Slack::on(&delivery.connection).map_err(invalid)?;
        let slack = slack.in_channel(channel).map_err(invalid)?;
        let slack = match &self.console {
            Some(console) => slack.with_console(console.clone()),
            None => slack,
        };
        slack.sync_card(approval, card).await.map_err(|error| {
            let why = engine::error_chain(&error);
            (Undelivered::slack(&error.source, why), error.so_far)
        })
    }
}

async fn sync_page(
    delivery: &DeliveryConnection,
    approval: &Approval,
    page: Option<&Page>,
) -> Result<Option<PageStatus>, SlackError> {
    Pager::on(&delivery.connection)?.sync_page(approval, page.map(|page| page.status)).await
}

/// The connection for a delivery.
enum Chosen {
    /// The connection of what was posted before, or the one for new cards and pages.
    Use(Box<ResolvedConnection>),
    /// The connection of what was posted before does not exist any more.
    Removed,
    None,
}

fn choose(
    context: &NotifyContext<'_>,
    kind: ConnectionKind,
    before: Option<&ConnectionName>,
) -> Result<Chosen, Undelivered> {
    let NotifyContext { tenant, workspace, connections, .. } = context;
    if let Some(name) = before {
        let found = connections.of_kind(tenant, name, kind);
        return Ok(found.map_or(Chosen::Removed, |found| Chosen::Use(Box::new(found))));
    }
    let found = connections.for_approvals(tenant, workspace, kind);
    let found = found.map_err(|failure| Undelivered::permanent(text(&failure)))?;
    Ok(found.map_or(Chosen::None, |found| Chosen::Use(Box::new(found))))
}

async fn open(
    context: &NotifyContext<'_>,
    resolved: &ResolvedConnection,
) -> Result<DeliveryConnection, Undelivered> {
    let NotifyContext { tenant, connections, now, .. } = context;
    Ok(connections.authenticated(&tenant.tenant, resolved, *now).await?)
}

fn text(failure: &Failure) -> String {
    format!("{}: {}", failure.code, failure.message)
}

fn on_connection(card: Card, name: &ConnectionName) -> Card {
    Card { connection: Some(name.clone()), ..card }
}

/// The channel of a posted card. Its updates name their channel themselves.
fn channel_of(card: &Card) -> &str {
    card.message.split_once('/').map_or("", |(channel, _)| channel)
}
