//! Tenants, policies, approvals and cards.

use std::sync::Arc;
use std::time::Duration;

use domain::command::{Cancel, ClaimResult, Pause, RemindApprovers, Resume, VoteResult};
use domain::{
    Approval, ApprovalStatus, Card, Cause, Digest, DispatchStop, Fleet, Initiator, Job, Millis, Page,
    PageStatus, QueueName, Tenant,
};
use store::{Cursor, PageQuery, Store, Write};

use crate::fixtures::{
    LedgerRun as Run, NOON, approve, calls, claim, claim_needing_approval, granted, tenant,
};

cases![
    stale_write_does_not_replace_the_fleet_switch,
    tenant_switch_is_stored_with_its_settings,
    both_switches_are_read_together,
    tenants_with_active_runs_are_listed,
    tenant_with_only_paused_runs_is_listed,
    approval_is_found_by_id_and_by_run,
    approval_of_another_tenant_is_not_found,
    vote_and_step_change_in_one_commit,
    vote_on_a_stale_approval_is_superseded,
    claim_consumes_its_approval_in_one_commit,
    open_approvals_are_listed_oldest_first,
    open_approvals_are_listed_in_pages,
    changed_approval_sends_a_notification,
    stale_write_does_not_replace_tenant_settings,
    policy_is_found_by_hash_within_its_tenant,
    stale_write_does_not_replace_a_card,
    page_is_stored_apart_from_the_card,
];

fn stopped(reason: &str) -> DispatchStop {
    DispatchStop::new(Initiator::new(Cause::User, "ada"), reason, NOON)
}

