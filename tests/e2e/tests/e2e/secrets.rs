//! The secrets that a worker fetches at start: every fault of Secrets Manager, below the retries of the SDK. The functions
//! fetch theirs with the same code.

use std::fs::{self, File};
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_e2e::{DeployedEnv, TIMEOUT, wait_until};
use serde_json::json;
use testkit::{HttpStub, StubEnding, StubReply};

/// The reply to one request.
#[derive(Debug, Clone, Copy)]
enum Answer {
    Secret,
    /// An error with this status and code.
    Error(u16, &'static str),
    /// The connection closes without a reply.
    Lost,
    /// The connection closes in the middle of the secret.
    Cut,
    /// No reply until the client times out.
    Silence,
}

/// A server that gives these answers in order and repeats the last one.
fn serve(secret: &str, answers: &'static [Answer]) -> HttpStub {
    let count = AtomicUsize::new(0);
    let body = json!({ "Name": "secret", "SecretString": secret }).to_string();
    HttpStub::start(move |_| {
        let n = count.fetch_add(1, Ordering::SeqCst);
        reply(answers[n.min(answers.len() - 1)], &body)
    })
}

fn reply(answer: Answer, body: &str) -> StubReply {
    let complete = |status, body: &str| {
        StubReply::new(
            status,
            "content-type: application/x-amz-json-1.1
",
            body,
        )
    };
    match answer {
        Answer::Secret => complete(200, body),
        Answer::Cut => complete(200, body).cut(),
        Answer::Error(status, code) => {
            complete(status, &json!({ "__type": code, "message": "no" }).to_string())
        }
        Answer::Lost => StubReply::none(),
        Answer::Silence => StubReply::none().then(StubEnding::Stall),
    }
}

/// The variable with the address of Secrets Manager.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_SECRETS_MANAGER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_retries_transient_secret_errors() {
    let env = DeployedEnv::open("retries").await;
    let directory = tempfile::tempdir().unwrap();
    let rows: [(&str, &'static [Answer]); 4] = [
        ("throttle", &[Answer::Error(400, "ThrottlingException"), Answer::Secret]),
        (
            "5xx",
            &[Answer::Error(500, "InternalServiceError"), Answer::Error(503, "Unavailable"), Answer::Secret],
        ),
        ("reply lost", &[Answer::Lost, Answer::Secret]),
        ("timeout", &[Answer::Silence, Answer::Secret]),
    ];
    for (fault, answers) in rows {
        let server = serve(&env.secrets().to_string(), answers);
        let log = directory.path().join(fault);
        let mut process = env.worker_with(&[(ENDPOINT, &server.url(""))], File::create(&log).unwrap());
        wait_until(fault, TIMEOUT, async || {
            assert!(process.ended().is_none(), "{fault}: the worker exited");
            fs::read_to_string(&log).unwrap().contains(r#""event":"worker_started""#).then_some(())
        })
        .await;
        assert_eq!(server.requests().len(), answers.len(), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_reports_secret_errors_without_the_secret() {
    let env = DeployedEnv::open("secret-errors").await;
    let rows: [(&str, &'static [Answer]); 6] = [
        ("ResourceNotFoundException: no", &[Answer::Error(400, "ResourceNotFoundException")]),
        ("AccessDeniedException: no", &[Answer::Error(400, "AccessDeniedException")]),
        ("ThrottlingException: no", &[Answer::Error(400, "ThrottlingException")]),
        ("InternalServiceError: no", &[Answer::Error(500, "InternalServiceError")]),
        ("the connection failed", &[Answer::Lost]),
        ("", &[Answer::Cut]),
    ];
    let secret = env.secrets().to_string();
    for (why, answers) in rows {
        let server = serve(&secret, answers);
        let ended = env.worker_command(&[(ENDPOINT, &server.url(""))]).output().unwrap();
        let output = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{answers:?}: {output}");
        assert!(output.contains("fetch the secret") && output.contains(why), "{answers:?}: {output}");
        let parts = secret.split(['"', '\\']).filter(|part| part.len() > 12);
        assert_eq!(parts.filter(|part| output.contains(*part)).count(), 0, "{answers:?}: {output}");
    }
}
