//! Which ticket a run is about, and what becomes of a second run about it.

use domain::{TicketRule, WhenTaken};

use crate::error::{Fault, WorkflowError};
use crate::fields::{Fields, choice, text, wrong_kind};
use crate::parse::File;
use crate::text::Text;
use crate::yaml::{Kind, Node};

const TICKET_FIELDS: [&str; 2] = ["of", "when_taken"];
pub(crate) const WHEN_TAKEN: [&str; 3] = ["join", "queue", "refuse"];

impl File<'_> {
    /// `ticket`: a text, or a map that also says what becomes of a second run.
    pub(crate) fn ticket(&mut self, fields: &Fields<'_>) -> Result<Option<TicketRule>, WorkflowError> {
        const ALL: [WhenTaken; 3] = [WhenTaken::Join, WhenTaken::Queue, WhenTaken::Refuse];
        let Some(node) = fields.get("ticket") else { return Ok(None) };
        let (of, when_taken) = match &node.value {
            Kind::Text(_) => (node, WhenTaken::default()),
            Kind::Map(_) => {
                let fields = Fields::of(node, "`ticket`", &TICKET_FIELDS)?;
                let word = fields.get("when_taken").map(|node| choice(node, "`when_taken`", &WHEN_TAKEN));
                (fields.need("of")?, word.transpose()?.map_or_else(WhenTaken::default, |word| ALL[word]))
            }
            _ => return Err(wrong_kind(node, "`ticket`", "a text or a map")),
        };
        Ok(Some(TicketRule { of: self.ticket_text(of)?, when_taken }))
    }

    /// Neither a step nor the run itself is there when the ticket is looked for.
    fn ticket_text(&mut self, node: &Node) -> Result<String, WorkflowError> {
        let of = text(node, "the name of the ticket")?;
        self.reads(node, 0)?;
        let reads_run =
            Text::compile(of).is_ok_and(|of| of.expressions().iter().any(|(_, code)| code.reads().run));
        match of {
            blank if blank.trim().is_empty() => Err(WorkflowError::of(node, Fault::TicketEmpty)),
            _ if reads_run => Err(WorkflowError::of(node, Fault::TicketOfRun)),
            of => Ok(of.to_owned()),
        }
    }
}
