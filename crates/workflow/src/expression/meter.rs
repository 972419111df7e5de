//! The work budget of expressions.
//!
//! CEL has no endless loops, but `a.all(x, a.all(y, a.all(z, …)))` over a thousand items takes a billion iterations, and
//! `a.map(x, a)` needs memory for a million items. So all work is charged to a budget: data on access, each iteration by
//! the size of every loop variable it references, and each match by the text and the pattern. A value is then never larger
//! than the work charged for it, and the total work is bounded by the budget times the length of the expression.
//!
//! Loops and matches are charged by functions whose names are not valid CEL identifiers. [`super::limit`] adds the calls to
//! the syntax tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey};
use cel::common::value::{CowVal, Val};
use cel::objects::Key;
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};

use super::convert::size;

/// The budget for binding one template, in bytes processed (approximately). It is enough to read a payload of the maximum
/// size twice, or to filter a thousand records of a kilobyte by five fields. It takes a worker well under a second and
/// under 200 MB.
pub(crate) const WORK_MAX: u64 = 32 * 1024 * 1024;

/// Charges a loop iteration.
pub(super) const TICK: &str = "@tick";
/// Charges a match and returns the text.
pub(super) const MATCHED: &str = "@matched";
/// Returns the items of a loop in a deterministic order.
pub(super) const ITEMS: &str = "@items";

/// Counts the work of one template.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    spent: AtomicU64,
}

impl Meter {
    /// Charges `units` of work. Returns false if the budget is exceeded.
    pub(super) fn spend(&self, units: u64) -> bool {
        // Bounded, so that the counter cannot overflow.
        let units = units.min(WORK_MAX + 1);
        self.spent.fetch_add(units, Ordering::Relaxed) + units <= WORK_MAX
    }

    pub(super) fn is_exhausted(&self) -> bool {
        self.spent.load(Ordering::Relaxed) > WORK_MAX
    }
}

type CelFunction = Box<
    dyn for<'a, 'v> Fn(&mut FunctionContext<'a, 'v>) -> Result<CowVal<'a, 'v>, ExecutionError> + Send + Sync,
>;

/// Registers `@tick`, `@matched` and `@items`.
pub(super) fn add_functions(
    context: &mut Context<'_, '_>,
    meter: &Arc<Meter>,
) -> Result<(), DeclarationError> {
    let (ticking, matching) = (Arc::clone(meter), Arc::clone(meter));
    let tick: CelFunction = Box::new(move |call| tick(&ticking, &call.args));
    let matched: CelFunction = Box::new(move |call| charge_match(&matching, &mut call.args));
    let items: CelFunction = Box::new(|call| items(call.args.pop()));
    context.add_function(TICK, tick)?;
    context.add_function(MATCHED, matched)?;
    context.add_function(ITEMS, items)
}

/// Charges an iteration: the first argument is the base cost, the others are charged by their size.
fn tick<'a, 'v>(meter: &Meter, arguments: &[CowVal<'a, 'v>]) -> Result<CowVal<'a, 'v>, ExecutionError> {
    if meter.is_exhausted() {
        return Err(budget_exceeded());
    }
    let missing = ExecutionError::missing_argument_or_target;
    let (base, variables) = arguments.split_first().ok_or_else(missing)?;
    let base = *base.downcast_ref::<CelInt>().ok_or_else(missing)?.inner();
    let sizes: u64 = variables.iter().map(|variable| size(variable.as_ref())).sum();
    if meter.spend(base.unsigned_abs() + sizes) {
        Ok(CowVal::owned(CelBool::from(true)))
    } else {
        Err(budget_exceeded())
    }
}

/// Charges a match: the first argument is the cost of compiling the pattern, the second the cost per byte of the text, the
/// third the text, which is returned.
fn charge_match<'a, 'v>(
    meter: &Meter,
    arguments: &mut Vec<CowVal<'a, 'v>>,
) -> Result<CowVal<'a, 'v>, ExecutionError> {
    let missing = ExecutionError::missing_argument_or_target;
    let text = arguments.pop().ok_or_else(missing)?;
    let numbers =
        arguments.iter().map(|number| Some(number.downcast_ref::<CelInt>()?.inner().unsigned_abs()));
    let [compiled, matched] = numbers.collect::<Option<Vec<_>>>().ok_or_else(missing)?[..] else {
        return Err(missing());
    };
    let cost = compiled.saturating_add(matched.saturating_mul(size(text.as_ref())));
    if meter.spend(cost) { Ok(text) } else { Err(budget_exceeded()) }
}

fn budget_exceeded() -> ExecutionError {
    ExecutionError::function_error(TICK, "too much work")
}

/// The items of a loop: a list unchanged, or the sorted keys of a map. The interpreter iterates over keys in random order,
/// but binding an action twice must give the same action.
fn items<'a, 'v>(range: Option<CowVal<'a, 'v>>) -> Result<CowVal<'a, 'v>, ExecutionError> {
    let range = range.ok_or_else(ExecutionError::missing_argument_or_target)?;
    let Some(map) = range.downcast_ref::<CelMap<'_>>() else { return Ok(range) };
    let mut keys: Vec<Key> = map.inner().keys().cloned().map(Key::from).collect();
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> =
        keys.into_iter().map(|key| CelMapKey::from(key).inner().clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}
