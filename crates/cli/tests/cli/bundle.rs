//! `bundle …`: evidence leaves the store, and is verified without it.

use crate::outside::Outside;
use crate::shell::Shell;

/// A finished run with an effect that can be taken back, and one that somebody approved.
fn finished(shell: &Shell, outside: &Outside) -> String {
    let address = outside.address();
    let run = shell.start(&format!(
        "workflow: account
version: 3
environment: dev
steps:
  - id: make
    tool: http.request
    with: {{ method: POST, url: 'http://{address}/accounts', effect: native_key }}
    rollback: {{ tool: http.request, with: {{ method: DELETE, url: 'http://{address}/accounts/1', effect: native_key }} }}
  - {{ id: sum, tool: transform, with: {{ value: secret-value }} }}
  - id: mail
    tool: http.request
    critical: true
    with: {{ method: POST, url: 'http://{address}/mails', effect: native_key }}
"
    ));
    let allowed = format!("--allow-host {address}");
    shell.work(&allowed);
    shell.run(&format!("approval approve {run} mail --by bob --reason fine")).expect(0);
    shell.work(&allowed);
    assert_eq!(shell.show(&run)["status"], "succeeded");
    run
}

#[test]
fn evidence_is_handed_out_with_its_key_and_verified_without_the_store() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    let got = shell.run(&format!("bundle get {run}")).expect(0);
    got.says(&format!("{run}.bundle"))
        .says(&format!("verify it with: countersign bundle verify {run}.bundle"));

    let elsewhere = Shell::new();
    for name in [format!("{run}.bundle"), format!("{run}.bundle.pub")] {
        std::fs::copy(shell.path(&name), elsewhere.path(&name)).unwrap();
    }
    let verified = elsewhere.run(&format!("bundle verify {run}.bundle")).expect(0);
    assert_eq!(verified.out.lines().count(), 1, "{verified:?}");
    let beginning = format!("verified: default/{run} account v3 succeeded: ");
    assert!(verified.out.starts_with(&beginning), "{verified:?}");
    let json = elsewhere.run(&format!("bundle verify {run}.bundle --json")).expect(0).json();
    assert_eq!((&json["verified"], &json["run"]), (&true.into(), &run.into()));
    assert!(!elsewhere.path("countersign.db").exists(), "verifying needs no store");
}

#[test]
fn a_flipped_byte_anywhere_is_refused_with_a_reason() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    let honest = std::fs::read(shell.path("a.bundle")).unwrap();
    for at in [0, honest.len() / 3, honest.len() / 2, honest.len() - 20, honest.len() - 1] {
        let mut altered = honest.clone();
        altered[at] ^= 1;
        shell.write("b.bundle", &altered);
        let refused = shell.run("bundle verify b.bundle --key a.bundle.pub").expect(1);
        assert!(refused.out.starts_with("refused: ") && refused.out.len() > 20, "byte {at}: {refused:?}");
        assert_eq!(refused.out.lines().count(), 1, "{refused:?}");
    }
    let refused = shell.run("bundle verify b.bundle --key a.bundle.pub --json").expect(1).json();
    assert_eq!(refused["verified"], false);
    assert!(!refused["reason"].as_str().unwrap().is_empty());
    shell.run("bundle show b.bundle --key a.bundle.pub --html page.html").expect(1).says("refused: ");
    assert!(!shell.path("page.html").exists(), "nothing is shown of what is refused");
}

#[test]
fn another_key_is_not_the_signer() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    shell.run("--store other.db worker --until-idle").expect(0);
    shell.run("bundle verify a.bundle --key other.db.pub").expect(1).says("refused: the bundle names key ");
}

#[test]
fn a_key_or_file_that_is_missing_or_no_key_is_named_with_the_way_out() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    std::fs::rename(shell.path("a.bundle.pub"), shell.path("kept.pub")).unwrap();
    for verb in ["verify", "show"] {
        let missing = shell.run(&format!("bundle {verb} a.bundle")).expect(2);
        missing.says("there is no key a.bundle.pub").says("--key names the public key");
        shell.run(&format!("bundle {verb} a.bundle --key kept.pub")).expect(0);
        shell.run(&format!("bundle {verb} missing.bundle")).expect(2).says("missing.bundle cannot be read");
        let no_key = shell.run(&format!("bundle {verb} a.bundle --key workflow.yaml")).expect(2);
        no_key.says("workflow.yaml cannot be used as a key");
    }
    shell.write("large.bundle", vec![b' '; 8 * 1024 * 1024 + 1]);
    shell.run("bundle verify large.bundle --key kept.pub").expect(1).says("refused: the file has more than");
}

