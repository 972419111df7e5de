//! Bringing Slack to where an approval stands.
//!
//! Nobody remembers here what was said before: the caller hands in what people see, and gets back what they
//! see now. Asking again with that does nothing. Each part that is done is in the card that comes back, and,
//! if a later part fails, in the error.
//!
//! A reply that is lost after a card was posted leads to a second card. Slack has no key by which it could
//! drop it; both carry the same approval, and whichever is pressed, the answer counts once.

use domain::Approval;
use domain::approval::Card;

use super::Slack;
use crate::card;
use crate::fault::{Fault, NotifyError};
use crate::interaction::Place;

/// What was being done, and what went wrong.
type Undone = (&'static str, Fault);

impl Slack {
    /// Shows people `approval` as it stands, who see `card` so far.
    pub async fn show(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, NotifyError> {
        let mut so_far = card.cloned();
        let brought = self.bring(approval, &mut so_far).await;
        let id = &approval.id;
        brought.map_err(|(doing, fault)| NotifyError { approval: id.clone(), doing, so_far, fault })
    }

    async fn bring(&self, approval: &Approval, so_far: &mut Option<Card>) -> Result<Card, Undone> {
        let card = self.present(approval, so_far.as_ref()).await?;
        *so_far = Some(card.clone());
        let card = self.remind(approval, card).await?;
        *so_far = Some(card.clone());
        self.escalate(approval, card).await
    }

    /// Posts the card, or changes the one that is there. Whoever has an older approval in hand than people
    /// see leaves it alone.
    async fn present(&self, approval: &Approval, card: Option<&Card>) -> Result<Card, Undone> {
        match card {
            Some(card) if card.shown >= approval.news() => Ok(card.clone()),
            Some(card) => {
                self.stand_down(approval).await?;
                self.change(approval, card).await
            }
            None => {
                self.stand_down(approval).await?;
                let place = self.place(approval).await?;
                Ok(Card { place, shown: approval.news(), reminders: 0, escalated: false })
            }
        }
    }

    async fn place(&self, approval: &Approval) -> Result<String, Undone> {
        let posted = self.post(card::render(approval), None).await;
        posted.map(|place| place.to_string()).map_err(|fault| ("post the card", fault))
    }

    /// A card that somebody has deleted is posted anew, as long as there is something to answer.
    async fn change(&self, approval: &Approval, card: &Card) -> Result<Card, Undone> {
        let updated = match card.place.parse::<Place>() {
            Ok(place) => self.update(card::render(approval), &place).await,
            Err(_) => Err(Fault::Settings("the card's place is none in Slack")),
        };
        let place = match updated {
            Err(Fault::Api(code)) if code == "message_not_found" && approval.is_open() => {
                self.place(approval).await?
            }
            Err(Fault::Api(code)) if code == "message_not_found" => card.place.clone(),
            Err(fault) => return Err(("update the card", fault)),
            Ok(()) => card.place.clone(),
        };
        Ok(Card { place, shown: approval.news(), ..card.clone() })
    }

    /// Says once that an answer is still missing, however many reminders went by unsaid.
    async fn remind(&self, approval: &Approval, card: Card) -> Result<Card, Undone> {
        if approval.reminders <= card.reminders {
            return Ok(card);
        }
        if approval.is_open() {
            let said = self.say(card::reminder(approval), &card).await;
            said.map_err(|fault| ("post the reminder", fault))?;
        }
        Ok(Card { reminders: approval.reminders, ..card })
    }

    /// Says that the answer is overdue, and has somebody called first: a second call does no harm, a second
    /// message does.
    async fn escalate(&self, approval: &Approval, card: Card) -> Result<Card, Undone> {
        if approval.escalated_at.is_none() || card.escalated {
            return Ok(card);
        }
        if approval.is_open() {
            if let Some(pager) = &self.pager {
                pager.trigger(approval).await.map_err(|fault| ("call somebody", fault))?;
            }
            let said = self.say(card::escalation(approval), &card).await;
            said.map_err(|fault| ("post the escalation", fault))?;
        }
        Ok(Card { escalated: true, ..card })
    }

    /// Whoever was called about `approval` can go back to sleep once it is decided.
    async fn stand_down(&self, approval: &Approval) -> Result<(), Undone> {
        match &self.pager {
            Some(pager) if !approval.is_open() && approval.escalated_at.is_some() => {
                pager.resolve(&approval.id).await.map_err(|fault| ("end the call", fault))
            }
            Some(_) | None => Ok(()),
        }
    }

    async fn say(&self, message: serde_json::Value, card: &Card) -> Result<(), Fault> {
        let place: Place =
            card.place.parse().map_err(|_| Fault::Settings("the card's place is none in Slack"))?;
        self.post(message, Some(&place)).await.map(|_| ())
    }
}
