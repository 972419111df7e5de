//! Tickets: each has one run at a time, and a run that is not begun takes none.

use std::sync::Arc;

use domain::command::Cancel;
use domain::{RunId, Ticket};
use store::{Admission, Hold, Holder, InLine, Store, StoreError, Write};

use crate::fixtures::{NOON, Run, admission, calls, messages, tenant};

cases![
    a_ticket_belongs_to_the_run_that_took_it_in_its_first_commit,
    a_ticket_that_is_taken_is_not_taken_again,
    a_ticket_of_a_run_that_is_over_goes_to_the_run_that_names_it,
    a_run_that_is_there_takes_no_ticket,
    of_many_runs_that_want_one_ticket_at_once_exactly_one_is_begun,
    two_tenants_have_tickets_of_their_own,
    whoever_waits_for_a_ticket_is_in_line_until_it_is_taken,
];

/// As many triggers as one incident may bring at once.
const WANT_IT: usize = 16;

fn ticket(owner: &str) -> Ticket {
    Ticket::derive(&tenant(owner), &"triage".parse().unwrap(), "INC1")
}

/// The first commit of a run that takes the ticket after `after`.
fn taking(owner: &str, request: &str, after: Option<&RunId>) -> Admission {
    let hold = Hold { ticket: ticket(owner), after: after.cloned() };
    Admission { hold: Some(hold), ..admission(owner, request, &calls(1)) }
}

fn run_of(admission: &Admission) -> RunId {
    admission.decision.record.key.run.clone()
}

async fn holder<S: Store>(store: &S, owner: &str) -> Option<RunId> {
    store.holder(&tenant(owner), &ticket(owner)).await.unwrap().map(|holder| holder.run)
}

async fn a_ticket_belongs_to_the_run_that_took_it_in_its_first_commit<S: Store>(store: Arc<S>) {
    assert_eq!(holder(&*store, "acme").await, None);
    let first = taking("acme", "first", None);
    assert_eq!(store.admit(first.clone()).await.unwrap(), Write::Committed);
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&first)));
    assert_eq!(store.load(&first.decision.record.key).await.unwrap(), Some(first.decision.record));
}

async fn a_ticket_that_is_taken_is_not_taken_again<S: Store>(store: Arc<S>) {
    let first = taking("acme", "first", None);
    store.admit(first.clone()).await.unwrap();
    let depth = messages(&*store).await;
    let stranger: RunId = "somebody-else".parse().unwrap();
    for after in [None, Some(&stranger)] {
        let second = taking("acme", "second", after);
        assert_eq!(store.admit(second.clone()).await.unwrap(), Write::Superseded);
        assert_eq!(store.load(&second.decision.record.key).await.unwrap(), None);
    }
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&first)));
    assert_eq!(messages(&*store).await, depth);
}

async fn a_ticket_of_a_run_that_is_over_goes_to_the_run_that_names_it<S: Store>(store: Arc<S>) {
    let first = taking("acme", "first", None);
    store.admit(first.clone()).await.unwrap();
    let mut run = Run { plan: Arc::new(calls(1)), record: first.decision.record.clone(), asked: None };
    run.commit(&*store, Cancel { reason: "enough".to_owned() }).await;

    let second = taking("acme", "second", Some(&run_of(&first)));
    assert_eq!(store.admit(second.clone()).await.unwrap(), Write::Committed);
    assert_eq!(holder(&*store, "acme").await, Some(run_of(&second)));
    let late = taking("acme", "third", Some(&run_of(&first)));
    assert_eq!(store.admit(late).await.unwrap(), Write::Superseded);
}

async fn a_run_that_is_there_takes_no_ticket<S: Store>(store: Arc<S>) {
    store.admit(admission("acme", "first", &calls(1))).await.unwrap();
    assert_eq!(store.admit(taking("acme", "first", None)).await.unwrap(), Write::Superseded);
    assert_eq!(holder(&*store, "acme").await, None);
}

async fn of_many_runs_that_want_one_ticket_at_once_exactly_one_is_begun<S: Store>(store: Arc<S>) {
    let wanting: Vec<_> = (0..WANT_IT).map(|n| taking("acme", &format!("request-{n}"), None)).collect();
    let admit = |admission: &Admission| {
        let (store, admission) = (Arc::clone(&store), admission.clone());
        tokio::spawn(async move {
            loop {
                match store.admit(admission.clone()).await {
                    Ok(write) => return write,
                    // All of them write to one place; whoever is told to come again does.
                    Err(StoreError::Busy { .. }) => {}
                    Err(error) => unreachable!("{error}"),
                }
            }
        })
    };
    let mut begun = Vec::new();
    for (admission, task) in wanting.iter().zip(wanting.iter().map(admit).collect::<Vec<_>>()) {
        if task.await.unwrap() == Write::Committed {
            begun.push(run_of(admission));
        }
    }
    assert_eq!(begun.len(), 1);
    assert_eq!(holder(&*store, "acme").await.as_ref(), begun.first());
    for admission in wanting {
        let there = store.load(&admission.decision.record.key).await.unwrap().is_some();
        assert_eq!(there, begun.contains(&run_of(&admission)));
    }
}

async fn two_tenants_have_tickets_of_their_own<S: Store>(store: Arc<S>) {
    for owner in ["acme", "umbrella"] {
        assert_eq!(store.admit(taking(owner, "request", None)).await.unwrap(), Write::Committed);
    }
    assert_ne!(holder(&*store, "acme").await, holder(&*store, "umbrella").await);
}

async fn whoever_waits_for_a_ticket_is_in_line_until_it_is_taken<S: Store>(store: Arc<S>) {
    let (acme, ticket) = (tenant("acme"), ticket("acme"));
    let waits = |name: &str| InLine { run: name.parse().unwrap(), since: NOON, seen: NOON };
    let first = taking("acme", "first", None);
    let free = Holder { run: run_of(&first), next: None };
    let enqueue_waiter =
        |stands: &Holder, name| store.enqueue_waiter(&acme, &ticket, stands.clone(), waits(name));
    assert_eq!(enqueue_waiter(&free, "second").await.unwrap(), Write::Superseded);
    store.admit(first.clone()).await.unwrap();
    assert_eq!(enqueue_waiter(&free, "second").await.unwrap(), Write::Committed);
    assert_eq!(enqueue_waiter(&free, "third").await.unwrap(), Write::Superseded);
    let stands = Holder { next: Some(waits("second")), ..free };
    assert_eq!(store.holder(&acme, &ticket).await.unwrap().as_ref(), Some(&stands));
    assert_eq!(enqueue_waiter(&stands, "third").await.unwrap(), Write::Committed);

    let taker = taking("acme", "second", Some(&run_of(&first)));
    assert_eq!(store.admit(taker.clone()).await.unwrap(), Write::Committed);
    let stands = Holder { run: run_of(&taker), next: None };
    assert_eq!(store.holder(&acme, &ticket).await.unwrap(), Some(stands));
}
