//! Lists from the GSIs. An index returns candidates; the strongly consistent item decides.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

use aws_sdk_dynamodb::operation::query::builders::QueryFluentBuilder;
use aws_sdk_dynamodb::types::AttributeValue;
use domain::{Approval, RunRecord, TenantId, Timestamp};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};

use crate::blobs::Blobs;
use crate::cursor::{Cursor, PageQuery};
use crate::error::{StoreError, error_chain};
use crate::governance::ApprovalPage;
use crate::ledger::{Due, NO_TENANTS, ORDER_SLACK, RunPage, RunQuery, Write};
use crate::queue::Queue;

use super::commit::{record_partition, status_partition};
use super::error::AwsError;
use super::item::{EVIDENCE_PENDING, Item, ItemError, number, read_number, read_text, text};
use super::key::{
    EVIDENCE_PARTITION, Key, PAUSED_PARTITION, RUN_PARTITION, SK, index_partition, partition_count,
};
use super::outbox::READS_AFTER_MOVE;
use super::sequence::TimeSortKey;
use super::table::{BY_RECORD, BY_STATUS, BY_TENANT, DUE, Index, OPEN};
use super::{AwsStore, BATCH_MAX};

/// The maximum number of queries for one page of runs. After that, the page is shorter and has a cursor.
const QUERIES_MAX: u32 = 16;

/// How many pages of a due-index partition are read to find entries between the entries of excluded tenants: about
/// a hundred thousand entries. Entries behind those are found by a later sweep.
const EXCLUDED_PAGES_MAX: usize = 16;

/// How many entries of the due index are read to find runs of one kind among runs of the other: few enough requests
/// that the sweep has time for the rest.
const SCAN_MAX: u32 = 2_000;

/// How many entries of the other kind, and entries that the index shows although they are no longer due, a read goes past:
/// more than a sweep moves and wakes while an update of the index takes three seconds, and more finished runs than become
/// due meanwhile while no evidence can be stored.
const SKIPPED_MAX: u32 = 16_000;

/// How often one sweep reads that many entries to move finished runs out of the way.
const MOVE_SCANS_MAX: u32 = 16;

/// How many finished runs are moved at a time: with 10 ms for each request, about as many as their partitions of the index
/// take, and more than end in an outage of the evidence store.
const CONCURRENT_MOVES: usize = 64;

/// How long a flush moves finished runs before it sends messages: a third of its time in a sweep.
const MOVE_TIME_MAX: Duration = Duration::from_secs(5);

/// How much each read extends the previous one.
const SCAN_GROWTH: u32 = 4;

/// How many requests of one list are in progress at a time.
const CONCURRENT_REQUESTS: usize = 32;

/// How many batches of items are read at a time.
const CONCURRENT_BATCHES: usize = 4;

/// How much more than its share of a list is read from each partition. Entries are spread by a hash, so a partition rarely
/// has more than twice its share of a large list, and a small list is read from each partition in full.
const SHARE_FACTOR: u32 = 2;
const SHARE_MIN: u32 = 64;

/// How far the move of finished runs came.
enum Moved {
    All,
    Some,
    Failed(StoreError),
}

/// The first due entries of some partitions of the due index, longest overdue first.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct DueKeys {
    pub(super) keys: Vec<Key>,
    /// Whether the partitions may have more due entries.
    more: bool,
}

impl DueKeys {
    /// The first `limit` entries of the pages, which are the first `share` entries of their partitions.
    fn merge(pages: Vec<Vec<Item>>, share: u32, limit: u32) -> Self {
        let due_at = |item: &Item| read_number::<i64>(item, DUE.range);
        // The entries behind a full page are unknown, so an entry that is due after that page may not be the next.
        let full = pages.iter().filter(|page| page.len() >= to_usize(share));
        let complete_until = full.filter_map(|page| due_at(page.last()?)).min();
        let mut found: Vec<Item> = pages.into_iter().flatten().collect();
        found.retain(|item| complete_until.is_none_or(|until| due_at(item) <= Some(until)));
        found.sort_by_key(due_at);
        let more = complete_until.is_some() || found.len() > to_usize(limit);
        Self { keys: found.iter().filter_map(Key::of).take(to_usize(limit)).collect(), more }
    }
}

