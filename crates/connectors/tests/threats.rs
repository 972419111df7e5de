//! Named attack cases: requests that must not be sent, and replies that must not be read.
//!
//! The tests connect only to the loopback. For public addresses they check the guard's decision.
#![expect(clippy::unwrap_used, reason = "tests and their helpers may")]

extern crate countersign_connectors as connectors;

mod support;

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::process::{Command, ExitCode};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use connectors::http::guard::{AddressGuard, HostAllowList, Resolve};
use connectors::{HttpRequest, ToolOutcome};
use domain::Failure;
use libtest_mimic::{Arguments, Trial};
use serde_json::{Value, json};
use testkit::{HttpStub, StubEnding, StubReply};
use url::Url;

use support::{attempt, perform, propose, tool};

fn main() -> ExitCode {
    let trials = vec![
        trial("169.254.169.254", || metadata("169.254.169.254")),
        trial("169.254.170.2", || metadata("169.254.170.2")),
        trial("fd00:ec2::254", || metadata("fd00:ec2::254")),
        trial("mapped_v4_in_v6", mapped_v4_in_v6),
        trial("decimal_ip", decimal_ip),
        trial("localhost_trailing_dot", localhost_trailing_dot),
        trial("dns_rebind_public_then_private", dns_rebind_public_then_private),
        trial("redirect_to_metadata", redirect_to_metadata),
        trial("userinfo_trick", userinfo_trick),
        trial("file_scheme", file_scheme),
        trial(PROXY, proxy_env_variable_set),
        trial("response_endless_stream", response_endless_stream),
        trial("header_injection_crlf_in_param", header_injection_crlf_in_param),
        trial("method_override_underscore_header", method_override_underscore_header),
    ];
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

fn trial<T: Future<Output = ()>>(name: &str, test: impl FnOnce() -> T + Send + 'static) -> Trial {
    Trial::test(name, move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(test());
        Ok(())
    })
}

/// Resolves every name to the next line of a script.
#[derive(Clone)]
struct Script(Arc<Mutex<VecDeque<Vec<IpAddr>>>>);

impl Script {
    fn of(lines: &[&[&str]]) -> Self {
        let line = |line: &&[&str]| line.iter().map(|address| address.parse().unwrap()).collect();
        Self(Arc::new(Mutex::new(lines.iter().map(line).collect())))
    }

    fn lines_left(&self) -> usize {
        self.0.lock().unwrap().len()
    }
}

#[async_trait]
impl Resolve for Script {
    async fn addresses(&self, _: &str) -> io::Result<Vec<IpAddr>> {
        Ok(self.0.lock().unwrap().pop_front().unwrap_or_default())
    }
}

fn guard(rules: &[&str], script: &Script) -> AddressGuard {
    let hosts = rules.iter().map(|rule| rule.parse().unwrap()).collect();
    AddressGuard::new(HostAllowList { hosts }, script.clone())
}

async fn admit(guard: &AddressGuard, url: &str) -> Result<Vec<SocketAddr>, String> {
    guard.admit(&url.parse::<Url>().unwrap()).await.map_err(|error| error.to_string())
}

/// Asserts that an address literal is rejected by `propose`.
fn rejected_by_propose(rules: &[&str], url: &str) -> Failure {
    let tool = HttpRequest::with_guard(guard(rules, &Script::of(&[])));
    let failure = propose(&tool, json!({"url": url})).unwrap_err();
    assert_eq!(failure.code, "HTTP_BLOCKED", "{url}: {}", failure.message);
    failure
}

/// Asserts that a name is rejected because of its address, without a retry.
async fn rejected_by_address(rules: &[&str], url: &str, address: &str) -> Failure {
    let tool = HttpRequest::with_guard(guard(rules, &Script::of(&[&[address]])));
    let action = propose(&tool, json!({"url": url, "method": "POST"})).unwrap();
    match perform(&tool, &action).await {
        ToolOutcome::Terminal(failure) => failure,
        other => unreachable_outcome(&other),
    }
}

#[expect(clippy::panic, reason = "a test fails by it")]
fn unreachable_outcome(outcome: &ToolOutcome) -> ! {
    panic!("{outcome:?}")
}

