//! `countersign serve`.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::env::CliEnv;

/// Every wait takes well under a second, more on a busy machine.
const WAIT_MAX: Duration = Duration::from_secs(30);

const POLL_EVERY: Duration = Duration::from_millis(20);

/// Two webhook endpoints, and sessions that survive a restart.
const CONFIG: &str = "
connections:
  - { tenant: acme, name: slack, kind: slack, base_url: 'https://slack.com/api',
      credential: { type: bearer, token: 'env://SLACK_TOKEN' },
      options: { channel: C0APPROVALS, signing_secret: 'env://SLACK_SECRET' } }
server:
  session_secret_env: SESSION_SECRET
  sources:
    - { tenant: acme, source: webhook, scheme: hmac, secret_env: WEBHOOK_SECRET }
";

/// What the variables hold that the configuration names.
const SECRETS: [(&str, &str); 4] = [
    ("SLACK_TOKEN", "xoxb-unused"),
    ("SLACK_SECRET", "what this Slack signs with"),
    ("SESSION_SECRET", "0123456789abcdef0123456789abcdef"),
    ("WEBHOOK_SECRET", "what this system signs with"),
];

/// Every webhook starts a run.
const ON_WEBHOOK: &str = "
workflow: noted
version: 1
environment: dev
trigger: { webhook: {} }
steps:
  - { id: note, tool: transform, with: { value: 1 } }
";

/// `countersign serve`, running.
struct Server {
    child: Child,
    /// The JSON that it printed at startup.
    info: Value,
}

impl Server {
    fn start(env: &CliEnv, options: &str) -> Self {
        Self::start_with(env, CONFIG, options)
    }

    fn start_with(env: &CliEnv, config: &str, options: &str) -> Self {
        env.write("countersign.yaml", config);
        let line = format!("serve --config countersign.yaml --listen 127.0.0.1:0 --json {options}");
        Self::spawn(env, env.command(&line))
    }

    /// A server with a metrics port that may open this many files.
    fn start_limited(env: &CliEnv, descriptors: u32) -> Self {
        env.write("countersign.yaml", CONFIG);
        let ports = "--listen 127.0.0.1:0 --metrics 127.0.0.1:0";
        let serve = env.command(&format!("serve --config countersign.yaml {ports} --json"));
        let mut shell = with_program(&serve, "sh");
        shell.arg("-c").arg(format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""));
        shell.arg(serve.get_program()).args(serve.get_args());
        Self::spawn(env, shell)
    }

    fn spawn(env: &CliEnv, mut command: Command) -> Self {
        let log = std::fs::File::create(env.path("server.log")).unwrap();
        let mut child = command.envs(SECRETS).stdout(Stdio::piped()).stderr(log).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Self { info: serde_json::from_str(&line).unwrap(), child }
    }

    fn url(&self) -> &str {
        self.info["url"].as_str().unwrap()
    }

    fn address(&self) -> &str {
        self.url().trim_start_matches("http://")
    }

    fn open(&self, request: &str) -> TcpStream {
        open_at(self.address(), request)
    }

    fn send_request(&self, head: &str, body: &str) -> String {
        let host = self.address();
        let (length, first) = (body.len(), head.trim_end());
        let head =
            format!("{first}\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n");
        all(self.open(&(head + body)))
    }

    fn get(&self, path: &str, header: &str) -> String {
        self.send_request(&format!("GET {path} HTTP/1.1\r\n{header}"), "")
    }

    fn metrics_address(&self) -> &str {
        let url = self.info["metrics"].as_str().unwrap();
        url.trim_start_matches("http://").trim_end_matches("/metrics")
    }

    /// The response of the metrics endpoint.
    fn metrics(&self) -> String {
        let host = self.metrics_address();
        all(open_at(host, &format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n")))
    }

    fn signal(&self) {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).unwrap()).unwrap();
        kill_process(pid, Signal::TERM).unwrap();
    }

    /// Waits for the exit code.
    fn exit_code(mut self) -> Option<i32> {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(began.elapsed() < WAIT_MAX, "the server does not end");
            std::thread::sleep(POLL_EVERY);
        }
    }

    /// Waits until the port is closed.
    fn wait_until_closed(&self) {
        let began = Instant::now();
        while TcpStream::connect(self.address()).is_ok() {
            assert!(began.elapsed() < WAIT_MAX, "the server goes on listening");
            std::thread::sleep(POLL_EVERY);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `program` in the directory and with the environment of `command`.
fn with_program(command: &Command, program: &str) -> Command {
    let mut other = Command::new(program);
    other.current_dir(command.get_current_dir().unwrap());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => other.env(name, value),
            None => other.env_remove(name),
        };
    }
    other
}