async fn stale_write_does_not_replace_the_fleet_switch<S: Store>(store: Arc<S>) {
    assert_eq!(store.fleet().await.unwrap(), None);
    let stopped = Fleet { stopped: Some(stopped("fire")), format: 1, revision: 0 };
    assert_eq!(store.put_fleet(stopped.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_fleet(Fleet::default()).await.unwrap(), Write::Superseded);
    assert_eq!(store.fleet().await.unwrap(), Some(stopped));
    let started = Fleet { stopped: None, format: 1, revision: 1 };
    assert_eq!(store.put_fleet(started.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_fleet(started.clone()).await.unwrap(), Write::Superseded);
    assert_eq!(store.fleet().await.unwrap(), Some(started));
}

async fn tenant_switch_is_stored_with_its_settings<S: Store>(store: Arc<S>) {
    let acme = Tenant { stopped: Some(stopped("fire")), ..Tenant::new(tenant("acme")) };
    assert_eq!(store.put_tenant(acme.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.tenant(&acme.tenant).await.unwrap(), Some(acme));
    assert_eq!(store.fleet().await.unwrap(), None);
}

async fn both_switches_are_read_together<S: Store>(store: Arc<S>) {
    let acme = Tenant { stopped: Some(stopped("fire")), ..Tenant::new(tenant("acme")) };
    assert_eq!(store.settings_eventual(&acme.tenant).await.unwrap(), (None, None));
    store.put_tenant(acme.clone()).await.unwrap();
    assert_eq!(store.settings_eventual(&acme.tenant).await.unwrap(), (None, Some(acme.clone())));
    let all = Fleet { stopped: Some(stopped("flood")), ..Fleet::default() };
    store.put_fleet(all.clone()).await.unwrap();
    assert_eq!(store.tenant_eventual(&acme.tenant).await.unwrap(), Some(acme.clone()));
    assert_eq!(store.tenant_eventual(&tenant("umbrella")).await.unwrap(), None);
    assert_eq!(store.settings_eventual(&acme.tenant).await.unwrap(), (Some(all.clone()), Some(acme)));
    assert_eq!(store.settings_eventual(&tenant("umbrella")).await.unwrap(), (Some(all), None));
}

async fn tenants_with_active_runs_are_listed<S: Store>(store: Arc<S>) {
    assert_eq!(store.tenants(None, 10).await.unwrap(), []);
    for (owner, request) in [("umbrella", "a"), ("acme", "b"), ("acme", "c")] {
        Run::start(&*store, owner, request, &calls(1)).await;
    }
    assert_eq!(store.tenants(None, 10).await.unwrap(), [tenant("acme"), tenant("umbrella")]);
    let page = async |after: &str, limit| store.tenants(Some(&tenant(after)), limit).await.unwrap();
    assert_eq!(store.tenants(None, 1).await.unwrap(), [tenant("acme")]);
    assert_eq!(page("acme", 1).await, [tenant("umbrella")]);
    assert_eq!(page("b", 10).await, [tenant("umbrella")]);
    assert_eq!(page("umbrella", 10).await, []);
}

async fn tenant_with_only_paused_runs_is_listed<S: Store>(store: Arc<S>) {
    let mut paused = Vec::new();
    for (owner, request) in [("acme", "a"), ("acme", "b"), ("umbrella", "c")] {
        let mut run = Run::start(&*store, owner, request, &calls(1)).await;
        run.commit(&*store, Pause { reason: "a look".to_owned() }).await;
        paused.push(run);
    }
    let both = [tenant("acme"), tenant("umbrella")];
    assert_eq!(store.tenants(None, 10).await.unwrap(), both);
    for run in &mut paused {
        run.commit(&*store, Resume { reason: "seen".to_owned() }).await;
    }
    assert_eq!(store.tenants(None, 10).await.unwrap(), both, "after the runs are resumed");
}

async fn run_awaiting_approval<S: Store>(store: &S, request: &str) -> Run {
    let mut run = Run::start(store, "acme", request, &calls(1)).await;
    assert_eq!(run.commit(store, claim_needing_approval(request)).await, ClaimResult::AwaitingApproval);
    run
}

async fn approval_is_found_by_id_and_by_run<S: Store>(store: Arc<S>) {
    let run = run_awaiting_approval(&*store, "request").await;
    let approval = run.approval.clone().unwrap();
    assert_eq!(store.approval(&tenant("acme"), &approval.id).await.unwrap().as_ref(), Some(&approval));
    assert_eq!(store.approvals(run.key()).await.unwrap(), [approval]);
}

async fn approval_of_another_tenant_is_not_found<S: Store>(store: Arc<S>) {
    let run = run_awaiting_approval(&*store, "request").await;
    let id = run.approval.unwrap().id;
    assert_eq!(store.approval(&tenant("umbrella"), &id).await.unwrap(), None);
    assert_eq!(open(&*store, "umbrella", None, 10).await.0, [""; 0]);
}

async fn vote_and_step_change_in_one_commit<S: Store>(store: Arc<S>) {
    let mut run = run_awaiting_approval(&*store, "request").await;
    let approval = run.approval.clone().unwrap();
    let (late, _) = run.decide(approve(approval.clone()));
    run.commit(&*store, Cancel { reason: "enough".to_owned() }).await;

    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    let current = store.approval(&tenant("acme"), &approval.id).await.unwrap().unwrap();
    assert_eq!((current.status, current.votes.len()), (ApprovalStatus::Canceled, 0));
}

/// Run and approval are separate items. A reader that reads one after the other may see the new run and the old approval.
async fn vote_on_a_stale_approval_is_superseded<S: Store>(store: Arc<S>) {
    let mut run = run_awaiting_approval(&*store, "request").await;
    let before = run.approval.clone().unwrap();
    let (reminds, ()) = run.decide_at(before.next_reminder_at(), RemindApprovers);
    run.record = reminds.record.clone();
    assert_eq!(store.commit(reminds).await.unwrap(), Write::Committed);

    let (late, _) = run.decide(approve(before.clone()));
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    let current = store.approval(&tenant("acme"), &before.id).await.unwrap().unwrap();
    assert_eq!((current.revision, current.votes.len()), (before.revision + 1, 0));
    let (seen, _) = run.decide(approve(current));
    assert_eq!(store.commit(seen).await.unwrap(), Write::Committed);
}

async fn claim_consumes_its_approval_in_one_commit<S: Store>(store: Arc<S>) {
    let mut run = run_awaiting_approval(&*store, "request").await;
    let approval = run.approval.clone().unwrap();
    assert!(matches!(run.commit(&*store, approve(approval.clone())).await, VoteResult::Decided(_)));

    let grant = granted(run.commit(&*store, claim_needing_approval("request")).await);

    let used = store.approval(&tenant("acme"), &approval.id).await.unwrap().unwrap();
    assert_eq!(used.consumed.unwrap().fence, grant.fence);
    assert_eq!(grant.receipt.unwrap().approval, Some(approval.id));
}

async fn open_approvals_are_listed_oldest_first<S: Store>(store: Arc<S>) {
    let mut first = run_awaiting_approval(&*store, "first").await;
    let second = run_awaiting_approval(&*store, "second").await;
    let ids = [&first, &second].map(|run| run.approval.clone().unwrap().id.to_string());
    assert_eq!(open(&*store, "acme", None, 10).await.0, ids);

    let approval = first.approval.clone().unwrap();
    first.commit(&*store, approve(approval)).await;

    assert_eq!(open(&*store, "acme", None, 10).await.0, ids[1..]);
}

async fn open_approvals_are_listed_in_pages<S: Store>(store: Arc<S>) {
    for request in ["a", "b", "c"] {
        run_awaiting_approval(&*store, request).await;
    }
    let (first, next) = open(&*store, "acme", None, 2).await;
    let (second, end) = open(&*store, "acme", next, 2).await;
    assert_eq!((first.len(), second.len(), end), (2, 1, None));
    assert!(!first.contains(&second[0]));
}

async fn open<S: Store>(
    store: &S,
    owner: &str,
    after: Option<Cursor>,
    limit: u32,
) -> (Vec<String>, Option<Cursor>) {
    let page = store.open_approvals(&tenant(owner), PageQuery { after, limit }).await.unwrap();
    (page.approvals.iter().map(|approval| approval.id.to_string()).collect(), page.next)
}

async fn changed_approval_sends_a_notification<S: Store>(store: Arc<S>) {
    let run = run_awaiting_approval(&*store, "request").await;
    let (hidden, wait) = (Millis::secs(30), Duration::from_secs(5));
    let received = store.receive(QueueName::Decisions, 10, hidden, wait).await.unwrap();
    let jobs: Vec<_> = received.into_iter().map(|delivery| delivery.job).collect();
    let Approval { id: approval, revision, .. } = run.approval.unwrap();
    assert!(jobs.contains(&Job::NotifyApproval { approval, revision }), "{jobs:?}");
}

async fn stale_write_does_not_replace_tenant_settings<S: Store>(store: Arc<S>) {
    let acme = Tenant::new(tenant("acme"));
    assert_eq!(store.tenant(&acme.tenant).await.unwrap(), None);
    assert_eq!(store.put_tenant(acme.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_tenant(acme.clone()).await.unwrap(), Write::Superseded);
    let changed = Tenant { revision: 1, policy: Some(Digest::of_bytes(b"policy")), ..acme.clone() };
    assert_eq!(store.put_tenant(changed.clone()).await.unwrap(), Write::Committed);
    assert_eq!(
        store.put_tenant(Tenant { policy: None, ..changed.clone() }).await.unwrap(),
        Write::Superseded
    );
    assert_eq!(store.tenant(&acme.tenant).await.unwrap(), Some(changed));
    assert_eq!(store.tenant(&tenant("umbrella")).await.unwrap(), None);
}

async fn policy_is_found_by_hash_within_its_tenant<S: Store>(store: Arc<S>) {
    let (acme, hash) = (tenant("acme"), Digest::of_bytes(b"policy"));
    let files = store::PolicyFiles::from([("main.rego".to_owned(), "package countersign".to_owned())]);
    store.put_policy(&acme, &hash, files.clone()).await.unwrap();
    store.put_policy(&acme, &hash, files.clone()).await.unwrap();
    assert_eq!(store.policy(&acme, &hash).await.unwrap(), Some(files));
    assert_eq!(store.policy(&tenant("umbrella"), &hash).await.unwrap(), None);
    assert_eq!(store.policy(&acme, &Digest::ZERO).await.unwrap(), None);
}

async fn stale_write_does_not_replace_a_card<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    run.commit(&*store, claim("effect", None)).await;
    let id = domain::ApprovalId::derive(run.key(), 0);
    let acme = tenant("acme");
    let connection = Some("slack".parse().unwrap());
    let first = Card { message: "C1/1".to_owned(), connection, revision: 1, reminders: 0, escalated: false };
    let second = Card { revision: 2, ..first.clone() };
    let put =
        |card: &Card, replaces: Option<&Card>| store.put_card(&acme, &id, card.clone(), replaces.cloned());
    assert_eq!(put(&first, None).await.unwrap(), Write::Committed);
    assert_eq!(put(&second, None).await.unwrap(), Write::Superseded);
    assert_eq!(put(&second, Some(&first)).await.unwrap(), Write::Committed);
    assert_eq!(store.card(&acme, &id).await.unwrap(), Some(second));
}

async fn page_is_stored_apart_from_the_card<S: Store>(store: Arc<S>) {
    let mut run = Run::start(&*store, "acme", "request", &calls(1)).await;
    run.commit(&*store, claim("effect", None)).await;
    let id = domain::ApprovalId::derive(run.key(), 0);
    let acme = tenant("acme");
    let paged = Page { status: PageStatus::Paged, connection: Some("pagerduty".parse().unwrap()) };
    let resolved = Page { status: PageStatus::Resolved, ..paged.clone() };
    let put =
        |page: &Page, replaces: Option<&Page>| store.put_page(&acme, &id, page.clone(), replaces.cloned());
    assert_eq!(put(&paged, None).await.unwrap(), Write::Committed);
    assert_eq!(put(&resolved, None).await.unwrap(), Write::Superseded);
    assert_eq!(put(&resolved, Some(&paged)).await.unwrap(), Write::Committed);
    assert_eq!(store.page(&acme, &id).await.unwrap(), Some(resolved));
    assert_eq!(store.card(&acme, &id).await.unwrap(), None);
}
