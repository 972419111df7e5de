//! The oracle reports each difference: two real runs pass, and every change to what was observed is a violation.

use connectors::HostAllowList;
use domain::RunStatus;
use store::SqliteStore;
use testkit::{acme, advance, approvals, approve, engine, signing_key, start};

use super::{Violation, check};
use crate::external_systems::ExternalSystems;
use crate::facts::{BundleFacts, Journal, Observed, read_runs};

fn workflow(external_systems: &ExternalSystems, environment: &str, step: &str) -> String {
    let url = format!("{}/keyed", external_systems.http_url());
    format!(
        "workflow: w\nversion: 1\nenvironment: {environment}\nsteps:\n\
         - {{ id: {step}, tool: http.request, with: {{ method: PUT, url: '{url}', effect: native_key }} }}\n"
    )
}

/// One run without an approval, and one that `ben` approved.
async fn observed() -> Observed {
    let external_systems = ExternalSystems::start().await.unwrap();
    let hosts = vec![external_systems.http_address().parse().unwrap()];
    let tools = connectors::standard_tools(HostAllowList { hosts });
    let engine: engine::Engine<SqliteStore> = engine().tools(tools).signed().build();
    let mut journal = Journal::default();
    let free = start(&engine, &workflow(&external_systems, "dev", "low-0"), "free").await;
    assert_eq!(advance(&engine, &free).await, RunStatus::Succeeded);
    let asked = start(&engine, &workflow(&external_systems, "prod", "medium-0"), "asked").await;
    assert_eq!(advance(&engine, &asked).await, RunStatus::WaitingApproval);
    let approval = approvals(&engine, &asked).await.pop().unwrap();
    approve(&engine, &asked, "ben").await.unwrap();
    journal.approved_by.insert(approval.id, ["ben".to_owned()].into());
    assert_eq!(advance(&engine, &asked).await, RunStatus::Succeeded);
    for (key, run) in [("free", free), ("asked", asked)] {
        engine.operations().build_evidence(&run).await.unwrap();
        journal.started.insert(key.to_owned(), run.run);
    }
    let runs = read_runs(&**engine.store(), &acme(), &signing_key().public()).await.unwrap();
    Observed { journal, runs, external: external_systems.counts(std::iter::empty()) }
}

/// The violations after a change to what was observed.
fn violations(observed: &Observed, change: impl FnOnce(&mut Observed)) -> Vec<Violation> {
    let mut changed = observed.clone();
    change(&mut changed);
    check(&changed).1
}

fn bundles(observed: &mut Observed) -> impl Iterator<Item = &mut BundleFacts> {
    observed.runs.iter_mut().filter_map(|run| run.bundle.as_mut().ok())
}

#[tokio::test]
async fn equal_counts_pass() {
    let observed = observed().await;
    let (totals, violations) = check(&observed);
    assert!(violations.is_empty(), "{violations:?}");
    assert_eq!((totals.runs, totals.effects, totals.receipts_done, totals.bundles), (2, 2, 2, 2));
    assert_eq!((totals.log_entries, totals.approved_effects), (2, 1));
}

#[tokio::test]
async fn changed_effects_are_violations() {
    let observed = observed().await;
    let doubled = violations(&observed, |it| *it.external.effects.values_mut().next().unwrap() += 1);
    assert!(doubled[0].what.contains("happened 2 times outside; the receipts say 1"), "{doubled:?}");
    let lost = violations(&observed, |it| it.external.effects.clear());
    assert!(lost[0].what.contains("happened 0 times outside"), "{lost:?}");
    let unknown = violations(&observed, |it| {
        it.external.record_writes.insert("other".to_owned(), 1);
    });
    assert!(unknown[0].what.contains("writes of other happened 1 times"), "{unknown:?}");
}

#[tokio::test]
async fn changed_receipts_are_violations() {
    let observed = observed().await;
    let removed = violations(&observed, |it| it.runs[0].receipts.clear());
    assert!(removed[0].what.contains("the ledger has no receipt"), "{removed:?}");
    let without_evidence = violations(&observed, |it| bundles(it).for_each(|bundle| bundle.receipts.clear()));
    assert!(
        without_evidence.iter().any(|found| found.what.contains("the evidence has no receipt")),
        "{without_evidence:?}"
    );
    assert!(
        without_evidence.iter().any(|found| found.what.contains("the receipts say 0")),
        "{without_evidence:?}"
    );
}

#[tokio::test]
async fn missing_runs_and_bundles_are_violations() {
    let observed = observed().await;
    let without_evidence =
        violations(&observed, |it| it.runs[0].bundle = Err("no evidence is recorded".to_owned()));
    assert!(
        without_evidence.iter().any(|found| found.what == "no evidence is recorded"),
        "{without_evidence:?}"
    );
    let lost = violations(&observed, |it| drop(it.runs.remove(0)));
    assert!(lost.iter().any(|found| found.what.contains("the run does not exist")), "{lost:?}");
    let extra = violations(&observed, |it| it.journal.started.clear());
    assert!(extra[0].what.contains("no accepted request started it"), "{extra:?}");
    let open = violations(&observed, |it| it.runs[0].status = RunStatus::Paused);
    assert!(open.iter().any(|found| found.what.contains("has not ended")), "{open:?}");
}

#[tokio::test]
async fn changed_approvals_are_violations() {
    let observed = observed().await;
    let denied = violations(&observed, |it| {
        bundles(it).flat_map(|bundle| &mut bundle.intents).for_each(|intent| intent.denied = true);
    });
    assert!(denied[0].what.contains("although policy denies it"), "{denied:?}");
    let unapproved = violations(&observed, |it| {
        bundles(it).flat_map(|bundle| &mut bundle.intents).for_each(|intent| intent.approval = None);
    });
    assert!(unapproved[0].what.contains("without the required approval"), "{unapproved:?}");
    let outsider = violations(&observed, |it| {
        for bundle in bundles(it) {
            bundle.approvals.values_mut().for_each(|people| *people = ["dan".to_owned()].into());
        }
        it.journal.approved_by.values_mut().for_each(|people| *people = ["dan".to_owned()].into());
    });
    assert!(outsider[0].what.contains("0 permitted users approved"), "{outsider:?}");
    let forged = violations(&observed, |it| it.journal.approved_by.clear());
    assert!(forged[0].what.contains("0 permitted users approved"), "{forged:?}");
}

#[tokio::test]
async fn changed_log_entries_are_violations() {
    let observed = observed().await;
    let gap = violations(&observed, |it| bundles(it).for_each(|bundle| bundle.log.index += 1));
    assert!(gap.iter().any(|found| found.what.contains("no run at entry 0")), "{gap:?}");
    let same = violations(&observed, |it| bundles(it).for_each(|bundle| bundle.log.index = 0));
    assert!(same.iter().any(|found| found.what.contains("also belongs to")), "{same:?}");
    let forked =
        violations(&observed, |it| bundles(it).for_each(|bundle| bundle.log.root = domain::Digest::ZERO));
    assert!(forked[0].what.contains("the root of the log"), "{forked:?}");
}