/// The due runs of one kind.
struct DueItems {
    items: Vec<Item>,
    /// Whether the index has more entries than were read.
    unread: bool,
    /// How many entries were read.
    read: usize,
    /// How many of them are due but of the other kind.
    other_kind: usize,
}

#[derive(Debug, thiserror::Error)]
#[error(
    "the first {read} entries of the due index are finished runs without evidence; the next sweep moves them, \
     see event due_scan_exhausted"
)]
struct DueScanExhausted {
    read: usize,
}

/// A query of the due index.
#[derive(Clone, Copy)]
pub(super) struct DueQuery<'d> {
    /// Tenants to leave out.
    pub(super) excluded: &'d BTreeSet<TenantId>,
    pub(super) now: Timestamp,
    pub(super) limit: u32,
    pub(super) doing: &'static str,
}

impl DueQuery<'_> {
    /// A query for all tenants.
    pub(super) fn all_tenants(now: Timestamp, limit: u32, doing: &'static str) -> DueQuery<'static> {
        DueQuery { excluded: &NO_TENANTS, now, limit, doing }
    }

    fn includes(&self, item: &Item) -> bool {
        let tenant = Key::of(item).and_then(|key| key.tenant_id());
        tenant.is_some_and(|tenant| !self.excluded.contains(&tenant))
    }
}

/// The first `limit` tenants after `after` among those that were added.
struct FirstTenants<'l> {
    after: Option<&'l TenantId>,
    limit: usize,
    found: Mutex<BTreeSet<TenantId>>,
}

impl FirstTenants<'_> {
    fn add(&self, tenants: impl Iterator<Item = TenantId>) {
        let mut found = self.found.lock();
        for tenant in tenants.filter(|tenant| self.after.is_none_or(|after| tenant > after)) {
            found.insert(tenant);
            if found.len() > self.limit {
                found.pop_last();
            }
        }
    }
}

/// A query for one page of an index.
struct PageRequest<'l> {
    index: Index,
    partition: String,
    newest_first: bool,
    after: Option<&'l Cursor>,
    /// The range of sort keys; the first is inclusive.
    between: (Option<TimeSortKey>, Option<TimeSortKey>),
    limit: u32,
    doing: &'static str,
}

