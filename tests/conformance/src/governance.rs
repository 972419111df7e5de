//! Tenants, policies, requests for approval and cards.

use std::sync::Arc;
use std::time::Duration;

use domain::command::{Answered, Cancel, Claimed, Nudge, Pause, Resume};
use domain::{
    ApprovalStatus, Card, Cause, Digest, Fleet, Initiator, Job, Millis, QueueName, Stopped, Tenant,
};
use store::{Cursor, PageQuery, Store, Write};

use crate::fixtures::{NOON, Run, asking, calls, claim, granted, tenant, yes};

cases![
    the_switch_for_all_is_written_by_one_at_a_time,
    a_switch_is_kept_with_what_a_tenant_has_settled,
    both_switches_are_read_together,
    tenants_with_runs_under_way_are_found,
    a_tenant_whose_runs_all_wait_for_a_person_is_found,
    a_request_for_approval_is_found_by_its_name_and_by_its_run,
    another_tenants_request_is_not_there,
    an_answer_and_the_step_it_is_for_change_together_or_not_at_all,
    an_answer_to_a_request_that_has_changed_unseen_is_not_written_over_it,
    the_attempt_that_uses_an_approval_marks_it_in_the_same_commit,
    open_requests_are_listed_oldest_first_and_only_while_they_are_open,
    open_requests_are_listed_page_by_page,
    a_request_that_changes_has_people_shown,
    what_a_tenant_has_settled_is_replaced_only_by_whoever_saw_it,
    a_policy_is_kept_under_its_hash_for_its_tenant,
    a_card_is_replaced_only_by_whoever_saw_it,
];

fn stopped(reason: &str) -> Stopped {
    Stopped::new(Initiator::new(Cause::User, "ada"), reason, NOON)
}

