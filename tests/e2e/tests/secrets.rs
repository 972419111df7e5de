//! The secrets that a worker fetches when it starts: every way in which Secrets Manager may fail it, below the SDK's own
//! tries. The functions fetch foreign_intent with the same code.
#![expect(clippy::unwrap_used, reason = "a journey fails by panicking")]

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use countersign_e2e::{Account, PATIENCE, until};
use serde_json::json;

/// What happens to one request.
#[derive(Debug, Clone, Copy)]
enum Answer {
    /// The secret.
    Given,
    /// A no, with this status and code.
    No(u16, &'static str),
    /// The line breaks before a word is said.
    Lost,
    /// It breaks in the middle of the secret.
    Cut,
    /// Nothing is said for longer than anybody waits.
    Silence,
}

/// Something that answers as it is told, the last answer again and again; and how often it was asked.
fn play(secret: &str, answers: &'static [Answer]) -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let given = json!({ "Name": "secret", "SecretString": secret }).to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let n = count.fetch_add(1, Ordering::SeqCst);
            let (answer, given) = (answers[n.min(answers.len() - 1)], given.clone());
            std::thread::spawn(move || reply(&stream, answer, &given));
        }
    });
    (url, asked)
}

fn reply(mut stream: &TcpStream, answer: Answer, given: &str) {
    let mut reader = BufReader::new(stream);
    let (mut line, mut length) = (String::new(), 0);
    while reader.read_line(&mut line).unwrap_or_default() > 0 && line != "\r\n" {
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap_or_default();
        }
        line.clear();
    }
    // Whoever asked may have given up.
    let _ = reader.read_exact(&mut vec![0; length]);
    let (status, body) = match answer {
        Answer::Given | Answer::Cut => (200, given.to_owned()),
        Answer::No(status, code) => (status, json!({ "__type": code, "message": "no" }).to_string()),
        Answer::Lost => return,
        Answer::Silence => return std::thread::sleep(PATIENCE),
    };
    let sent = if matches!(answer, Answer::Cut) { body.len() - 2 } else { body.len() };
    let head = format!(
        "HTTP/1.1 {status} X\r\nContent-Type: application/x-amz-json-1.1\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body.as_bytes()[..sent]));
}

/// Where the SDK looks for Secrets Manager.
const ENDPOINT: &str = "AWS_ENDPOINT_URL_SECRETS_MANAGER";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_sits_out_what_passes() {
    let account = Account::open("sits-out").await;
    let directory = tempfile::tempdir().unwrap();
    let rows: [(&str, &'static [Answer]); 4] = [
        ("throttle", &[Answer::No(400, "ThrottlingException"), Answer::Given]),
        ("5xx", &[Answer::No(500, "InternalServiceError"), Answer::No(503, "Unavailable"), Answer::Given]),
        ("reply lost", &[Answer::Lost, Answer::Given]),
        ("timeout", &[Answer::Silence, Answer::Given]),
    ];
    for (fault, answers) in rows {
        let (url, asked) = play(&account.secrets().to_string(), answers);
        let log = directory.path().join(fault);
        let mut process = account.worker_with(&[(ENDPOINT, &url)], File::create(&log).unwrap());
        until(fault, PATIENCE, async || {
            assert!(process.ended().is_none(), "{fault}: it gave up");
            fs::read_to_string(&log).unwrap().contains(r#""message":"started""#).then_some(())
        })
        .await;
        assert_eq!(asked.load(Ordering::SeqCst), answers.len(), "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_says_what_does_not_pass_and_nothing_of_the_secret() {
    let account = Account::open("gives-up").await;
    let rows: [(&str, &'static [Answer]); 6] = [
        ("ResourceNotFoundException: no", &[Answer::No(400, "ResourceNotFoundException")]),
        ("AccessDeniedException: no", &[Answer::No(400, "AccessDeniedException")]),
        ("ThrottlingException: no", &[Answer::No(400, "ThrottlingException")]),
        ("InternalServiceError: no", &[Answer::No(500, "InternalServiceError")]),
        ("cannot be reached, or broke off", &[Answer::Lost]),
        ("", &[Answer::Cut]),
    ];
    let secret = account.secrets().to_string();
    for (why, answers) in rows {
        let (url, _) = play(&secret, answers);
        let ended = account.worker_command(&[(ENDPOINT, &url)]).output().unwrap();
        let said = String::from_utf8_lossy(&[ended.stdout, ended.stderr].concat()).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{answers:?}: {said}");
        assert!(said.contains("fetch the secret") && said.contains(why), "{answers:?}: {said}");
        let parts = secret.split(['"', '\\']).filter(|part| part.len() > 12);
        assert_eq!(parts.filter(|part| said.contains(*part)).count(), 0, "{answers:?}: {said}");
    }
}
