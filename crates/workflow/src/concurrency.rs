//! The `concurrency` section: at most one active run for each key.

use domain::{ConcurrencyRule, ConcurrencyScope, OnConflict};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, choice, text, wrong_type};
use crate::parse::File;
use crate::text::Text;
use crate::yaml::{Node, YamlValue};

const CONCURRENCY_FIELDS: [&str; 3] = ["key", "on_conflict", "scope"];

impl File<'_> {
    /// `concurrency`: the key alone, or a map with `key`, `on_conflict` and `scope`.
    pub(crate) fn concurrency(
        &mut self,
        fields: &Fields<'_>,
    ) -> Result<Option<ConcurrencyRule>, WorkflowError> {
        let Some(node) = fields.get("concurrency") else { return Ok(None) };
        let (key, on_conflict, scope) = match &node.value {
            YamlValue::Text(_) => (node, OnConflict::default(), ConcurrencyScope::default()),
            YamlValue::Map(_) => {
                let fields = Fields::of(node, "`concurrency`", &CONCURRENCY_FIELDS)?;
                let on_conflict = fields.get("on_conflict").map(|node| choice(node, "`on_conflict`"));
                let scope = fields.get("scope").map(|node| choice(node, "`scope`"));
                let (on_conflict, scope) = (on_conflict.transpose()?, scope.transpose()?);
                (fields.require("key")?, on_conflict.unwrap_or_default(), scope.unwrap_or_default())
            }
            _ => return Err(wrong_type(node, "`concurrency`", "a string or a map")),
        };
        Ok(Some(ConcurrencyRule { key: self.concurrency_key(key)?, on_conflict, scope }))
    }

    /// The key is evaluated before the run exists, so it cannot read steps or the run.
    fn concurrency_key(&mut self, node: &Node) -> Result<String, WorkflowError> {
        let key = text(node, "the concurrency key")?;
        self.reads(node, 0)?;
        let reads_run =
            Text::compile(key).is_ok_and(|key| key.expressions().iter().any(|(_, code)| code.reads().run));
        match key {
            blank if blank.trim().is_empty() => {
                Err(WorkflowError::of(node, ParseErrorKind::ConcurrencyKeyEmpty))
            }
            _ if reads_run => Err(WorkflowError::of(node, ParseErrorKind::ConcurrencyKeyReadsRun)),
            key => Ok(key.to_owned()),
        }
    }
}