/// Sends `request`, which may be incomplete.
fn open_at(address: &str, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

fn all(mut stream: TcpStream) -> String {
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply
}

/// A key of ada, an admin of acme.
fn key(env: &CliEnv) -> String {
    key_of(env, "acme", "admin")
}

fn key_of(env: &CliEnv, tenant: &str, role: &str) -> String {
    let made = env.run(&format!("--tenant {tenant} key create ada --role {role} --json")).expect(0).json();
    made["secret"].as_str().unwrap().to_owned()
}

/// Delivers `body` signed with `secret`.
fn deliver(server: &Server, secret: &str, body: &str) -> String {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let secs = now.as_secs().to_string();
    let signature = signing::sign(&secret.into(), &secs, body.as_bytes());
    let head = format!(
        "POST /webhook/webhook/acme HTTP/1.1\r\nContent-Type: application/json\r\n\
         X-Countersign-Timestamp: {secs}\r\nX-Countersign-Signature: {signature}"
    );
    server.send_request(&head, body)
}

/// Logs in with `key`; returns the response.
fn log_in(server: &Server, key: &str) -> String {
    let head = "POST /login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded";
    server.send_request(head, &format!("key={key}&next=/runs"))
}

fn cookie(answer: &str) -> &str {
    let (_, set) = answer.split_once("set-cookie: ").expect(answer);
    set.split("\r\n").next().unwrap()
}

#[test]
fn signed_webhook_starts_a_run() {
    let env = CliEnv::new();
    env.write("noted.yaml", ON_WEBHOOK);
    let key = key(&env);
    let server = Server::start(&env, "--metrics 127.0.0.1:0");
    assert!(server.get("/healthz", "").starts_with("HTTP/1.1 200"));
    let me = server.get("/api/v1/me", &format!("Authorization: Bearer {key}"));
    assert!(me.starts_with("HTTP/1.1 200") && me.contains("\"ada\""), "{me}");
    assert!(server.get("/api/v1/me", "").starts_with("HTTP/1.1 401"));
    assert!(server.get("/", "").contains("location: /login"));
    assert!(server.get("/dev", "").starts_with("HTTP/1.1 404"), "a server has no fake systems");

    env.run("--tenant acme workflow apply noted.yaml").expect(0);
    let forged = deliver(&server, "a wrong secret", r#"{"what":"a"}"#);
    assert!(forged.starts_with("HTTP/1.1 401"), "{forged}");
    let accepted = deliver(&server, "what this system signs with", r#"{"what":"a"}"#);
    assert!(accepted.starts_with("HTTP/1.1 202"), "{accepted}");
    let run: Value = serde_json::from_str(accepted.split_once("\r\n\r\n").unwrap().1).unwrap();
    let run = run["run"].as_str().unwrap();

    let again = deliver(&server, "what this system signs with", r#"{"what":"a"}"#);
    assert!(again.starts_with("HTTP/1.1 202"), "{again}");
    let counted = server.metrics();
    let hit = r#"countersign_idempotency_hits_total{tenant="acme",source="webhook"} 1"#;
    assert!(counted.contains("text/plain; version=0.0.4") && counted.contains(hit), "{counted}");
    assert!(server.get("/metrics", "").starts_with("HTTP/1.1 404"), "metrics are not on the public port");

    let mut worker = env.command("worker --config countersign.yaml --until-idle");
    assert!(worker.envs(SECRETS).status().unwrap().success(), "the worker reads the same file");
    let list = format!("run list --json --server {}", server.url());
    let mut list = env.command(&list);
    let listed = list.env("COUNTERSIGN_API_KEY", &key).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.contains(run) && listed.contains("succeeded"), "{listed}");
    server.signal();
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn unsigned_slack_requests_get_one_response() {
    let env = CliEnv::new();
    let server = Server::start(&env, "");
    let replies: Vec<String> = ["interactions/acme", "commands/acme", "interactions/umbrella", "commands/.."]
        .into_iter()
        .map(|path| server.send_request(&format!("POST /slack/{path} HTTP/1.1"), "payload={}"))
        .collect();
    let body = |reply: &str| reply.split_once("\r\n\r\n").unwrap().1.to_owned();
    for reply in &replies {
        assert!(reply.starts_with("HTTP/1.1 401"), "{reply}");
        assert_eq!(body(reply), body(&replies[0]));
    }
}

#[test]
fn cookies_are_secure_behind_tls() {
    let env = CliEnv::new();
    let key = key(&env);
    let plain = log_in(&Server::start(&env, ""), &key);
    assert!(cookie(&plain).starts_with("countersign=") && !cookie(&plain).contains("Secure"), "{plain}");
    let secured = log_in(&Server::start(&env, "--behind-tls"), &key);
    let cookie = cookie(&secured);
    assert!(cookie.starts_with("__Host-countersign=") && cookie.contains("; Secure"), "{secured}");
    assert!(secured.contains("strict-transport-security: max-age="), "{secured}");
    assert!(!plain.contains("strict-transport-security"), "{plain}");
}

#[test]
fn dry_run_judges_hosts_as_the_worker_does() {
    let env = CliEnv::new();
    let key = key(&env);
    let request = r#"{"action": {"tool": "http.request", "environment": "dev", "with": {"method": "POST", "url": "http://127.0.0.1:8080/"}}}"#;
    let head = format!(
        "POST /api/v1/policy/explain HTTP/1.1\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json"
    );
    for (options, fails) in [("", true), ("--allow-host 127.0.0.1:8080", false)] {
        let server = Server::start(&env, options);
        let reply = server.send_request(&head, request);
        assert!(reply.starts_with("HTTP/1.1 200"), "{reply}");
        assert_eq!(reply.contains("an operator can allow this host"), fails, "{reply}");
    }
}

#[test]
fn ambiguous_requests_are_refused() {
    let env = CliEnv::new();
    let server = Server::start(&env, "");
    let chunked = "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n";
    let good = format!("POST /healthz HTTP/1.1\r\nHost: a\r\n{chunked}");
    assert!(all(server.open(&good)).starts_with("HTTP/1.1 405"), "a chunked request is valid");
    for bad in [
        format!("POST /healthz HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n{chunked}"),
        good.replacen("Connection: close\r\n", "Connection: close\n", 1),
        "GET /healthz HTTP/1.1\nHost: a\n\n".to_owned(),
    ] {
        let reply = all(server.open(&bad));
        assert!(reply.starts_with("HTTP/1.1 400"), "{bad:?}: {reply}");
    }
}

#[test]
fn session_survives_a_restart_with_its_secret() {
    let env = CliEnv::new();
    let key = key(&env);
    let first = Server::start(&env, "");
    let answer = log_in(&first, &key);
    let session = cookie(&answer).split(';').next().unwrap();
    drop(first);
    let again = Server::start(&env, "");
    let page = again.get("/runs", &format!("Cookie: {session}"));
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
}

/// An incomplete login request; the server waits for the key.
fn start_incomplete_login(server: &Server, key_bytes: usize) -> TcpStream {
    let mut stream = server.open(&format!(
        "POST /login HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-www-form-urlencoded\r\n\
         Content-Length: {}\r\nExpect: 100-continue\r\n\r\n",
        server.address(),
        key_bytes + 4
    ));
    let mut response = [0; 25];
    stream.read_exact(&mut response).unwrap();
    assert_eq!(&response, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"key=").unwrap();
    stream
}

#[test]
fn open_request_finishes_during_drain() {
    let env = CliEnv::new();
    let key = key(&env);
    let server = Server::start(&env, "--drain 60s");
    let mut under_way = start_incomplete_login(&server, key.len());
    // A live stream does not end by itself and does not block the shutdown.
    let mut listening = BufReader::new(server.open(&format!(
        "GET /api/v1/stream HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n",
        server.address()
    )));
    let mut first = String::new();
    listening.read_line(&mut first).unwrap();
    assert!(first.starts_with("HTTP/1.1 200"), "{first}");

    server.signal();
    server.wait_until_closed();
    under_way.write_all(key.as_bytes()).unwrap();
    let answer = all(under_way);
    assert!(answer.starts_with("HTTP/1.1 303"), "{answer}");
    assert_eq!(server.exit_code(), Some(0));
}

#[test]
fn slowloris_half_requests() {
    let env = CliEnv::new();
    let key = key(&env);
    let halves = [
        "GET /healthz HTTP/1.1\r\nHost: a\r\n",
        "POST /webhook/webhook/acme HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf",
    ];
    for half in halves {
        let server = Server::start_limited(&env, 256);
        let _open: Vec<TcpStream> = (0..300).map(|_| server.open(half)).collect();
        let health = server.get("/healthz", "");
        assert!(health.starts_with("HTTP/1.1 200"), "{health}");
        let runs = server.get("/api/v1/runs", &format!("Authorization: Bearer {key}"));
        assert!(runs.starts_with("HTTP/1.1 200"), "{runs}");
        let log = std::fs::read_to_string(env.path("server.log")).unwrap();
        assert_eq!(log.matches("connections_exhausted").count(), 1, "{log}");
    }
}

/// A stream holds its connection and cannot be closed in favor of another client.
#[test]
fn streams_of_a_key_leave_connections() {
    const OF_A_TENANT: usize = 20;
    let env = CliEnv::new();
    let (viewer, other) = (key_of(&env, "acme", "viewer"), key_of(&env, "umbrella", "viewer"));
    let upgrade = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n\
                   Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";
    let events = "Accept: text/event-stream\r\n";
    let server = Server::start_limited(&env, 256);
    let open_stream = |kind: &str, key: &str| {
        let head = "GET /api/v1/stream HTTP/1.1\r\nHost: a\r\n";
        let mut stream = server.open(&format!("{head}Authorization: Bearer {key}\r\n{kind}\r\n"));
        let mut received = [0; 2_048];
        let length = stream.read(&mut received).unwrap();
        (String::from_utf8_lossy(&received[..length]).into_owned(), stream)
    };
    let streams: Vec<_> =
        (0..100).flat_map(|_| [events, upgrade]).map(|kind| open_stream(kind, &viewer)).collect();
    let (refused, open): (Vec<_>, Vec<_>) =
        streams.iter().map(|(head, _)| head).partition(|head| head.starts_with("HTTP/1.1 503"));
    assert_eq!(open.len(), OF_A_TENANT, "{open:?}");
    for head in refused {
        assert!(head.contains("retry-after:") && head.contains("TOO_MANY_LISTENERS"), "{head}");
    }

    let health = server.get("/healthz", "");
    assert!(health.starts_with("HTTP/1.1 200"), "{health}");
    let runs = server.get("/api/v1/runs", &format!("Authorization: Bearer {other}"));
    assert!(runs.starts_with("HTTP/1.1 200"), "{runs}");
    let (head, _stream) = open_stream(events, &other);
    assert!(head.starts_with("HTTP/1.1 200"), "{head}");
}

#[test]
fn half_requests_to_the_metrics_port_do_not_stop_a_server() {
    let env = CliEnv::new();
    let key = key(&env);
    let server = Server::start_limited(&env, 256);
    let half = "GET /metrics HTTP/1.1\r\nHost: a\r\n";
    let _open: Vec<TcpStream> = (0..300).map(|_| open_at(server.metrics_address(), half)).collect();
    let _open_here: Vec<TcpStream> = (0..300).map(|_| server.open(half)).collect();
    let runs = server.get("/api/v1/runs", &format!("Authorization: Bearer {key}"));
    assert!(runs.starts_with("HTTP/1.1 200"), "{runs}");
    let metrics = server.metrics();
    assert!(metrics.starts_with("HTTP/1.1 200"), "{metrics}");
    let log = std::fs::read_to_string(env.path("server.log")).unwrap();
    assert_eq!(log.matches("connections_exhausted").count(), 2, "each port has a limit of its own: {log}");
}

#[test]
fn drain_timeout_cuts_off_requests() {
    let env = CliEnv::new();
    let server = Server::start(&env, "--drain 50ms");
    let _under_way = start_incomplete_login(&server, 10);
    server.signal();
    assert_eq!(server.exit_code(), Some(1));
    let log = std::fs::read_to_string(env.path("server.log")).unwrap();
    assert!(log.contains("cut off"), "{log}");
}

#[test]
fn api_key_login_works_without_the_provider() {
    let env = CliEnv::new();
    let key = key(&env);
    // No process listens there.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let oidc = format!(
        "  oidc:\n    issuer: 'http://{gone}'\n    claims: {{ tenant: org, person: sub, roles: roles }}\n    \
         audience: us\n    login: {{ name: Example, client_id: us, url: 'http://127.0.0.1:1' }}\n"
    );
    let server = Server::start_with(&env, &format!("{CONFIG}{oidc}"), "");
    let page = server.get("/login?next=/runs", "");
    assert!(page.contains("<a href=\"/login/oidc?next=/runs\">Log in with Example</a>"), "{page}");
    let refused = server.get("/login/oidc", "");
    assert!(
        refused.starts_with("HTTP/1.1 503") && refused.contains("Example does not respond."),
        "{refused}"
    );
    assert!(log_in(&server, &key).starts_with("HTTP/1.1 303"));
    // A token with an empty payload.
    let token = server.get("/api/v1/me", "Authorization: Bearer eyJhbGciOiJSUzI1NiIsImtpZCI6ImEifQ.e30.aa");
    assert!(token.starts_with("HTTP/1.1 503"), "{token}");
}

#[test]
fn serve_errors_name_the_fix() {
    let env = CliEnv::new();
    env.write("countersign.yaml", CONFIG);
    let open = env.run("serve --config countersign.yaml --listen 0.0.0.0:0").expect(2);
    open.prints("--behind-tls").prints("127.0.0.1");
    env.run("serve --config countersign.yaml").expect(2).prints("SESSION_SECRET, which is not set");
    env.run("serve --config gone.yaml").expect(2).prints("gone.yaml");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut command =
        env.command(&format!("serve --config countersign.yaml --listen {}", taken.local_addr().unwrap()));
    let answer = command.envs(SECRETS).output().unwrap();
    assert_eq!(answer.status.code(), Some(2));
    assert!(String::from_utf8(answer.stderr).unwrap().contains("--listen"));
    env.run(&format!("worker --metrics {}", taken.local_addr().unwrap())).expect(2).prints("--metrics");
    let bad = CONFIG.replace("scheme: hmac", "scheme: github");
    env.write("bad.yaml", bad);
    let answer = env.command("serve --config bad.yaml").envs(SECRETS).output().unwrap();
    let error = String::from_utf8(answer.stderr).unwrap();
    assert!(error.contains("webhook of tenant acme") && !error.contains("signs with"), "{error}");
}
