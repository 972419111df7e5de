//! The variables of an expression, converted to CEL values on access.
//!
//! The interpreter resolves the longest name first (`trigger.record.id` before `trigger.record`), so a path is followed in
//! the JSON and only its end is converted. Strings are borrowed, not copied.

use std::sync::{Arc, LazyLock};

use cel::Env;
use cel::common::value::CowVal;
use cel::context::VariableResolver;
use serde_json::Value;

use super::{Meter, StepRead, convert};
use crate::template::Scope;

pub(super) struct Variables<'s> {
    scope: &'s Scope,
    steps: &'s [StepRead],
    meter: &'s Meter,
}

impl<'s> Variables<'s> {
    pub(super) fn new(scope: &'s Scope, steps: &'s [StepRead], meter: &'s Meter) -> Self {
        Self { scope, steps, meter }
    }

    fn root(&self, name: &str) -> Option<&Value> {
        match name {
            "trigger" => self.scope.trigger.as_deref(),
            "run" => Some(&self.scope.run),
            _ => {
                let index: usize = name.strip_prefix('@')?.parse().ok()?;
                self.scope.steps.get(&self.steps.get(index)?.step).map(Arc::as_ref)
            }
        }
    }

    fn at(&self, path: &str) -> Option<&Value> {
        let mut names = path.split('.');
        let root = self.root(names.next()?)?;
        names.try_fold(root, |value, name| value.as_object()?.get(name))
    }
}

impl VariableResolver for Variables<'_> {
    fn resolve<'b>(&'b self, path: &str) -> Option<CowVal<'b, 'b>> {
        let value = self.at(path)?;
        self.meter.spend(convert::json_size(value)).then(|| CowVal::Owned(convert::from_json(value)))
    }
}

/// The standard functions, without optional values. Expressions test for a missing key with `has`.
pub(super) fn environment() -> Arc<Env> {
    static ENVIRONMENT: LazyLock<Arc<Env>> =
        LazyLock::new(|| Arc::new(Env::default().with_optional_support(false).with_stdlib()));
    Arc::clone(&ENVIRONMENT)
}
