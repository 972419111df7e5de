//! Lists, through the indexes. An index finds candidates; each item decides whether it belongs.

use std::collections::{BTreeSet, HashMap, HashSet};

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use domain::{Approval, RunKey, RunRecord, TenantId, Timestamp};
use serde::de::DeserializeOwned;

use crate::blobs::Blobs;
use crate::cursor::{Cursor, PageQuery};
use crate::error::StoreError;
use crate::governance::ApprovalPage;
use crate::ledger::{NOBODY, ORDER_SLACK, RunPage, RunQuery};
use crate::queue::Queue;

use super::commit::{HELD, in_status, on_record};
use super::error::Fault;
use super::item::{Item, UNSEALED, Unfit, number, read_number, read_text, text};
use super::key::{Key, SK};
use super::order::Order;
use super::table::{BY_RECORD, BY_STATUS, BY_TENANT, DUE, Index, OPEN, SHARDS};
use super::{AwsStore, BATCH_MAX};

/// How often a list is looked into for one page of runs in one status. Whoever asks for more gets a shorter page,
/// and where it ended.
const LOOKS_MAX: u32 = 16;

/// How many pages of a part of the due index are read for what stands between the runs of tenants that are passed
/// over: about a hundred thousand of those. What stands behind more of them is found when they have been looked at.
const PASSED_OVER_PAGES_MAX: usize = 16;

/// How many entries of the due index are looked at for runs of one kind among those of the other: about a hundred
/// requests, so that the sweep has time for the rest. What stands behind more of them is found when some have been looked
/// after.
const REACH_MAX: u32 = 8_000;

/// How much farther each look reaches than the one before.
const REACH_GROWS_BY: u32 = 4;

/// What is looked for in the due index.
#[derive(Clone, Copy)]
pub(super) struct Due<'d> {
    /// Whose is passed over.
    pub(super) but: &'d BTreeSet<TenantId>,
    pub(super) now: Timestamp,
    pub(super) limit: u32,
    pub(super) doing: &'static str,
}

impl Due<'_> {
    /// Whoever's it is.
    pub(super) fn of_all(now: Timestamp, limit: u32, doing: &'static str) -> Due<'static> {
        Due { but: &NOBODY, now, limit, doing }
    }

    fn has(&self, item: &Item) -> bool {
        let tenant = Key::of(item).and_then(|key| key.tenant_id());
        tenant.is_some_and(|tenant| !self.but.contains(&tenant))
    }
}

/// A page of an index.
struct Listing<'l> {
    index: Index,
    of: String,
    newest_first: bool,
    beyond: Option<&'l Cursor>,
    /// Between which places, the first included.
    between: (Option<Order>, Option<Order>),
    limit: u32,
    doing: &'static str,
}

impl Listing<'_> {
    /// The first and the last place that can be on the page, if there are any. A page begins with the place that the
    /// one before it ended with.
    fn places(&self) -> Option<(String, String)> {
        // A place is a number: these are before and after all of them.
        let mut first = self.between.0.as_ref().map_or("0", Order::as_str);
        let mut last = self.between.1.as_ref().map_or("~", Order::as_str);
        match self.beyond.map(Cursor::as_str) {
            Some(ended) if self.newest_first => last = last.min(ended),
            Some(ended) => first = first.max(ended),
            None => {}
        }
        (first <= last).then(|| (first.to_owned(), last.to_owned()))
    }
}

