//! Servers by name, and where their keys are.

use std::os::unix::fs::PermissionsExt as _;

use crate::shell::Shell;

const KEY: &str =
    "csk_acme_5d41402abc4b2a76_0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn mode(shell: &Shell, name: &str, mode: u32) {
    std::fs::set_permissions(shell.path(name), std::fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn profiles_are_added_used_and_forgotten() {
    let shell = Shell::new();
    shell.run("profile list").expect(0).says("no profiles");
    shell
        .run("profile add work --url https://countersign.example --key-env WORK_KEY")
        .expect(0)
        .says("it is in use");
    shell.run("profile add test --url http://localhost:8080 --key-file test.key --for acme").expect(0);
    let listed = shell.run("profile list --json").expect(0).json();
    assert_eq!(listed["profiles"][1]["profile"], "work");
    assert_eq!(listed["profiles"][1]["used"], true);
    let key_file = shell.path("test.key");
    assert!(listed["profiles"][0]["key_file"].as_str().unwrap().ends_with("/test.key"), "{key_file:?}");
    shell.run("profile use test").expect(0).says("http://localhost:8080");
    shell.run("profile use nothing").expect(2).says("there are: test, work");
    shell.run("profile remove test").expect(0);
    shell.run("profile list").expect(0).says("work");
    shell.run("run list").expect(3).says("there is no store");
    let config = shell.path("config/countersign/config.yaml");
    assert_eq!(std::fs::metadata(config).unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn an_address_that_a_key_must_not_go_to_is_refused_at_once() {
    let shell = Shell::new();
    for url in
        ["http://countersign.example", "ftp://countersign.example", "https://ada:pw@countersign.example"]
    {
        shell.run(&format!("profile add work --url {url}")).expect(2).says("cannot be used");
    }
    shell.run("run list --server http://countersign.example").expect(2);
}

#[test]
fn a_key_that_others_can_read_is_not_used_and_never_told() {
    let shell = Shell::new();
    shell.write("work.key", KEY);
    mode(&shell, "work.key", 0o644);
    shell.run("profile add work --url http://127.0.0.1:9 --key-file work.key").expect(0);
    shell.run("run list").expect(2).says("others can read it").says("chmod 600");
    mode(&shell, "work.key", 0o600);
    // Nobody listens there.
    let gone = shell.run("run list").expect(3).says("cannot be reached");
    assert!(!gone.err.contains("csk_"), "{gone:?}");
    shell.run("run list --tenant umbrella").expect(2).says("the key is for tenant acme, not for umbrella");
    shell.write("work.key", "two words");
    let bad = shell.run("run list").expect(2).says("holds no key");
    assert!(!bad.err.contains("two words"), "{bad:?}");
}

#[test]
fn a_profile_with_a_place_of_its_own_is_sent_no_other_key() {
    let shell = Shell::new();
    shell.run("profile add work --url http://127.0.0.1:9 --key-env WORK_KEY").expect(0);
    let mut command = shell.command("run list --profile work");
    let output = command.env("COUNTERSIGN_API_KEY", KEY).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("the variable WORK_KEY is not set"));
}

#[test]
fn what_is_typed_comes_before_the_environment_and_that_before_the_profile_in_use() {
    let shell = Shell::new();
    shell.run("profile add work --url http://127.0.0.1:9 --key-env WORK_KEY").expect(0);
    shell.run("run list").expect(2).says("WORK_KEY");
    shell.run("run list --store a.db").expect(3).says("there is no store a.db");
    shell.run("run list --store a.db --profile work").expect(2).says("cannot be used with");
    let with = |name: &str, value: &str| {
        let output = shell.command("run list").env(name, value).output().unwrap();
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(with("COUNTERSIGN_STORE", "b.db").contains("there is no store b.db"));
    assert!(with("COUNTERSIGN_PROFILE", "other").contains("there is no profile other"));
    shell.run("profile use --none").expect(0);
    shell.run("run list").expect(3).says("there is no store countersign.db");
}