impl PageRequest<'_> {
    /// The first and last sort key of the page, if the range is not empty. A page starts with the sort key that the
    /// previous page ended with.
    fn bounds(&self) -> Option<(String, String)> {
        // Sort keys start with a digit: these bounds are before and after all of them.
        let mut first = self.between.0.as_ref().map_or("0", TimeSortKey::as_str);
        let mut last = self.between.1.as_ref().map_or("~", TimeSortKey::as_str);
        match self.after.map(Cursor::as_str) {
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
        // The index also holds runs that do not match, so a page may take several queries.
        for _ in 0..QUERIES_MAX {
            let found = u32::try_from(page.runs.len()).unwrap_or(u32::MAX);
            let after = page.next.take();
            let left = query.limit.saturating_sub(found);
            let (runs, next) = self.matching_runs(tenant, &query, after.as_ref(), left).await?;
            page.runs.extend(runs);
            page.next = next;
            if page.next.is_none() || page.runs.len() >= to_usize(query.limit) {
                break;
            }
        }
        Ok(page)
    }

    /// The matching runs among the next `limit` runs of an index, and the cursor for the rest.
    async fn matching_runs(
        &self,
        tenant: &TenantId,
        query: &RunQuery,
        after: Option<&Cursor>,
        limit: u32,
    ) -> Result<(Vec<RunRecord>, Option<Cursor>), StoreError> {
        let by_record = query.record.as_ref().map(|record| record_partition(tenant, record));
        let by_status = query.status.and_then(|status| status_partition(tenant, status));
        // A record has few runs, so the status needs no index of its own.
        let (index, partition) = match (by_record, by_status) {
            (Some(partition), _) => (BY_RECORD, partition),
            (None, Some(partition)) => (BY_STATUS, partition),
            (None, None) => (BY_TENANT, tenant.to_string()),
        };
        let since = query.since.map(|since| TimeSortKey::first_at(since.earlier(ORDER_SLACK)));
        let until = query.until.map(|until| TimeSortKey::first_at(until + ORDER_SLACK));
        let between = (since, until);
        let request =
            PageRequest { index, partition, newest_first: true, after, between, limit, doing: "list runs" };
        let (found, next) = self.page::<RunRecord>(request).await?;
        Ok((found.into_iter().filter(|run| query.matches(run)).collect(), next))
    }

    pub(super) async fn list_open(
        &self,
        tenant: &TenantId,
        query: PageQuery,
    ) -> Result<ApprovalPage, StoreError> {
        let request = PageRequest {
            index: OPEN,
            partition: tenant.to_string(),
            newest_first: false,
            after: query.after.as_ref(),
            between: (None, None),
            limit: query.limit,
            doing: "list open approval requests",
        };
        let (found, next) = self.page::<Approval>(request).await?;
        Ok(ApprovalPage { approvals: found.into_iter().filter(Approval::is_open).collect(), next })
    }

    pub(super) async fn due_runs(
        &self,
        excluded: &BTreeSet<TenantId>,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<Due>, StoreError> {
        let query = DueQuery { excluded, now, limit, doing: "find due runs" };
        let unfinished = |item: &Item| {
            let finished = item.contains_key(EVIDENCE_PENDING);
            if finished {
                self.finished_runs_seen.store(true, Ordering::Relaxed);
            }
            !finished
        };
        let DueItems { items, unread, read, other_kind } = self.due_run_items(query, unfinished).await?;
        // Entries of an index that is late are no reason for an alarm: the next read finds what is behind them.
        if unread && other_kind > 0 {
            tracing::error!(
                event = "due_scan_exhausted",
                found = items.len(),
                read,
                "due index scan limit reached; due runs may be delayed"
            );
            // A caller that excludes tenants has found runs of theirs, and must not lose those to an error.
            if items.is_empty() && excluded.is_empty() {
                return Err(StoreError::broken(query.doing, DueScanExhausted { read }));
            }
        }
        let due = |key: Key| key.run_key().map(Due::Run).or_else(|| key.entry_run().map(Due::Entry));
        Ok(items.iter().filter_map(|item| due(Key::of(item)?)).collect())
    }

    /// Moves finished runs without evidence to a partition of their own, where they do not hide due runs. The index is
    /// read only if the last list of due runs contained such runs, so that the sweep of an idle installation reads it
    /// once. What a throttled table does not take now is moved by a later flush.
    /// Returns the error of a move, if there is one: unlike a failed read, it is no reason to stop.
    pub(super) async fn move_finished(
        &self,
        now: Timestamp,
        doing: &'static str,
    ) -> Result<Option<StoreError>, StoreError> {
        if !self.finished_runs_seen.swap(false, Ordering::Relaxed) {
            return Ok(None);
        }
        // The process that swept before may have moved some.
        self.late_evidence.read_all(1);
        let moved = self.move_batches(now, doing).await;
        if !matches!(moved, Ok(Moved::All)) {
            self.finished_runs_seen.store(true, Ordering::Relaxed);
        }
        Ok(match moved? {
            Moved::All | Moved::Some => None,
            Moved::Failed(error) => Some(error),
        })
    }

    async fn move_batches(&self, now: Timestamp, doing: &'static str) -> Result<Moved, StoreError> {
        let until = Instant::now() + MOVE_TIME_MAX;
        for _ in 0..MOVE_SCANS_MAX {
            let query = DueQuery::all_tenants(now, SCAN_MAX, doing);
            let finished = self.due_run_items(query, |item| item.contains_key(EVIDENCE_PENDING)).await?;
            let moves = finished.items.iter().filter_map(Key::of).map(|key| self.move_one(key, now, doing));
            let mut moves = stream::iter(moves).buffer_unordered(CONCURRENT_MOVES);
            let (mut progress, mut not_moved) = (0, None);
            loop {
                match timeout_at(until, moves.next()).await {
                    Ok(None) => break,
                    Ok(Some(Ok(written))) => progress += u32::from(written == Write::Committed),
                    Ok(Some(Err(error @ (StoreError::Busy { .. } | StoreError::Unknown { .. })))) => {
                        not_moved = Some(error);
                    }
                    Ok(Some(Err(error))) => return Err(error),
                    Err(_) => return Ok(Moved::Some),
                }
            }
            if let Some(error) = not_moved {
                let why = error_chain(&error);
                tracing::warn!(
                    event = "finished_runs_not_moved",
                    error = why,
                    "finished runs not moved; a later sweep continues"
                );
                return Ok(Moved::Failed(error));
            }
            // The index may be late and show moved runs again. The next sweep moves the rest.
            if finished.items.len() < to_usize(SCAN_MAX) && !finished.unread || progress == 0 {
                return Ok(Moved::All);
            }
        }
        Ok(Moved::Some)
    }

    async fn move_one(&self, key: Key, now: Timestamp, doing: &'static str) -> Result<Write, StoreError> {
        let Some(run) = key.run_key() else { return Ok(Write::Superseded) };
        let values = [
            (":yes", AttributeValue::Bool(true)),
            (":due_pk", text(index_partition(EVIDENCE_PARTITION, &run))),
            (":due_at", number(now.0)),
        ];
        let values = values.map(|(name, value)| (name.to_owned(), value)).into();
        let expression = "SET due_pk = :due_pk, due_at = :due_at";
        let moved = self.update(&key, expression, "evidence_pending = :yes", values, doing).await;
        if !matches!(moved, Ok(Write::Superseded)) {
            self.late_evidence.read_all(READS_AFTER_MOVE);
        }
        moved
    }

    /// The due items of the unfinished partitions that pass `filter`, longest overdue first. Many runs that do not
    /// pass must not hide the others, so the index is read further until enough are found.
    async fn due_run_items(
        &self,
        query: DueQuery<'_>,
        filter: impl Fn(&Item) -> bool,
    ) -> Result<DueItems, StoreError> {
        let (mut items, mut seen) = (Vec::new(), HashSet::new());
        let (mut scan, mut other_kind) = (query.limit.min(SCAN_MAX), 0);
        loop {
            let partitions = 0..partition_count(RUN_PARTITION);
            let first = self.due_keys(RUN_PARTITION, partitions, DueQuery { limit: scan, ..query }).await?;
            let DueKeys { mut keys, more } = first;
            keys.retain(|key| seen.insert(key.clone()));
            let batches: Vec<Vec<Key>> = keys.chunks(BATCH_MAX).map(<[Key]>::to_vec).collect();
            let batches = batches
                .into_iter()
                .map(|batch| async move { self.still_due(RUN_PARTITION, &batch, query).await });
            let mut batches = stream::iter(batches).buffered(CONCURRENT_BATCHES);
            while let Some(batch) = batches.next().await {
                let (due, found) = (batch?, items.len());
                other_kind += due.len();
                items.extend(due.into_iter().filter(&filter));
                other_kind -= items.len() - found;
                if items.len() >= to_usize(query.limit) {
                    items.truncate(to_usize(query.limit));
                    return Ok(DueItems { items, unread: false, read: seen.len(), other_kind });
                }
            }
            let skipped = u32::try_from(seen.len() - items.len()).unwrap_or(SKIPPED_MAX);
            let scan_max = SCAN_MAX + skipped.min(SKIPPED_MAX);
            if !more || scan >= scan_max {
                return Ok(DueItems { items, unread: more, read: seen.len(), other_kind });
            }
            scan = scan.saturating_mul(SCAN_GROWTH).min(scan_max);
        }
    }

    /// The items that are still due in a partition of this `kind`, in the same order. The index may be late.
    pub(super) async fn still_due(
        &self,
        kind: &str,
        keys: &[Key],
        query: DueQuery<'_>,
    ) -> Result<Vec<Item>, StoreError> {
        let found = self.get_all(keys, query.doing).await?;
        let is_kind =
            |item: &Item| read_text(item, DUE.hash).and_then(|pk| pk.split('#').next()) == Some(kind);
        let is_due = |item: &Item| read_number::<i64>(item, DUE.range).is_some_and(|at| at <= query.now.0);
        let due = |item: &Item| is_kind(item) && is_due(item);
        let due = found.into_iter().filter(due);
        let mut due: HashMap<Key, Item> = due.filter_map(|item| Some((Key::of(&item)?, item))).collect();
        Ok(keys.iter().filter_map(|key| due.remove(key)).collect())
    }

    /// The first tenants after `after` with runs that are unfinished or have no evidence yet. At most `limit` of them are in
    /// memory, however many entries the indexes have.
    pub(super) async fn active_tenants(
        &self,
        after: Option<&TenantId>,
        limit: u32,
    ) -> Result<Vec<TenantId>, StoreError> {
        let first = FirstTenants { after, limit: to_usize(limit), found: Mutex::default() };
        let mut queries = Vec::new();
        for (index, kind) in [(DUE, RUN_PARTITION), (DUE, EVIDENCE_PARTITION), (OPEN, PAUSED_PARTITION)] {
            for number in 0..partition_count(kind) {
                queries.push(self.tenants_in(index, format!("{kind}#{number}"), &first));
            }
        }
        let mut queries = stream::iter(queries).buffer_unordered(CONCURRENT_REQUESTS);
        while let Some(read) = queries.next().await {
            read?;
        }
        drop(queries);
        Ok(first.found.into_inner().into_iter().collect())
    }

    /// Adds the tenants of a partition of an index. The entries are in another order, so all pages are read.
    async fn tenants_in(
        &self,
        index: Index,
        partition: String,
        first: &FirstTenants<'_>,
    ) -> Result<(), StoreError> {
        let query = self.query(index).key_condition_expression(format!("{} = :partition", index.hash));
        let query = query.expression_attribute_values(":partition", text(partition));
        let mut start = None;
        loop {
            let page = query.clone().set_exclusive_start_key(start.take()).send().await;
            let page = page.map_err(|error| AwsError::from_sdk(error).into_read_error("list tenants"))?;
            let items = page.items.into_iter().flatten();
            first.add(items.filter_map(|item| Key::of(&item)?.tenant_id()));
            start = page.last_evaluated_key;
            if start.is_none() {
                return Ok(());
            }
        }
    }

    /// The first due entries in these partitions of a `kind`.
    pub(super) async fn due_keys(
        &self,
        kind: &str,
        partitions: Range<u8>,
        query: DueQuery<'_>,
    ) -> Result<DueKeys, StoreError> {
        let share = share_of(query.limit, partitions.len());
        let pages = partitions.map(|number| {
            self.due_in_partition(format!("{kind}#{number}"), DueQuery { limit: share, ..query })
        });
        let pages = stream::iter(pages).buffer_unordered(CONCURRENT_REQUESTS);
        let pages: Vec<Vec<Item>> = pages.try_collect().await?;
        Ok(DueKeys::merge(pages, share, query.limit))
    }

    /// The due entries of one partition of the index, longest overdue first.
    pub(super) async fn due_in_partition(
        &self,
        partition: String,
        due: DueQuery<'_>,
    ) -> Result<Vec<Item>, StoreError> {
        let DueQuery { excluded, now, limit, doing } = due;
        let query = self.query(DUE).key_condition_expression("due_pk = :partition AND due_at <= :now");
        let query = query
            .expression_attribute_values(":partition", text(partition))
            .expression_attribute_values(":now", number(now.0));
        if excluded.is_empty() {
            self.query_all(query, limit, doing).await
        } else {
            self.query_excluding(query, due).await
        }
    }

    /// The results of a due-index query without the excluded tenants. Reads whole pages of 1 MB, because most
    /// entries belong to excluded tenants.
    async fn query_excluding(
        &self,
        query: QueryFluentBuilder,
        due: DueQuery<'_>,
    ) -> Result<Vec<Item>, StoreError> {
        let limit = to_usize(due.limit);
        let mut found: Vec<Item> = Vec::new();
        let mut start = None;
        for _ in 0..EXCLUDED_PAGES_MAX {
            let page = query.clone().set_exclusive_start_key(start.take()).send().await;
            let page = page.map_err(|error| AwsError::from_sdk(error).into_read_error(due.doing))?;
            found.extend(page.items.into_iter().flatten().filter(|item| due.includes(item)));
            start = page.last_evaluated_key;
            if start.is_none() || found.len() >= limit {
                break;
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Reads a page of an index and the current items behind it.
    async fn page<T: DeserializeOwned>(
        &self,
        request: PageRequest<'_>,
    ) -> Result<(Vec<T>, Option<Cursor>), StoreError> {
        let PageRequest { index, doing, .. } = request;
        let limit = to_usize(request.limit);
        let mut candidates = self.candidates(&request).await?;
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
            page.push(self.decode_body(&item, doing).await?);
        }
        Ok((page, next))
    }

    /// The index entries of a page. One entry more than the limit shows whether there is a next page.
    async fn candidates(&self, request: &PageRequest<'_>) -> Result<Vec<Item>, StoreError> {
        let PageRequest { index, partition, newest_first, limit, doing, .. } = request;
        let Some((first, last)) = request.bounds() else { return Ok(Vec::new()) };
        let query = self
            .query(*index)
            .key_condition_expression(format!(
                "{} = :partition AND {} BETWEEN :first AND :last",
                index.hash, index.range
            ))
            .scan_index_forward(!newest_first)
            .expression_attribute_values(":partition", text(partition))
            .expression_attribute_values(":first", text(&first))
            .expression_attribute_values(":last", text(&last));
        // The range includes the last entry of the previous page.
        let is_cursor =
            |item: &Item| request.after.is_some_and(|at| read_text(item, index.range) == Some(at.as_str()));
        let mut found = self.query_all(query, limit.saturating_add(2), doing).await?;
        found.retain(|item| !is_cursor(item));
        found.truncate(to_usize(limit.saturating_add(1)));
        Ok(found)
    }

    fn query(&self, index: Index) -> QueryFluentBuilder {
        self.client.query().table_name(&*self.table).index_name(index.name)
    }

    /// Reads up to `limit` items of a partition of the table whose sort keys are in a range, both ends inclusive,
    /// strongly consistent.
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
        self.query_all(query, limit, doing).await
    }

    /// Runs a query and reads as many pages of 1 MB as it takes to return up to `limit` items.
    async fn query_all(
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
                .map_err(|error| AwsError::from_sdk(error).into_read_error(doing))?;
            found.extend(page.items.into_iter().flatten());
            start = page.last_evaluated_key;
            if start.is_none() || found.len() >= to_usize(limit) {
                return Ok(found);
            }
        }
    }
}

/// The results of all queries, in no order.
pub(super) async fn run_concurrently<F>(queries: impl Iterator<Item = F>) -> Result<Vec<Item>, StoreError>
where
    F: Future<Output = Result<Vec<Item>, StoreError>>,
{
    stream::iter(queries).buffer_unordered(CONCURRENT_REQUESTS).try_concat().await
}

/// How many entries of a list of `limit` are read from each of its partitions.
fn share_of(limit: u32, partitions: usize) -> u32 {
    let partitions = u32::try_from(partitions).unwrap_or(u32::MAX).max(1);
    limit.min(limit / partitions * SHARE_FACTOR + SHARE_MIN)
}

fn to_usize(limit: u32) -> usize {
    usize::try_from(limit).unwrap_or(usize::MAX)
}

/// The error for a missing attribute.
pub(super) fn missing_attribute(name: &'static str, doing: &'static str) -> StoreError {
    StoreError::broken(doing, ItemError::Missing(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A page of entries that are due at these times.
    fn page(partition: &str, times: impl IntoIterator<Item = i64>) -> Vec<Item> {
        let entry = |at: i64| {
            let mut item = Key { pk: format!("acme#run#{partition}-{at}"), sk: "run".to_owned() }.item();
            item.insert(DUE.range.to_owned(), number(at));
            item
        };
        times.into_iter().map(entry).collect()
    }

    fn merged(pages: Vec<Vec<Item>>, share: u32, limit: u32) -> (Vec<String>, bool) {
        let DueKeys { keys, more } = DueKeys::merge(pages, share, limit);
        (keys.into_iter().map(|key| key.pk.trim_start_matches("acme#run#").to_owned()).collect(), more)
    }

    #[test]
    fn entries_behind_a_full_page_are_not_passed_over() {
        let pages = || vec![page("a", [1, 4, 5]), page("b", [2, 9])];
        assert_eq!(merged(pages(), 3, 9), (["a-1", "b-2", "a-4", "a-5"].map(str::to_owned).into(), true));
        let all = ["a-1", "b-2", "a-4", "a-5", "b-9"].map(str::to_owned);
        assert_eq!(merged(pages(), 4, 9), (all.to_vec(), false));
        assert_eq!(merged(pages(), 4, 2), (all[..2].to_vec(), true));
    }

    #[test]
    fn large_lists_read_a_share_of_each_partition() {
        assert_eq!([1, 64, 200].map(|limit| share_of(limit, 24)), [1, 64, 80]);
        assert_eq!([200, 2_000].map(|limit| share_of(limit, 1)), [200, 2_000]);
        let largest = SCAN_MAX + SKIPPED_MAX;
        assert!(share_of(largest, 24) * 24 < largest * 3, "a read must fit into the memory of a function");
    }
}