impl<Q, B> AwsStore<Q, B>
where
    Q: Queue + Send + Sync + 'static,
    B: Blobs + Send + Sync + 'static,
{
    pub(super) async fn list_runs(&self, tenant: &TenantId, query: RunQuery) -> Result<RunPage, StoreError> {
        let mut page = RunPage { runs: Vec::new(), next: query.before.clone() };
        // A list holds other runs as well, so a page may take several looks.
        for _ in 0..LOOKS_MAX {
            let found = u32::try_from(page.runs.len()).unwrap_or(u32::MAX);
            let beyond = page.next.take();
            let left = query.limit.saturating_sub(found);
            let (runs, next) = self.some_runs(tenant, &query, beyond.as_ref(), left).await?;
            page.runs.extend(runs);
            page.next = next;
            if page.next.is_none() || page.runs.len() >= count(query.limit) {
                break;
            }
        }
        Ok(page)
    }

    /// Those among the next `limit` runs of a list that are asked for, and where the list goes on.
    async fn some_runs(
        &self,
        tenant: &TenantId,
        query: &RunQuery,
        beyond: Option<&Cursor>,
        limit: u32,
    ) -> Result<(Vec<RunRecord>, Option<Cursor>), StoreError> {
        let of_record = query.record.as_ref().map(|record| on_record(tenant, record));
        let of_status = query.status.and_then(|status| in_status(tenant, status));
        // A record has few runs, whatever their status.
        let (index, of) = match (of_record, of_status) {
            (Some(of), _) => (BY_RECORD, of),
            (None, Some(of)) => (BY_STATUS, of),
            (None, None) => (BY_TENANT, tenant.to_string()),
        };
        let since = query.since.map(|since| Order::first_at(since.earlier(ORDER_SLACK)));
        let until = query.until.map(|until| Order::first_at(until + ORDER_SLACK));
        let between = (since, until);
        let listing = Listing { index, of, newest_first: true, beyond, between, limit, doing: "list runs" };
        let (found, next) = self.page::<RunRecord>(listing).await?;
        Ok((found.into_iter().filter(|run| query.wants(run)).collect(), next))
    }

    pub(super) async fn list_open(
        &self,
        tenant: &TenantId,
        query: PageQuery,
    ) -> Result<ApprovalPage, StoreError> {
        let listing = Listing {
            index: OPEN,
            of: tenant.to_string(),
            newest_first: false,
            beyond: query.after.as_ref(),
            between: (None, None),
            limit: query.limit,
            doing: "list open approvals",
        };
        let (found, next) = self.page::<Approval>(listing).await?;
        Ok(ApprovalPage { approvals: found.into_iter().filter(Approval::is_open).collect(), next })
    }

    pub(super) async fn due_runs(
        &self,
        but: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<RunKey>, StoreError> {
        let wanted = Due { but, now, limit, doing: "find due runs" };
        let due = self.due_run_items(wanted, |item| !item.contains_key(UNSEALED)).await?;
        Ok(due.iter().filter_map(|item| Key::of(item)?.run_key()).collect())
    }

    /// The runs that somebody should look at, longest overdue first: `what` of them, to walk them or for their evidence.
    /// Both stand in one part of the index, and many of one kind must not hide the others: it is read as far as it takes.
    pub(super) async fn due_run_items(
        &self,
        wanted: Due<'_>,
        what: impl Fn(&Item) -> bool,
    ) -> Result<Vec<Item>, StoreError> {
        let (mut found, mut seen) = (Vec::new(), HashSet::new());
        let mut reach = wanted.limit;
        loop {
            let mut keys = self.due_items("run", Due { limit: reach, ..wanted }).await?;
            let more = keys.len() >= count(reach) && reach < REACH_MAX;
            keys.retain(|key| seen.insert(key.clone()));
            for some in keys.chunks(BATCH_MAX) {
                found.extend(self.still_due(some, wanted).await?.into_iter().filter(&what));
                if found.len() >= count(wanted.limit) {
                    found.truncate(count(wanted.limit));
                    return Ok(found);
                }
            }
            if !more {
                return Ok(found);
            }
            reach = reach.saturating_mul(REACH_GROWS_BY).min(REACH_MAX);
        }
    }

    /// What is due of what the index named, in the same order. The index may be late.
    async fn still_due(&self, keys: &[Key], wanted: Due<'_>) -> Result<Vec<Item>, StoreError> {
        let found = self.get_all(keys, wanted.doing).await?;
        let due = |item: &Item| read_number::<i64>(item, DUE.range).is_some_and(|at| at <= wanted.now.0);
        let due = found.into_iter().filter(due);
        let mut due: HashMap<Key, Item> = due.filter_map(|item| Some((Key::of(&item)?, item))).collect();
        Ok(keys.iter().filter_map(|key| due.remove(key)).collect())
    }

    /// The tenants of all runs that are not over or have no evidence yet.
    pub(super) async fn tenants_under_way(&self) -> Result<Vec<TenantId>, StoreError> {
        let doing = "find tenants";
        let mut keys = self.due_items("run", Due::of_all(Timestamp(i64::MAX), u32::MAX, doing)).await?;
        keys.extend(self.held(doing).await?);
        let tenants: BTreeSet<TenantId> = keys.iter().filter_map(Key::tenant_id).collect();
        Ok(tenants.into_iter().collect())
    }

    /// The runs that nothing moves but a person.
    async fn held(&self, doing: &'static str) -> Result<Vec<Key>, StoreError> {
        let mut found = Vec::new();
        for part in 0..SHARDS {
            let query = self.query(OPEN).key_condition_expression(format!("{} = :part", OPEN.hash));
            let query = query.expression_attribute_values(":part", text(format!("{HELD}#{part}")));
            found.extend(self.gather(query, u32::MAX, doing).await?);
        }
        Ok(found.iter().filter_map(Key::of).collect())
    }

    /// What of this `kind` is due, longest overdue first.
    pub(super) async fn due_items(&self, kind: &str, wanted: Due<'_>) -> Result<Vec<Key>, StoreError> {
        let mut found = Vec::new();
        for part in 0..SHARDS {
            found.extend(self.due_in(&format!("{kind}#{part}"), wanted).await?);
        }
        found.sort_by_key(|item| read_number::<i64>(item, DUE.range));
        Ok(found.iter().filter_map(Key::of).take(count(wanted.limit)).collect())
    }

    /// What is due in one part of the index, longest overdue first.
    pub(super) async fn due_in(&self, part: &str, wanted: Due<'_>) -> Result<Vec<Item>, StoreError> {
        let Due { but, now, limit, doing } = wanted;
        let query = self.query(DUE).key_condition_expression("due_in = :part AND due_at <= :now");
        let query = query
            .expression_attribute_values(":part", text(part))
            .expression_attribute_values(":now", number(now.0));
        if but.is_empty() {
            self.gather(query, limit, doing).await
        } else {
            self.pass_over(query, wanted).await
        }
    }

    /// What a query of the due index finds beside the tenants that are passed over, in whole pages of 1 MB: there are
    /// many of those.
    async fn pass_over(&self, query: QueryFluentBuilder, wanted: Due<'_>) -> Result<Vec<Item>, StoreError> {
        let limit = count(wanted.limit);
        let mut found: Vec<Item> = Vec::new();
        let mut start = None;
        for _ in 0..PASSED_OVER_PAGES_MAX {
            let page = query.clone().set_exclusive_start_key(start.take()).send().await;
            let page = page.map_err(|error| Fault::of(error).read(wanted.doing))?;
            found.extend(page.items.into_iter().flatten().filter(|item| wanted.has(item)));
            start = page.last_evaluated_key;
            if start.is_none() || found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// A page of what stands in an index, as it is now, and where the next one starts.
    async fn page<T: DeserializeOwned>(
        &self,
        listing: Listing<'_>,
    ) -> Result<(Vec<T>, Option<Cursor>), StoreError> {
        let Listing { index, doing, .. } = listing;
        let limit = count(listing.limit);
        let mut candidates = self.candidates(&listing).await?;
        let more = candidates.len() > limit;
        candidates.truncate(limit);
        let last = candidates.last().filter(|_| more).and_then(|last| read_text(last, index.range));
        let next = last.map(Cursor::new);
        let keys: Vec<Key> = candidates.iter().filter_map(Key::of).collect();
        let found = self.get_all(&keys, doing).await?;
        let mut found: HashMap<Key, Item> =
            found.into_iter().filter_map(|item| Some((Key::of(&item)?, item))).collect();
        let mut page = Vec::with_capacity(keys.len());
        for item in keys.iter().filter_map(|key| found.remove(key)) {
            page.push(self.read(&item, doing).await?);
        }
        Ok((page, next))
    }

    /// One more than asked for tells whether there is a next page.
    async fn candidates(&self, listing: &Listing<'_>) -> Result<Vec<Item>, StoreError> {
        let Listing { index, of, newest_first, limit, doing, .. } = listing;
        let Some((first, last)) = listing.places() else { return Ok(Vec::new()) };
        let query = self
            .query(*index)
            .key_condition_expression(format!(
                "{} = :of AND {} BETWEEN :first AND :last",
                index.hash, index.range
            ))
            .scan_index_forward(!newest_first)
            .expression_attribute_values(":of", text(of))
            .expression_attribute_values(":first", text(&first))
            .expression_attribute_values(":last", text(&last));
        // Where the last page ended is a place that it held.
        let seen =
            |item: &Item| listing.beyond.is_some_and(|at| read_text(item, index.range) == Some(at.as_str()));
        let mut found = self.gather(query, limit.saturating_add(2), doing).await?;
        found.retain(|item| !seen(item));
        found.truncate(count(limit.saturating_add(1)));
        Ok(found)
    }

    fn query(&self, index: Index) -> QueryFluentBuilder {
        self.client.query().table_name(&*self.table).index_name(index.name)
    }

    /// Up to `limit` items of a partition of the table whose sort keys lie in a range, both ends included, as of every
    /// write that was answered before.
    pub(super) async fn range(
        &self,
        (first, last): (&Key, &Key),
        limit: u32,
        doing: &'static str,
    ) -> Result<Vec<Item>, StoreError> {
        let query = self.client.query().table_name(&*self.table).consistent_read(true);
        let query = query
            .key_condition_expression(format!("pk = :pk AND {SK} BETWEEN :first AND :last"))
            .expression_attribute_values(":pk", text(&first.pk))
            .expression_attribute_values(":first", text(&first.sk))
            .expression_attribute_values(":last", text(&last.sk));
        self.gather(query, limit, doing).await
    }

    /// Up to `limit` items that a query finds, over as many pages as it takes: a page ends at 1 MB.
    async fn gather(
        &self,
        query: QueryFluentBuilder,
        limit: u32,
        doing: &'static str,
    ) -> Result<Vec<Item>, StoreError> {
        let mut found: Vec<Item> = Vec::new();
        let mut start = None;
        loop {
            let left = limit.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
            let page = query
                .clone()
                .limit(i32::try_from(left).unwrap_or(i32::MAX).max(1))
                .set_exclusive_start_key(start.take())
                .send()
                .await
                .map_err(|error| Fault::of(error).read(doing))?;
            found.extend(page.items.into_iter().flatten());
            start = page.last_evaluated_key;
            if start.is_none() || found.len() >= count(limit) {
                return Ok(found);
            }
        }
    }
}

/// A limit, as lengths are counted.
fn count(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// What an item lacks.
pub(super) fn missing(name: &'static str, doing: &'static str) -> StoreError {
    StoreError::broken(doing, Unfit::Missing(name))
}
