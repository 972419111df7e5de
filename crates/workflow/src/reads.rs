//! The inputs that the expressions of a step read, checked against the steps before it.

use std::collections::BTreeSet;

use domain::StepSeq;
use domain::plan::InputRefs;

use crate::error::{ParseErrorKind, WorkflowError};
use crate::expression::{ExpressionReads, StepRead};
use crate::parse::{EXPRESSIONS_MAX, File};
use crate::position;
use crate::text::Text;
use crate::yaml::{Node, YamlValue};

#[derive(Default)]
struct ReadSet {
    trigger: bool,
    steps: BTreeSet<StepSeq>,
}

impl File<'_> {
    /// The inputs of the expressions in `node`. They may read the steps before `end`.
    pub(crate) fn reads(&mut self, node: &Node, end: usize) -> Result<InputRefs, WorkflowError> {
        let mut found = ReadSet::default();
        self.collect(node, end, &mut found)?;
        Ok(InputRefs { trigger: found.trigger, steps: found.steps.into_iter().collect() })
    }

    fn collect(&mut self, node: &Node, end: usize, found: &mut ReadSet) -> Result<(), WorkflowError> {
        match &node.value {
            YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) => Ok(()),
            YamlValue::Text(text) => self.collect_text(node, text, end, found),
            YamlValue::List(items) => items.iter().try_for_each(|item| self.collect(item, end, found)),
            YamlValue::Map(fields) => {
                fields.iter().try_for_each(|(_, field)| self.collect(field, end, found))
            }
        }
    }

    fn collect_text(
        &mut self,
        node: &Node,
        text: &str,
        end: usize,
        found: &mut ReadSet,
    ) -> Result<(), WorkflowError> {
        let at = |at: usize, kind: ParseErrorKind| {
            WorkflowError::at(position::position_in_text(self.source, node, text, at), kind)
        };
        let compiled = Text::compile(text).map_err(|(byte, error)| at(byte, error.into()))?;
        for (start, expression) in compiled.expressions() {
            let ExpressionReads { trigger, steps, .. } = expression.reads();
            found.trigger |= trigger;
            for StepRead { step, at: byte } in steps {
                let seq = self.readable_step(step.as_str(), end).map_err(|kind| at(start + byte, kind))?;
                found.steps.insert(seq);
            }
        }
        let count = self.expressions + compiled.expressions().len();
        if count > EXPRESSIONS_MAX {
            return Err(at(0, ParseErrorKind::TooManyExpressions));
        }
        self.expressions = count;
        Ok(())
    }

    /// The index of `step`, which must be one of the first `end` steps.
    fn readable_step(&self, step: &str, end: usize) -> Result<StepSeq, ParseErrorKind> {
        let index = self.ids.iter().position(|id| id.as_str() == step);
        let readable = || self.ids.get(..end).unwrap_or_default().to_vec();
        match index {
            Some(index) if index < end => Ok(StepSeq(u16::try_from(index).unwrap_or(u16::MAX))),
            Some(_) => Err(ParseErrorKind::NotYetRun { step: step.to_owned(), readable: readable() }),
            None => Err(ParseErrorKind::NoSuchStep { step: step.to_owned(), readable: readable() }),
        }
    }
}
