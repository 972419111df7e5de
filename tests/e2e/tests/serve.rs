//! `countersign serve --aws`: an account gets its first key, a server, a run, a stop, a start, a worker that is
//! asked to leave and a backout, from an operator who has nothing but the program and the account's names.
#![expect(clippy::panic, clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::process::Output;

use countersign_e2e::{Account, PATIENCE, Running, TENANT, until};
use serde_json::Value;
use tempfile::TempDir;

const WORKFLOWS: [(&str, &str); 2] = [
    (
        "plain.yaml",
        "{workflow: plain, version: 1, environment: dev, steps: [{id: a, tool: transform, with: {value: 1}}]}",
    ),
    (
        "waits.yaml",
        "{workflow: waits, version: 1, environment: dev, steps: [{id: a, tool: wait.event, with: {event: e, timeout: 9h}}]}",
    ),
];

/// An operator at a shell, with an account.
struct Operator {
    home: TempDir,
    account: Account,
}

impl Operator {
    async fn new() -> Self {
        let home = TempDir::new().unwrap();
        for (name, text) in WORKFLOWS {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        std::fs::write(home.path().join("countersign.yaml"), "server: {}\n").unwrap();
        Self { home, account: Account::open("serve").await }
    }

    fn command(&self, line: &str) -> std::process::Command {
        let mut command = self.account.countersign();
        command.current_dir(self.home.path()).env("XDG_CONFIG_HOME", self.home.path()).env("USER", "ada");
        command.args(line.split(' '));
        command
    }

    /// Types `line`; the code that it ends with, and what it says as JSON.
    fn types(&self, line: &str) -> (Option<i32>, Value) {
        self.types_with("", line)
    }

    /// The same, with a key for a server.
    fn types_with(&self, key: &str, line: &str) -> (Option<i32>, Value) {
        let mut command = self.command(line);
        let Output { status, stdout, stderr } =
            command.arg("--json").env("COUNTERSIGN_API_KEY", key).output().unwrap();
        let said = serde_json::from_slice(&stdout);
        let said = said.unwrap_or_else(|_| panic!("{line}: {status}: {}", String::from_utf8_lossy(&stderr)));
        (status.code(), said)
    }

    fn serve(&self) -> Running {
        Running::start(&mut self.command("serve --aws --config countersign.yaml --listen 127.0.0.1:0 --json"))
    }
}

/// A server of an account, and the key that opens it.
struct Server<'o> {
    operator: &'o Operator,
    running: Running,
    key: String,
}

impl Server<'_> {
    /// What `line` says, said to the server.
    fn does(&self, line: &str) -> Value {
        let line = format!("--server {} {line}", self.running.told("url"));
        let (code, said) = self.operator.types_with(&self.key, &line);
        assert_eq!(code, Some(0), "{line}: {said}");
        said
    }

    fn run(&self, workflow: &str) -> String {
        self.does(&format!("run start {workflow}"))["run"].as_str().unwrap().to_owned()
    }

    fn shows(&self, run: &str) -> Value {
        self.does(&format!("run show {run}"))
    }

    async fn until(&self, run: &str, status: &str) {
        until(status, PATIENCE, async || (self.shows(run)["status"] == status).then_some(())).await;
    }
}

#[tokio::test]
async fn an_account_gets_its_first_key_is_served_stopped_started_drained_and_backed_out() {
    let operator = Operator::new().await;
    let (code, made) = operator.types(&format!("key create ada --role admin --tenant {TENANT} --aws"));
    assert_eq!((code, &made["key"]["person"]), (Some(0), &"ada".into()), "{made}");
    let key = made["text"].as_str().unwrap().to_owned();
    let server = Server { running: operator.serve(), key, operator: &operator };
    assert!(server.running.told("store").contains("on AWS"), "{}", server.running.told("store"));
    assert_eq!(server.does("whoami")["person"], "ada");
    server.does("workflow apply plain.yaml");
    server.does("workflow apply waits.yaml");

    let (code, stopped) = operator.types("dispatch stop --all --reason fire --aws");
    assert_eq!((code, &stopped["stopped"]["by"]), (Some(0), &"ada".into()), "{stopped}");
    assert_eq!(server.does("dispatch status")["all"]["reason"], "fire");
    let run = server.run("plain");
    let shown = server.shows(&run);
    assert_eq!(shown["status"], "queued");
    assert!(shown["waits"]["why"].as_str().unwrap().contains("fire"), "{}", shown["waits"]);

    let (code, started) = operator.types("dispatch start --all --aws");
    assert_eq!((code, &started["announced"]), (Some(0), &1.into()), "{started}");
    assert_eq!(server.does("dispatch status")["stopped"], false);
    let mut worker = operator.account.worker();
    server.until(&run, "succeeded").await;

    // The server shows who works, and whoever has the account asks the worker to leave.
    let workers = server.does("worker list");
    assert_eq!(workers["workers"].as_array().unwrap().len(), 1, "{workers}");
    let name = workers["workers"][0]["worker"].as_str().unwrap();
    let (code, gone) = operator.types(&format!("worker drain {name} --reason release --aws"));
    assert_eq!(
        (code, &gone["standing"], &gone["finished"]),
        (Some(0), &"left".into(), &true.into()),
        "{gone}"
    );
    let ended = until("its leaving", PATIENCE, async || worker.ended()).await;
    assert!(ended.success(), "{ended}");
    assert_eq!(server.does("worker list")["workers"].as_array().unwrap().len(), 0);

    // Nobody works any more, and the only run that is not over waits for a person.
    let paused = server.run("waits");
    server.does(&format!("run pause {paused} --reason look"));
    assert_eq!(server.shows(&paused)["status"], "paused");
    let (code, counted) = operator.types("backout --all --reason wrong --aws");
    assert_eq!((code, &counted["under_way"]), (Some(1), &1.into()), "{counted}");
    let (code, ended) = operator.types("backout --all --reason wrong --yes --aws");
    assert_eq!((code, &ended["canceled"], &ended["done"]), (Some(0), &1.into(), &true.into()), "{ended}");
    assert_eq!(server.shows(&paused)["status"], "canceled");
    assert_eq!(operator.types("dispatch start --all --aws").0, Some(0));
    assert_eq!(server.running.leaves(), Some(0));
}
