//! `countersign serve --aws`: an operator with only the program and the resource names creates the first key, starts a
//! server, starts a run, stops and starts dispatch, drains a worker, and backs out.

use std::process::Output;

use countersign_e2e::{DeployedEnv, ServerProcess, TENANT, TIMEOUT, wait_until};
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

/// An operator's shell and environment.
struct Operator {
    home: TempDir,
    env: DeployedEnv,
}

impl Operator {
    async fn new() -> Self {
        let home = TempDir::new().unwrap();
        for (name, text) in WORKFLOWS {
            std::fs::write(home.path().join(name), text).unwrap();
        }
        std::fs::write(home.path().join("countersign.yaml"), "server: {}\n").unwrap();
        Self { home, env: DeployedEnv::open("serve").await }
    }

    fn command(&self, line: &str) -> std::process::Command {
        let mut command = self.env.countersign();
        command.current_dir(self.home.path()).env("XDG_CONFIG_HOME", self.home.path()).env("USER", "ada");
        command.args(line.split(' '));
        command
    }

    /// Runs a command line; returns the exit code and the JSON output.
    fn run(&self, line: &str) -> (Option<i32>, Value) {
        self.run_with_key("", line)
    }

    /// Like `run`, with an API key for a server.
    fn run_with_key(&self, key: &str, line: &str) -> (Option<i32>, Value) {
        let mut command = self.command(line);
        let Output { status, stdout, stderr } =
            command.arg("--json").env("COUNTERSIGN_API_KEY", key).output().unwrap();
        let output = serde_json::from_slice(&stdout);
        let output =
            output.unwrap_or_else(|_| panic!("{line}: {status}: {}", String::from_utf8_lossy(&stderr)));
        (status.code(), output)
    }

    fn serve(&self) -> ServerProcess {
        ServerProcess::start(
            &mut self.command("serve --aws --config countersign.yaml --listen 127.0.0.1:0 --json"),
        )
    }
}

/// A running server, and an API key for it.
struct Server<'o> {
    operator: &'o Operator,
    running: ServerProcess,
    key: String,
}

impl Server<'_> {
    /// Runs a command line against the server; it must succeed. Returns the JSON output.
    fn run_ok(&self, line: &str) -> Value {
        let line = format!("--server {} {line}", self.running.output("url"));
        let (code, output) = self.operator.run_with_key(&self.key, &line);
        assert_eq!(code, Some(0), "{line}: {output}");
        output
    }

    fn start(&self, workflow: &str) -> String {
        self.run_ok(&format!("run start {workflow}"))["run"].as_str().unwrap().to_owned()
    }

    fn show(&self, run: &str) -> Value {
        self.run_ok(&format!("run show {run}"))
    }

    async fn wait_until(&self, run: &str, status: &str) {
        wait_until(status, TIMEOUT, async || (self.show(run)["status"] == status).then_some(())).await;
    }
}

#[tokio::test]
async fn operator_runs_a_server_on_aws_from_first_key_to_backout() {
    let operator = Operator::new().await;
    let (code, made) = operator.run(&format!("key create ada --role admin --tenant {TENANT} --aws"));
    assert_eq!((code, &made["key"]["person"]), (Some(0), &"ada".into()), "{made}");
    let key = made["secret"].as_str().unwrap().to_owned();
    let server = Server { running: operator.serve(), key, operator: &operator };
    assert!(server.running.output("store").contains("on AWS"), "{}", server.running.output("store"));
    assert_eq!(server.run_ok("whoami")["person"], "ada");
    server.run_ok("workflow apply plain.yaml");
    server.run_ok("workflow apply waits.yaml");

    let (code, stopped) = operator.run("dispatch stop --all --reason fire --aws");
    assert_eq!((code, &stopped["stopped"]["by"]), (Some(0), &"ada".into()), "{stopped}");
    assert_eq!(server.run_ok("dispatch status")["all_tenants"]["reason"], "fire");
    let run = server.start("plain");
    let shown = server.show(&run);
    assert_eq!(shown["status"], "queued");
    assert!(shown["waiting"]["reason"].as_str().unwrap().contains("fire"), "{}", shown["waiting"]);

    let (code, started) = operator.run("dispatch start --all --aws");
    assert_eq!((code, &started["enqueued"]), (Some(0), &1.into()), "{started}");
    assert_eq!(server.run_ok("dispatch status")["stopped"], false);
    let mut worker = operator.env.worker();
    server.wait_until(&run, "succeeded").await;

    // The server lists the worker, and the operator drains it.
    let workers = server.run_ok("worker list");
    assert_eq!(workers["workers"].as_array().unwrap().len(), 1, "{workers}");
    let name = workers["workers"][0]["worker"].as_str().unwrap();
    let (code, gone) = operator.run(&format!("worker drain {name} --reason release --aws"));
    assert_eq!(
        (code, &gone["status"], &gone["drained"]),
        (Some(0), &"stopped".into(), &true.into()),
        "{gone}"
    );
    let ended = wait_until("the worker to exit", TIMEOUT, async || worker.ended()).await;
    assert!(ended.success(), "{ended}");
    assert_eq!(server.run_ok("worker list")["workers"].as_array().unwrap().len(), 0);

    // No worker runs any more, and the only active run is paused.
    let paused = server.start("waits");
    server.run_ok(&format!("run pause {paused} --reason look"));
    assert_eq!(server.show(&paused)["status"], "paused");
    let (code, counted) = operator.run("backout --all --reason wrong --aws");
    assert_eq!((code, &counted["unfinished"]), (Some(1), &1.into()), "{counted}");
    let (code, ended) = operator.run("backout --all --reason wrong --yes --aws");
    assert_eq!((code, &ended["canceled"], &ended["done"]), (Some(0), &1.into(), &true.into()), "{ended}");
    assert_eq!(server.show(&paused)["status"], "canceled");
    assert_eq!(operator.run("dispatch start --all --aws").0, Some(0));
    assert_eq!(server.running.stop(), Some(0));
}
