//! What the expressions of a step read, checked against the steps before it.

use std::collections::BTreeSet;

use domain::StepSeq;
use domain::plan::Reads;

use crate::error::{Fault, WorkflowError, listed};
use crate::expression::{ExpressionReads, StepRead};
use crate::parse::{EXPRESSIONS_MAX, File};
use crate::place;
use crate::text::Text;
use crate::yaml::{Kind, Node};

#[derive(Default)]
struct Found {
    trigger: bool,
    steps: BTreeSet<StepSeq>,
}

impl File<'_> {
    /// What the expressions in `node` read; each may read the steps before `end`.
    pub(crate) fn reads(&mut self, node: &Node, end: usize) -> Result<Reads, WorkflowError> {
        let mut found = Found::default();
        self.collect(node, end, &mut found)?;
        Ok(Reads { trigger: found.trigger, steps: found.steps.into_iter().collect() })
    }

    fn collect(&mut self, node: &Node, end: usize, found: &mut Found) -> Result<(), WorkflowError> {
        match &node.value {
            Kind::Null | Kind::Bool(_) | Kind::Number(_) => Ok(()),
            Kind::Text(text) => self.collect_text(node, text, end, found),
            Kind::List(items) => items.iter().try_for_each(|item| self.collect(item, end, found)),
            Kind::Map(fields) => fields.iter().try_for_each(|(_, field)| self.collect(field, end, found)),
        }
    }

    fn collect_text(
        &mut self,
        node: &Node,
        text: &str,
        end: usize,
        found: &mut Found,
    ) -> Result<(), WorkflowError> {
        let at =
            |at: usize, fault: Fault| WorkflowError::at(place::inside(self.source, node, text, at), fault);
        let compiled = Text::compile(text).map_err(|(byte, fault)| at(byte, fault.into()))?;
        for (start, expression) in compiled.expressions() {
            let ExpressionReads { trigger, steps, .. } = expression.reads();
            found.trigger |= trigger;
            for StepRead { step, at: byte } in steps {
                let seq = self.readable(step.as_str(), end).map_err(|fault| at(start + byte, fault))?;
                found.steps.insert(seq);
            }
        }
        let count = self.expressions + compiled.expressions().len();
        if count > EXPRESSIONS_MAX {
            return Err(at(0, Fault::TooManyExpressions));
        }
        self.expressions = count;
        Ok(())
    }

    /// The place of `step`, which must be one of the first `end`.
    fn readable(&self, step: &str, end: usize) -> Result<StepSeq, Fault> {
        let place = self.ids.iter().position(|id| id.as_str() == step);
        let known = || self.known_before(end);
        match place {
            Some(place) if place < end => Ok(StepSeq(u16::try_from(place).unwrap_or(u16::MAX))),
            Some(_) => Err(Fault::NotYetRun { step: step.to_owned(), readable: known() }),
            None => Err(Fault::NoSuchStep { step: step.to_owned(), readable: known() }),
        }
    }

    fn known_before(&self, end: usize) -> String {
        match self.ids.get(..end) {
            None | Some([]) => "no step".to_owned(),
            Some(earlier) => listed(earlier.iter().map(domain::StepId::as_str)),
        }
    }
}