async fn the_switch_for_all_is_written_by_one_at_a_time<S: Store>(store: Arc<S>) {
    assert_eq!(store.fleet().await.unwrap(), None);
    let stopped = Fleet { stopped: Some(stopped("fire")), revision: 0 };
    assert_eq!(store.put_fleet(stopped.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_fleet(Fleet::default()).await.unwrap(), Write::Superseded);
    assert_eq!(store.fleet().await.unwrap(), Some(stopped));
    let started = Fleet { stopped: None, revision: 1 };
    assert_eq!(store.put_fleet(started.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.put_fleet(started.clone()).await.unwrap(), Write::Superseded);
    assert_eq!(store.fleet().await.unwrap(), Some(started));
}

async fn a_switch_is_kept_with_what_a_tenant_has_settled<S: Store>(store: Arc<S>) {
    let acme = Tenant { stopped: Some(stopped("fire")), ..Tenant::new(tenant("acme")) };
    assert_eq!(store.put_tenant(acme.clone()).await.unwrap(), Write::Committed);
    assert_eq!(store.tenant(&acme.tenant).await.unwrap(), Some(acme));
    assert_eq!(store.fleet().await.unwrap(), None);
}

async fn both_switches_are_read_together<S: Store>(store: Arc<S>) {
    let acme = Tenant { stopped: Some(stopped("fire")), ..Tenant::new(tenant("acme")) };
    assert_eq!(store.eventual(&acme.tenant).await.unwrap(), (None, None));
    store.put_tenant(acme.clone()).await.unwrap();
    assert_eq!(store.eventual(&acme.tenant).await.unwrap(), (None, Some(acme.clone())));
    let all = Fleet { stopped: Some(stopped("flood")), revision: 0 };
    store.put_fleet(all.clone()).await.unwrap();
    assert_eq!(store.eventual(&acme.tenant).await.unwrap(), (Some(all.clone()), Some(acme)));
    assert_eq!(store.eventual(&tenant("umbrella")).await.unwrap(), (Some(all), None));
}

async fn tenants_with_runs_under_way_are_found<S: Store>(store: Arc<S>) {
    assert_eq!(store.tenants().await.unwrap(), []);
    for (owner, request) in [("umbrella", "a"), ("acme", "b"), ("acme", "c")] {
        Run::begin(&*store, owner, request, &calls(1)).await;
    }
    assert_eq!(store.tenants().await.unwrap(), [tenant("acme"), tenant("umbrella")]);
}

async fn a_tenant_whose_runs_all_wait_for_a_person_is_found<S: Store>(store: Arc<S>) {
    let mut paused = Vec::new();
    for (owner, request) in [("acme", "a"), ("acme", "b"), ("umbrella", "c")] {
        let mut run = Run::begin(&*store, owner, request, &calls(1)).await;
        run.commit(&*store, Pause { reason: "a look".to_owned() }).await;
        paused.push(run);
    }
    let both = [tenant("acme"), tenant("umbrella")];
    assert_eq!(store.tenants().await.unwrap(), both);
    for run in &mut paused {
        run.commit(&*store, Resume { reason: "seen".to_owned() }).await;
    }
    assert_eq!(store.tenants().await.unwrap(), both, "and when they go on");
}

async fn asks<S: Store>(store: &S, request: &str) -> Run {
    let mut run = Run::begin(store, "acme", request, &calls(1)).await;
    assert_eq!(run.commit(store, asking(request)).await, Claimed::Asked);
    run
}

async fn a_request_for_approval_is_found_by_its_name_and_by_its_run<S: Store>(store: Arc<S>) {
    let run = asks(&*store, "request").await;
    let asked = run.asked.clone().unwrap();
    assert_eq!(store.approval(&tenant("acme"), &asked.id).await.unwrap().as_ref(), Some(&asked));
    assert_eq!(store.approvals(run.key()).await.unwrap(), [asked]);
}

async fn another_tenants_request_is_not_there<S: Store>(store: Arc<S>) {
    let run = asks(&*store, "request").await;
    let id = run.asked.unwrap().id;
    assert_eq!(store.approval(&tenant("umbrella"), &id).await.unwrap(), None);
    assert_eq!(open(&*store, "umbrella", None, 10).await.0, [""; 0]);
}

async fn an_answer_and_the_step_it_is_for_change_together_or_not_at_all<S: Store>(store: Arc<S>) {
    let mut run = asks(&*store, "request").await;
    let asked = run.asked.clone().unwrap();
    let (late, _) = run.decide(yes(asked.clone()));
    run.commit(&*store, Cancel { reason: "enough".to_owned() }).await;

    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    let stands = store.approval(&tenant("acme"), &asked.id).await.unwrap().unwrap();
    assert_eq!((stands.status, stands.votes.len()), (ApprovalStatus::Canceled, 0));
}

/// Run and request are in different parts of a table, and whoever reads one after the other while both are written may
/// see the new run and the old request.
async fn an_answer_to_a_request_that_has_changed_unseen_is_not_written_over_it<S: Store>(store: Arc<S>) {
    let mut run = asks(&*store, "request").await;
    let before = run.asked.clone().unwrap();
    let (reminds, ()) = run.decide_at(before.nudge_at(), Nudge);
    run.record = reminds.record.clone();
    assert_eq!(store.commit(reminds).await.unwrap(), Write::Committed);

    let (late, _) = run.decide(yes(before.clone()));
    assert_eq!(store.commit(late).await.unwrap(), Write::Superseded);

    let stands = store.approval(&tenant("acme"), &before.id).await.unwrap().unwrap();
    assert_eq!((stands.revision, stands.votes.len()), (before.revision + 1, 0));
    let (seen, _) = run.decide(yes(stands));
    assert_eq!(store.commit(seen).await.unwrap(), Write::Committed);
}

async fn the_attempt_that_uses_an_approval_marks_it_in_the_same_commit<S: Store>(store: Arc<S>) {
    let mut run = asks(&*store, "request").await;
    let asked = run.asked.clone().unwrap();
    assert!(matches!(run.commit(&*store, yes(asked.clone())).await, Answered::Decided(_)));

    let grant = granted(run.commit(&*store, asking("request")).await);

    let used = store.approval(&tenant("acme"), &asked.id).await.unwrap().unwrap();
    assert_eq!(used.consumed.unwrap().fence, grant.fence);
    assert_eq!(grant.receipt.unwrap().approval, Some(asked.id));
}

async fn open_requests_are_listed_oldest_first_and_only_while_they_are_open<S: Store>(store: Arc<S>) {
    let mut first = asks(&*store, "first").await;
    let second = asks(&*store, "second").await;
    let ids = [&first, &second].map(|run| run.asked.clone().unwrap().id.to_string());
    assert_eq!(open(&*store, "acme", None, 10).await.0, ids);

    let asked = first.asked.clone().unwrap();
    first.commit(&*store, yes(asked)).await;

    assert_eq!(open(&*store, "acme", None, 10).await.0, ids[1..]);
}

async fn open_requests_are_listed_page_by_page<S: Store>(store: Arc<S>) {
    for request in ["a", "b", "c"] {
        asks(&*store, request).await;
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

async fn a_request_that_changes_has_people_shown<S: Store>(store: Arc<S>) {
    let run = asks(&*store, "request").await;
    let (hidden, wait) = (Millis::secs(30), Duration::from_secs(5));
    let received = store.receive(QueueName::Decisions, 10, hidden, wait).await.unwrap();
    let jobs: Vec<_> = received.into_iter().map(|delivery| delivery.job).collect();
    assert!(jobs.contains(&Job::NotifyApproval(run.asked.unwrap().id)), "{jobs:?}");
}

async fn what_a_tenant_has_settled_is_replaced_only_by_whoever_saw_it<S: Store>(store: Arc<S>) {
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

async fn a_policy_is_kept_under_its_hash_for_its_tenant<S: Store>(store: Arc<S>) {
    let (acme, hash) = (tenant("acme"), Digest::of_bytes(b"policy"));
    let files = store::PolicyFiles::from([("main.rego".to_owned(), "package countersign".to_owned())]);
    store.put_policy(&acme, &hash, files.clone()).await.unwrap();
    store.put_policy(&acme, &hash, files.clone()).await.unwrap();
    assert_eq!(store.policy(&acme, &hash).await.unwrap(), Some(files));
    assert_eq!(store.policy(&tenant("umbrella"), &hash).await.unwrap(), None);
    assert_eq!(store.policy(&acme, &Digest::ZERO).await.unwrap(), None);
}

async fn a_card_is_replaced_only_by_whoever_saw_it<S: Store>(store: Arc<S>) {
    let mut run = Run::begin(&*store, "acme", "request", &calls(1)).await;
    run.commit(&*store, claim("effect", None)).await;
    let id = domain::ApprovalId::derive(run.key(), 0);
    let acme = tenant("acme");
    let first = Card { place: "C1/1".to_owned(), shown: 1, reminders: 0, escalated: false };
    let second = Card { shown: 2, ..first.clone() };
    let put =
        |card: &Card, replaces: Option<&Card>| store.put_card(&acme, &id, card.clone(), replaces.cloned());
    assert_eq!(put(&first, None).await.unwrap(), Write::Committed);
    assert_eq!(put(&second, None).await.unwrap(), Write::Superseded);
    assert_eq!(put(&second, Some(&first)).await.unwrap(), Write::Committed);
    assert_eq!(store.card(&acme, &id).await.unwrap(), Some(second));
}
