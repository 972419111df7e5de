//! `profile …` and API keys.

use std::os::unix::fs::PermissionsExt as _;

use crate::env::CliEnv;

const KEY: &str =
    "csk_acme_5d41402abc4b2a76_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn mode(env: &CliEnv, name: &str, mode: u32) {
    std::fs::set_permissions(env.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn profiles_are_added_selected_and_removed() {
    let env = CliEnv::new();
    env.run("profile list").expect(0).prints("no profiles");
    env.run("profile add work --url https://countersign.example --key-env WORK_KEY")
        .expect(0)
        .prints("make it the default with: countersign profile use work");
    // A command without a profile still uses the store.
    env.run("run list").expect(3).prints("countersign.db does not exist");
    env.run("profile use work").expect(0);
    env.run("profile add test --url http://localhost:8080 --key-file test.key --for acme").expect(0);
    let listed = env.run("profile list --json").expect(0).json();
    assert_eq!(listed["profiles"][1]["profile"], "work");
    assert_eq!(listed["profiles"][1]["default"], true);
    let key_file = env.path("test.key");
    assert!(listed["profiles"][0]["key_file"].as_str().unwrap().ends_with("/test.key"), "{key_file:?}");
    env.run("profile use test").expect(0).prints("http://localhost:8080");
    env.run("profile use nothing").expect(2).prints("existing profiles: test, work");
    env.run("profile remove test").expect(0);
    env.run("profile list").expect(0).prints("work");
    env.run("run list").expect(3).prints("countersign.db does not exist");
    let config = env.path("config/countersign/config.yaml");
    assert_eq!(std::fs::metadata(config).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn insecure_server_url_is_refused() {
    let env = CliEnv::new();
    for url in
        ["http://countersign.example", "ftp://countersign.example", "https://ada:pw@countersign.example"]
    {
        env.run(&format!("profile add work --url {url}")).expect(2).prints("cannot be used");
    }
    env.run("run list --server http://countersign.example").expect(2);
}

#[test]
fn key_readable_by_others_is_not_used() {
    let env = CliEnv::new();
    env.write("work.key", KEY);
    mode(&env, "work.key", 0o644);
    env.run("profile add work --url http://127.0.0.1:9 --key-file work.key").expect(0);
    env.run("profile use work").expect(0);
    env.run("run list").expect(2).prints("other users can read it").prints("chmod 600");
    mode(&env, "work.key", 0o600);
    // No process listens there.
    let gone = env.run("run list").expect(3).prints("cannot be reached");
    assert!(!gone.err.contains("csk_"), "{gone:?}");
    env.run("run list --tenant umbrella").expect(2).prints("the key is for tenant acme, not for umbrella");
    env.write("work.key", "two words");
    let bad = env.run("run list").expect(2).prints("contains no API key");
    assert!(!bad.err.contains("two words"), "{bad:?}");
}

#[test]
fn profile_key_location_is_exclusive() {
    let env = CliEnv::new();
    env.run("profile add work --url http://127.0.0.1:9 --key-env WORK_KEY").expect(0);
    let mut command = env.command("run list --profile work");
    let output = command.env("COUNTERSIGN_API_KEY", KEY).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the variable WORK_KEY is not set"));
}

#[test]
fn target_precedence_is_options_env_profile() {
    let env = CliEnv::new();
    env.run("profile add work --url http://127.0.0.1:9 --key-env WORK_KEY").expect(0);
    env.run("profile use work").expect(0);
    env.run("run list").expect(2).prints("WORK_KEY");
    env.run("run list --store a.db").expect(3).prints("the store a.db does not exist");
    env.run("run list --store a.db --profile work").expect(2).prints("cannot be used with");
    let with = |name: &str, value: &str| {
        let output = env.command("run list").env(name, value).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(with("COUNTERSIGN_STORE", "b.db").contains("the store b.db does not exist"));
    assert!(with("COUNTERSIGN_PROFILE", "other").contains("profile other does not exist"));
    env.run("profile use --none").expect(0);
    env.run("run list").expect(3).prints("the store countersign.db does not exist");
}
