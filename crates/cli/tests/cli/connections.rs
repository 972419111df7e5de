//! `connection …`.

use crate::env::CliEnv;

const CONFIG: &str = "\
connections:
  - { name: shared, kind: github, base_url: 'https://api.github.com', environment: staging }
tenants:
  acme: { secrets: ['vault://kv/acme/'] }
";

const SET: &str = "connection set sn --kind servicenow --base-url https://acme.service-now.com --tenant acme";

#[test]
fn connection_is_set_listed_and_removed() {
    let env = CliEnv::new();
    env.write("config.yaml", CONFIG);
    let set = format!("{SET} --config config.yaml --basic svc=vault://kv/acme/sn#password --as ada");
    env.run(&set)
        .expect(0)
        .prints("environment     prod")
        .prints("authentication  basic svc vault://kv/acme/sn#password")
        .prints("managed by      admin, version 1");
    env.run(&set).expect(0).prints("version 2");
    let listed = env.run("connection list --tenant acme --config config.yaml").expect(0);
    listed.prints("sn").prints("shared").prints("operator").prints("staging");
    env.run("connection show sn --tenant acme --json").expect(0).prints("vault://kv/acme/sn#password");
    env.run("connection remove sn --tenant acme").expect(0).prints("connection sn is removed");
    env.run("connection show sn --tenant acme").expect(2).prints("`connection list`");
    env.run("audit list --tenant acme")
        .expect(0)
        .prints("removed connection sn")
        .prints("added connection sn");
}

#[test]
fn refused_connection_changes_nothing() {
    let env = CliEnv::new();
    env.write("config.yaml", CONFIG);
    for (options, words) in [
        ("--bearer vault://kv/umbrella/sn#token", "vault://kv/umbrella/sn#token"),
        ("--bearer env://TOKEN", "operator has not given"),
        ("--bearer file:///proc/self/environ", "operator has not given"),
        ("--bearer hunter2", "named by a reference"),
        ("--basic svc:hunter2", "USER=REF"),
        ("--bearer vault://kv/acme/a --basic svc=vault://kv/acme/a", "cannot be used with"),
    ] {
        refuses(&env, &format!("{SET} --config config.yaml {options}"), words);
    }
    let plain = "connection set sn --kind servicenow --base-url http://sn.example --tenant acme";
    let plain = format!("{plain} --config config.yaml --bearer vault://kv/acme/a");
    refuses(&env, &plain, "must begin with `https://`");
    let operators = "connection set shared --kind github --base-url https://evil.example --tenant acme";
    refuses(&env, &format!("{operators} --config config.yaml"), "the operator configured it");
    env.run("connection list --tenant acme").expect(0).prints("no connections");
}

fn refuses(env: &CliEnv, command: &str, words: &str) {
    let refused = env.run(command);
    assert_ne!(refused.code, 0, "{command}");
    assert!(!format!("{refused:?}").contains("hunter2"), "{refused:?}");
    refused.prints(words);
}