async fn metadata(address: &'static str) {
    let ip: IpAddr = address.parse().unwrap();
    let literal = if ip.is_ipv6() { format!("[{address}]") } else { address.to_owned() };
    let url = format!("http://{literal}/latest/meta-data/");
    rejected_by_propose(&[], &url);
    rejected_by_propose(&[&literal], &url);
    let failure = rejected_by_address(&[], "http://innocent.example/", address).await;
    assert!(failure.message.contains("never allowed"), "{}", failure.message);
    rejected_by_address(&["innocent.example"], "http://innocent.example/", address).await;
}

async fn mapped_v4_in_v6() {
    for literal in ["[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::ffff:7f00:1]", "[::127.0.0.1]"] {
        rejected_by_propose(&[], &format!("http://{literal}/"));
    }
    for answer in ["::ffff:10.0.0.1", "::ffff:127.0.0.1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::"] {
        rejected_by_address(&[], "http://innocent.example/", answer).await;
    }
    rejected_by_address(&["innocent.example"], "http://innocent.example/", "::ffff:169.254.169.254").await;
}

async fn decimal_ip() {
    for spelling in
        ["2852039166", "0xa9fea9fe", "0251.0376.0251.0376", "169.254.43518", "2130706433", "127.1", "0"]
    {
        rejected_by_propose(&[], &format!("http://{spelling}/"));
    }
}

async fn localhost_trailing_dot() {
    rejected_by_address(&[], "http://localhost./", "127.0.0.1").await;
    rejected_by_address(&["localhost"], "http://localhost./", "127.0.0.1").await;
    rejected_by_propose(&[], "http://127.0.0.1./");
}

async fn dns_rebind_public_then_private() {
    // A second resolution would return the private address; the guard resolves once.
    let script = Script::of(&[&["93.184.215.14"], &["127.0.0.1"]]);
    let pinned = admit(&guard(&[], &script), "http://rebind.example/").await.unwrap();
    assert_eq!(pinned, ["93.184.215.14:80".parse().unwrap()]);
    assert_eq!(script.lines_left(), 1);
    // A new request resolves again and is rejected.
    assert!(admit(&guard(&[], &script), "http://rebind.example/").await.is_err());
    let mixed = Script::of(&[&["93.184.215.14", "127.0.0.1"]]);
    assert!(admit(&guard(&[], &mixed), "http://rebind.example/").await.is_err());
    connects_to_the_first_answer().await;
}