#[test]
fn nothing_is_overwritten() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.write("a.bundle", "mine");
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(1).says("a.bundle is there already");
    assert!(!shell.path("a.bundle.pub").exists());
    shell.write("b.bundle.pub", "mine");
    shell.run(&format!("bundle get {run} --out b.bundle")).expect(1).says("b.bundle.pub is there already");
    assert!(!shell.path("b.bundle").exists());
    shell.run(&format!("bundle get {run} --out c.bundle")).expect(0);
    shell.run("bundle show c.bundle --html a.bundle").expect(1).says("a.bundle is there already");
    assert_eq!(std::fs::read(shell.path("a.bundle")).unwrap(), b"mine");
}

#[test]
fn the_same_run_gives_the_same_bytes() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    shell.run(&format!("bundle get {run} --out b.bundle")).expect(0);
    let read = |name| std::fs::read(shell.path(name)).unwrap();
    assert_eq!(read("a.bundle"), read("b.bundle"));
}

#[test]
fn a_run_that_is_not_over_or_not_there_has_no_evidence() {
    let shell = Shell::new();
    shell.run("bundle get run-1").expect(3).says("there is no store");
    let run = shell.start("{workflow: w, version: 1, steps: [{id: a, tool: wait.event, with: {event: e}}]}");
    shell.run("bundle get run-1").expect(2).says("there is no run");
    let early = shell.run(&format!("bundle get {run}")).expect(1);
    early.says("evidence").says("when the run is over");
    shell.work("");
    shell.run(&format!("bundle get {run}")).expect(1).says("not over yet");
    assert!(!shell.path(&format!("{run}.bundle")).exists());
}

#[test]
fn a_bundle_tells_steps_approvals_and_how_to_take_effects_back() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    let shown = shell.run("bundle show a.bundle --html page.html").expect(0);
    let shown = shown
        .says(&format!("run       default/{run}"))
        .says("status    succeeded after ")
        .says("account, version 3, dev")
        .says("mail: http.request on ")
        .says("bob said yes at ")
        .says(": fine")
        .says(&format!("`run undo {run}`, as the workflow says"))
        .says("neither its receipt nor the workflow says how");
    assert!(!shown.out.contains("secret-value"), "values stay at home: {shown:?}");
    let page = std::fs::read_to_string(shell.path("page.html")).unwrap();
    assert!(page.contains(&run) && page.starts_with("<!DOCTYPE html>"));
    let json = shell.run("bundle show a.bundle --json").expect(0).json();
    assert_eq!(json["bundle"]["approvals"][0]["votes"][0]["person"], "bob");
}

#[test]
fn a_store_that_was_altered_hands_nothing_out() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    std::fs::copy(shell.path("countersign.db.pub"), shell.path("kept.pub")).unwrap();
    shell.run("--store other.db worker --until-idle").expect(0);
    std::fs::copy(shell.path("other.db.pub"), shell.path("countersign.db.pub")).unwrap();
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(1).says("is not handed out");
    assert!(!shell.path("a.bundle").exists() && !shell.path("a.bundle.pub").exists());
}

#[test]
fn a_public_key_that_was_lost_is_written_again_or_asked_for() {
    let (shell, outside) = (Shell::new(), Outside::open());
    let run = finished(&shell, &outside);
    shell.run(&format!("bundle get {run} --out a.bundle")).expect(0);
    std::fs::remove_file(shell.path("countersign.db.pub")).unwrap();
    shell.run(&format!("bundle get {run} --out b.bundle")).expect(0);
    shell.run("bundle verify b.bundle").expect(0);
    std::fs::remove_file(shell.path("countersign.db.pub")).unwrap();
    std::fs::remove_file(shell.path("countersign.db.key")).unwrap();
    shell
        .run(&format!("bundle get {run} --out c.bundle"))
        .expect(1)
        .says("there is no key countersign.db.pub");
    assert!(!shell.path("countersign.db.key").exists(), "a key of our own making would be the wrong one");
}
