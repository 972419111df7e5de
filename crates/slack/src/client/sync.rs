//! Brings the card in Slack up to date with an approval.
//!
//! The client stores nothing. The caller passes the card as last stored and gets the card as it is now; a second call
//! with that does nothing. If a later part fails, the error contains the parts that succeeded.
//!
//! A lost reply after a card was posted leads to a second card, because Slack has no idempotency key. Both cards name
//! the same approval, and a decision counts once.

use domain::Approval;
use domain::approval::Card;

use super::Slack;
use crate::card;
use crate::error::{NotifyError, SlackError};
use crate::interaction::MessageRef;

/// Whether `card` shows all of `approval`, so that [`Slack::sync_card`] would change nothing.
pub fn is_current(approval: &Approval, card: &Card) -> bool {
    card.revision >= approval.card_revision()
        && card.reminders >= approval.reminders
        && (card.escalated || approval.escalated_at.is_none())
}

/// The failed operation and its error.
type Failed = (&'static str, SlackError);

impl Slack {
    /// Posts or updates the card of `approval`, and posts due reminders. `card` is the card as last stored.
    pub async fn sync_card(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotifyError> {
        let mut so_far = card.cloned();
        let synced = self.sync_parts(approval, &mut so_far).await;
        let id = &approval.id;
        synced.map_err(|(operation, source)| NotifyError { approval: id.clone(), operation, so_far, source })
    }

    async fn sync_parts(&self, approval: &Approval, so_far: &mut Option<Card>) -> Result<Card, Failed> {
        let card = self.post_or_update(approval, so_far.as_ref()).await?;
        *so_far = Some(card.clone());
        let card = self.remind(approval, card).await?;
        *so_far = Some(card.clone());
        let card = self.escalate(approval, card).await?;
        *so_far = Some(card.clone());
        Ok(card)
    }

    /// Posts or updates the card. An approval older than the card changes nothing.
    async fn post_or_update(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, Failed> {
        match card {
            Some(card) if card.revision >= approval.card_revision() => Ok(card.clone()),
            Some(card) => self.update_card(approval, card).await,
            None => {
                let place = self.post_card(approval).await?;
                let revision = approval.card_revision();
                Ok(Card { message: place, connection: None, revision, reminders: 0, escalated: false })
            }
        }
    }

    async fn post_card(&self, approval: &Approval) -> Result<String, Failed> {
        let posted = self.post(card::render(approval, self.console()), None).await;
        posted.map(|place| place.to_string()).map_err(|error| ("post the card", error))
    }

    /// If the card was deleted in Slack, posts a new one while the approval is open.
    async fn update_card(&self, approval: &Approval, card: &Card) -> Result<Card, Failed> {
        let updated = match card.message.parse::<MessageRef>() {
            Ok(place) => self.update(card::render(approval, self.console()), &place).await,
            Err(_) => Err(SlackError::Settings("the stored card location is not a Slack message")),
        };
        let place = match updated {
            Err(SlackError::Api(code)) if code == "message_not_found" && approval.is_open() => {
                self.post_card(approval).await?
            }
            Err(SlackError::Api(code)) if code == "message_not_found" => card.message.clone(),
            Err(error) => return Err(("update the card", error)),
            Ok(()) => card.message.clone(),
        };
        Ok(Card { message: place, revision: approval.card_revision(), ..card.clone() })
    }

    /// Posts one reminder, even if several are due.
    async fn remind(&self, approval: &Approval, card: Card) -> Result<Card, Failed> {
        if approval.reminders <= card.reminders {
            return Ok(card);
        }
        if approval.is_open() {
            let posted = self.post_in_thread(card::reminder(approval), &card).await;
            posted.map_err(|error| ("post the reminder", error))?;
        }
        Ok(Card { reminders: approval.reminders, ..card })
    }

    /// Posts the escalation.
    async fn escalate(&self, approval: &Approval, card: Card) -> Result<Card, Failed> {
        if approval.escalated_at.is_none() || card.escalated {
            return Ok(card);
        }
        if approval.is_open() {
            let posted = self.post_in_thread(card::escalation(approval), &card).await;
            posted.map_err(|error| ("post the escalation", error))?;
        }
        Ok(Card { escalated: true, ..card })
    }

    async fn post_in_thread(&self, message: serde_json::Value, card: &Card) -> Result<(), SlackError> {
        let place: MessageRef = card
            .message
            .parse()
            .map_err(|_| SlackError::Settings("the stored card location is not a Slack message"))?;
        self.post(message, Some(&place)).await.map(|_| ())
    }
}
