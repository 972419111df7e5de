//! `audit …`: the log of administrative changes is a chain that anyone with the file can verify.

use rusqlite::Connection;

use crate::env::CliEnv;

/// A store with three changes.
fn changed() -> CliEnv {
    let env = CliEnv::new();
    env.start(
        "{workflow: one, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    );
    env.work("");
    env.run("dispatch stop --reason fire --as ada").expect(0);
    env.run("dispatch start --as ada").expect(0);
    env.run("key create bob --role viewer --as ada").expect(0);
    env
}

/// Changes the entries of the tenant in the store.
fn rewrite(env: &CliEnv, sql: &str) {
    let store = Connection::open(env.path("countersign.db")).unwrap();
    assert!(store.execute(sql, []).unwrap() > 0, "{sql}");
}

#[test]
fn audit_entries_are_listed_and_shown() {
    let env = changed();
    let listed = env.run("audit list --json").expect(0).json();
    let newest = &listed["changes"][0];
    assert_eq!((&newest["by"], &newest["kind"]), (&"ada".into(), &"key_created".into()), "{newest}");
    let sequence = newest["sequence"].as_u64().unwrap();
    let shown = env.run(&format!("audit show {sequence}")).expect(0);
    shown.prints("created key").prints("\"person\": \"bob\"").prints(newest["hash"].as_str().unwrap());
    let stops = env.run("audit list --kind dispatch_stopped --json").expect(0).json();
    assert_eq!(stops["changes"].as_array().unwrap().len(), 1, "{stops}");
    env.run("audit show 99").expect(2).prints("`audit list`");
    env.run("audit list --kind coffee_made").expect(2).prints("possible values");
}

#[test]
fn audit_verify_names_the_first_broken_entry() {
    let env = changed();
    env.run("audit verify").expect(0).prints("verified: audit log of tenant default, ");
    let verified = env.run("audit verify --json").expect(0).json();
    assert_eq!(verified["head"]["sequence"], verified["entries"]);
    std::fs::copy(env.path("countersign.db"), env.path("honest.db")).unwrap();
    for (sql, reason) in [
        ("UPDATE audit SET body = replace(body, 'fire', 'fine')", " was altered, or belongs to another log"),
        ("DELETE FROM audit WHERE sequence = 2", "entry 2 is missing: entry 3 is in its place"),
        ("DELETE FROM audit WHERE sequence = (SELECT max(sequence) FROM audit)", "the log is truncated"),
        ("DELETE FROM audit_heads", "the head was altered"),
    ] {
        std::fs::copy(env.path("honest.db"), env.path("countersign.db")).unwrap();
        rewrite(&env, sql);
        let refused = env.run("audit verify").expect(1);
        assert!(refused.out.starts_with("refused: ") && refused.out.contains(reason), "{refused:?}");
        env.run("audit export broken.audit").expect(1).prints("is not exported");
        assert!(!env.path("broken.audit").exists());
    }
}

#[test]
fn exported_log_verifies_without_the_store() {
    let env = changed();
    env.run("audit export acme.audit").expect(0).prints("countersign audit verify --file acme.audit");
    env.run("audit export acme.audit").expect(1).prints("already exists");
    let elsewhere = CliEnv::new();
    for name in ["acme.audit", "acme.audit.pub"] {
        std::fs::copy(env.path(name), elsewhere.path(name)).unwrap();
    }
    let known = "audit verify --file acme.audit --key acme.audit.pub";
    elsewhere.run(&format!("{known} --strict")).expect(0).prints("verified: audit log of tenant default, ");
    elsewhere.run("audit verify --file acme.audit").expect(0).prints("signer not verified");
    elsewhere.run("audit verify --file acme.audit --strict").expect(1).prints("signer not verified");
    let honest = std::fs::read(elsewhere.path("acme.audit")).unwrap();
    for at in [0, honest.len() / 3, honest.len() / 2, honest.len() - 20, honest.len() - 1] {
        let mut altered = honest.clone();
        altered[at] ^= 1;
        for bytes in [&altered[..], &honest[..at]] {
            elsewhere.write("b.audit", bytes);
            let refused = elsewhere.run("audit verify --file b.audit --key acme.audit.pub").expect(1);
            assert!(refused.out.starts_with("refused: "), "byte {at}: {refused:?}");
        }
    }
    elsewhere.run("--store other.db worker --until-idle").expect(0);
    elsewhere
        .run("audit verify --file acme.audit --key other.db.pub")
        .expect(1)
        .prints("refused: the file is signed by key ");
    assert!(!elsewhere.path("countersign.db").exists(), "verification needs no store");
}

/// A user who can write to the store computes new hashes for a rewritten log. Only the exported file shows it.
#[test]
fn rewritten_log_does_not_continue_the_export() {
    let env = changed();
    env.run("audit export acme.audit").expect(0);
    env.run("dispatch stop --reason later --as ada").expect(0);
    let since = "audit verify --since acme.audit --key acme.audit.pub";
    env.run(since).expect(0).prints("verified: ");
    rewrite(&env, "DELETE FROM audit");
    rewrite(&env, "DELETE FROM audit_heads");
    for _ in 0..4 {
        env.run("dispatch stop --reason other --as eve").expect(0);
        env.run("dispatch start --as eve").expect(0);
    }
    env.run("audit verify").expect(0);
    env.run(since).expect(1).prints("the log does not continue the exported file: entry ");
}
