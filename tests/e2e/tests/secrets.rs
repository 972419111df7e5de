//! The secrets that a worker fetches at start: every fault of Secrets Manager, below the retries of the SDK. The functions
//! fetch theirs with the same code.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_e2e::{TIMEOUT, TestEnv, wait_until};
use serde_json::json;

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

/// A server that gives these answers in order and repeats the last one; returns its address and the number of requests.
fn serve(secret: &str, answers: &'static [Answer]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let requests = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&requests);
    let body = json!({ "Name": "secret", "SecretString": secret }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let n = count.fetch_add(1, Ordering::SeqCst);
            let (answer, body) = (answers[n.min(answers.len() - 1)], body.clone());
            std::thread::spawn(move || reply(&stream, answer, &body));
        }
    });
    (url, requests)
}

fn reply(mut stream: &TcpStream, answer: Answer, body: &str) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap_or_default() > 0 && line != "\r\n" {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    // The client may have closed the connection.
    let _ = reader.read_exact(&mut vec![0; length]);
    let (status, body) = match answer {
        Answer::Secret | Answer::Cut => (200, body.to_owned()),
        Answer::Error(status, code) => (status, json!({ "__type": code, "message": "no" }).to_string()),
        Answer::Lost => return,
        Answer::Silence => return std::thread::sleep(TIMEOUT),
    };
    let sent = if matches!(answer, Answer::Cut) { body.len() - 2 } else { body.len() };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body.as_bytes()[..sent]));
}

/// The variable with the address of Secrets Manager.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_SECRETS_MANAGER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_retries_transient_secret_errors() {
    let env = TestEnv::open("retries").await;
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
        let (url, requests) = serve(&env.secrets().to_string(), answers);
        let log = directory.path().join(fault);
        let mut process = env.worker_with(&[(ENDPOINT, &url)], File::create(&log).unwrap());
        wait_until(fault, TIMEOUT, async || {
            assert!(process.ended().is_none(), "{fault}: the worker exited");
            fs::read_to_string(&log).unwrap().contains(r#""event":"worker_started""#).then_some(())
        })
        .await;
        assert_eq!(requests.load(Ordering::SeqCst), answers.len(), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn worker_reports_secret_errors_without_the_secret() {
    let env = TestEnv::open("secret-errors").await;
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
        let (url, _) = serve(&secret, answers);
        let ended = env.worker_command(&[(ENDPOINT, &url)]).output().unwrap();
        let output = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{answers:?}: {output}");
        assert!(output.contains("fetch the secret") && output.contains(why), "{answers:?}: {output}");
        let parts = secret.split(['"', '\\']).filter(|part| part.len() > 12);
        assert_eq!(parts.filter(|part| output.contains(*part)).count(), 0, "{answers:?}: {output}");
    }
}
