//! What an expression may cost, and how it pays.
//!
//! CEL has no loops without end, but `a.all(x, a.all(y, a.all(z, …)))` over a thousand items takes a billion
//! turns, and `a.map(x, a)` a million items of memory. So everything is paid for: data when it is touched,
//! each turn of a loop when it begins, by the weight of every loop variable the turn mentions, and each match
//! by the text and the pattern. A value is then never larger than what was paid for it, and the work is
//! bounded by what was paid times the length of the expression.
//!
//! Loops and matches pay through functions whose names nobody can write; [`super::limit`] puts the calls
//! into the tree.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cel::common::types::{CelBool, CelInt, CelList, CelMap, CelMapKey};
use cel::common::value::{CowVal, Val};
use cel::objects::Key;
use cel::{Context, DeclarationError, ExecutionError, FunctionContext};

use super::convert::weight;

/// What binding one template may cost, in about bytes touched. A payload of the largest size allowed can be
/// looked at twice, a list of a thousand records of a kilobyte filtered by five fields; a worker spends well
/// under a second and under 200 MB on it.
pub(crate) const WORK_MAX: u64 = 32 * 1024 * 1024;

/// Pays for a turn of a loop.
pub(super) const TICK: &str = "@tick";
/// Pays for a match, and gives back what is matched.
pub(super) const MATCHED: &str = "@matched";
/// What a loop goes through, in an order that does not depend on chance.
pub(super) const ITEMS: &str = "@items";

/// What has been paid.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    spent: AtomicU64,
}

impl Meter {
    /// Pays for `units` of work; false when that is more than is left.
    pub(super) fn spend(&self, units: u64) -> bool {
        // One unit too many is as bad as a billion, and does not wrap.
        let units = units.min(WORK_MAX + 1);
        self.spent.fetch_add(units, Ordering::Relaxed) + units <= WORK_MAX
    }

    /// Whether more was asked for than there is.
    pub(super) fn is_exhausted(&self) -> bool {
        self.spent.load(Ordering::Relaxed) > WORK_MAX
    }
}

type CelFunction = Box<
    dyn for<'a, 'v> Fn(&mut FunctionContext<'a, 'v>) -> Result<CowVal<'a, 'v>, ExecutionError> + Send + Sync,
>;

/// Makes `@tick`, `@matched` and `@items` known.
pub(super) fn add_functions(
    context: &mut Context<'_, '_>,
    meter: &Arc<Meter>,
) -> Result<(), DeclarationError> {
    let (ticking, matching) = (Arc::clone(meter), Arc::clone(meter));
    let tick: CelFunction = Box::new(move |call| tick(&ticking, &call.args));
    let matched: CelFunction = Box::new(move |call| matched(&matching, &mut call.args));
    let items: CelFunction = Box::new(|call| items(call.args.pop()));
    context.add_function(TICK, tick)?;
    context.add_function(MATCHED, matched)?;
    context.add_function(ITEMS, items)
}

/// Pays for a turn: the first argument is its price, the others are weighed.
fn tick<'a, 'v>(meter: &Meter, arguments: &[CowVal<'a, 'v>]) -> Result<CowVal<'a, 'v>, ExecutionError> {
    if meter.is_exhausted() {
        return Err(out_of_work());
    }
    let missing = ExecutionError::missing_argument_or_target;
    let (base, variables) = arguments.split_first().ok_or_else(missing)?;
    let base = *base.downcast_ref::<CelInt>().ok_or_else(missing)?.inner();
    let weighed: u64 = variables.iter().map(|variable| weight(variable.as_ref())).sum();
    if meter.spend(base.unsigned_abs() + weighed) {
        Ok(CowVal::owned(CelBool::from(true)))
    } else {
        Err(out_of_work())
    }
}

/// Pays for a match: the first argument is what compiling the pattern costs, the second what each byte of
/// the text costs, the third the text, which is given back.
fn matched<'a, 'v>(
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
    let price = compiled.saturating_add(matched.saturating_mul(weight(text.as_ref())));
    if meter.spend(price) { Ok(text) } else { Err(out_of_work()) }
}

fn out_of_work() -> ExecutionError {
    ExecutionError::function_error(TICK, "too much work")
}

/// What a loop goes through: a list as it is, a map's keys in their order. The interpreter would take the
/// keys as chance has them, and an action that is bound twice must be the same action.
fn items<'a, 'v>(range: Option<CowVal<'a, 'v>>) -> Result<CowVal<'a, 'v>, ExecutionError> {
    let range = range.ok_or_else(ExecutionError::missing_argument_or_target)?;
    let Some(map) = range.downcast_ref::<CelMap<'_>>() else { return Ok(range) };
    let mut keys: Vec<Key> = map.inner().keys().cloned().map(Key::from).collect();
    keys.sort();
    let keys: Vec<Box<dyn Val + 'v>> =
        keys.into_iter().map(|key| CelMapKey::from(key).inner().clone_as_boxed()).collect();
    Ok(CowVal::owned(CelList::from(keys)))
}