/// The name exists only in the script; its first line is the server's address.
async fn connects_to_the_first_answer() {
    let server = HttpStub::answering(StubReply::new(200, "", ""));
    let script = Script::of(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let tool = HttpRequest::with_guard(guard(&["rebind.invalid"], &script));
    let url = format!("http://rebind.invalid:{}/", server.address().port());
    let outcome = perform(&tool, &propose(&tool, json!({ "url": url })).unwrap()).await;
    assert!(matches!(outcome, ToolOutcome::Done(_)), "{outcome:?}");
    assert_eq!(script.lines_left(), 1, "the host is resolved once");
    let host = format!("rebind.invalid:{}", server.address().port());
    assert_eq!(server.requests()[0].header("host"), Some(&*host));
}

async fn redirect_to_metadata() {
    for location in ["http://169.254.169.254/latest/meta-data/", "/again"] {
        let server = HttpStub::answering(StubReply::new(
            302,
            &format!(
                "location: {location}
"
            ),
            "",
        ));
        let action = propose(tool(), json!({"url": server.url("/")})).unwrap();
        match perform(tool(), &action).await {
            ToolOutcome::Terminal(failure) => assert!(failure.message.contains("redirects are not followed")),
            other => unreachable_outcome(&other),
        }
        assert_eq!(server.requests().len(), 1);
    }
}

async fn userinfo_trick() {
    for url in [
        "http://good.example@169.254.169.254/",
        "http://good.example:80@127.0.0.1/",
        "http://user:hunter2@good.example/",
        "http://:hunter2@good.example/",
        "http://good.example%40@127.0.0.1/",
    ] {
        let failure = rejected_by_propose(&[], url);
        assert!(failure.message.contains("user name or password"), "{}", failure.message);
        assert!(!failure.message.contains("hunter2"));
    }
    rejected_by_propose(&[], "http://127.0.0.1\\@good.example/");
    rejected_by_propose(&[], "http://@127.0.0.1/");
}

async fn file_scheme() {
    for url in ["file:///etc/passwd", "ftp://good.example/", "gopher://good.example/", "data:text/plain,x"] {
        let failure = rejected_by_propose(&[], url);
        assert!(failure.message.contains("only http and https"), "{}", failure.message);
    }
}

const PROXY: &str = "proxy_env_variable_set";
const PROXY_VARIABLES: &[&str] =
    &["HTTP_PROXY", "http_proxy", "HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"];

/// Environment variables are per process, so the test starts itself again with other ones.
async fn proxy_env_variable_set() {
    if std::env::var_os("http_proxy").is_some_and(|proxy| proxy.to_string_lossy().contains(PROXY)) {
        return with_proxy_variables().await;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", PROXY]).env_remove("NO_PROXY").env_remove("no_proxy");
    // No process listens on port 1, so a request through the proxy fails.
    child.envs(PROXY_VARIABLES.iter().map(|name| (*name, format!("http://{PROXY}@127.0.0.1:1/"))));
    assert!(child.status().unwrap().success());
}

async fn with_proxy_variables() {
    let server = HttpStub::answering(StubReply::new(200, "", ""));
    let action = propose(tool(), json!({"url": server.url("/")})).unwrap();
    let outcome = perform(tool(), &action).await;
    assert!(matches!(outcome, ToolOutcome::Done(_)), "{outcome:?}");
    assert!(server.requests()[0].header("proxy-authorization").is_none());
}

async fn response_endless_stream() {
    let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
    let fast_stream = chunks(head, Duration::ZERO);
    let slow_stream = chunks(head, Duration::from_millis(5));
    let endless_head = chunks(
        "HTTP/1.1 200 OK
",
        Duration::ZERO,
    );
    for server in [fast_stream, slow_stream, endless_head] {
        let action = propose(tool(), json!({"url": server.url("/"), "timeout": "5m"})).unwrap();
        let started = Instant::now();
        let outcome = attempt(tool(), &action, Duration::from_secs(1), false).await;
        assert!(!matches!(outcome, ToolOutcome::Done(_)), "{outcome:?}");
        assert!(started.elapsed() < Duration::from_secs(10));
    }
}

/// Sends a thousand bytes at a time: body chunks after a complete head, otherwise further headers.
fn chunks(head: &str, pause: Duration) -> HttpStub {
    let chunk = if head.ends_with("\r\n\r\n") {
        format!("3e8\r\n{}\r\n", "x".repeat(1_000))
    } else {
        format!("x: {}\r\n", "x".repeat(995))
    };
    HttpStub::answering(StubReply::raw(head).then(StubEnding::Repeat(chunk, pause)))
}

async fn header_injection_crlf_in_param() {
    let tool = HttpRequest::with_guard(guard(&[], &Script::of(&[])));
    let refused = |with: Value| {
        let failure = propose(&tool, with).unwrap_err();
        assert_eq!(failure.code, "TOOL_FIELDS", "{}", failure.message);
    };
    let url = "http://good.example/";
    for text in ["a\r\nX-Admin: 1", "a\nX-Admin: 1", "a\rb", "a\0b", "\r\n\r\nGET / HTTP/1.1"] {
        refused(json!({"url": url, "headers": {"x-param": text}}));
        refused(json!({"url": url, "headers": {text: "x"}}));
        refused(json!({"url": format!("{url}?q={text}")}));
        refused(json!({"url": url, "method": text}));
        refused(json!({"url": url, "method": "POST", "idempotency_key": text}));
    }
}

/// Approvers see a POST. Servers that turn `_` into `-` and obey the header would perform a DELETE.
async fn method_override_underscore_header() {
    let server = HttpStub::answering(StubReply::new(200, "", ""));
    let request =
        |name: &str| json!({"url": server.url("/accounts/1"), "method": "POST", "headers": {name: "DELETE"}});
    for name in [
        "X_HTTP_Method_Override",
        "x_http_method_override",
        "X-HTTP_Method-Override",
        "x_http-method",
        "X_Method_Override",
        "X-HTTP-Method-Override",
    ] {
        let failure = propose(tool(), request(name)).unwrap_err();
        assert_eq!(failure.code, "TOOL_FIELDS", "{name}: {}", failure.message);
        // The same fields as those of an action, so that a changed action is not sent either.
        let action = propose(tool(), request("x-harmless")).unwrap();
        let mut fields = action.fields.clone();
        fields["headers"] = json!({name: "DELETE"});
        let outcome = perform(tool(), &domain::Action { fields, ..action }).await;
        assert!(matches!(outcome, ToolOutcome::Terminal(_)), "{name}: {outcome:?}");
    }
    assert_eq!(server.requests(), []);
}
