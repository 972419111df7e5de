//! Errors of commands: the message, its causes, the remedy and the exit code.

use std::borrow::Cow;
use std::error::Error;
use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use client::{ClientError, Problem};
use domain::Refusal;
use domain::id::InvalidId;
use domain::json::InvalidJson;
use domain::refusal::NotApprover;
use engine::EngineError;
use serde_json::{Value, json};
use store::StoreError;
use workflow::SourcePosition;

use crate::escape::{json_line, sanitize};
use crate::process::ExitStatus;
use views::hint::quoted;

#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    #[error("{}", engine_message(.0))]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It is unknown whether the run with this key was started.
    #[error("{source}")]
    MaybeStarted { source: Box<ClientError>, key: String },
    #[error("the store did not respond")]
    Store(#[from] StoreError),
    #[error("cannot open the store {}", .path.display())]
    OpenStore {
        path: PathBuf,
        #[source]
        source: StoreError,
    },
    #[error("the store {} does not exist", .path.display())]
    NoStore { path: PathBuf },
    #[error("cannot read {}", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("{what} is larger than {bytes_max} bytes")]
    TooLarge { what: String, bytes_max: usize },
    #[error("{} is not UTF-8 text", .path.display())]
    NotText { path: PathBuf },
    /// `rendered` is the parse error with its location and an excerpt of the file.
    #[error("{}, {rendered}", .path.display())]
    InvalidWorkflow { path: PathBuf, location: SourcePosition, rendered: String },
    /// Each invalid file was already reported.
    #[error("{invalid} of {total} files are invalid")]
    InvalidFiles { invalid: usize, total: usize },
    /// `rendered` is the parse error with its location and an excerpt of the file.
    #[error("{rendered}")]
    InvalidPolicy { location: Option<policy::PolicyLocation>, rendered: String },
    #[error("{0}")]
    Refused(String),
    /// The value is not JSON, or is JSON that parsers read differently.
    #[error(
        "{what} is not valid JSON; write it as in '{{\"ticket\": \"INC-7\"}}', with names in double quotes"
    )]
    BadJson {
        what: String,
        #[source]
        source: InvalidJson,
    },
    #[error(transparent)]
    Id(#[from] InvalidId),
    #[error("{} is not a usable key: {why}", .path.display())]
    Key { path: PathBuf, why: String },
    #[error("{0}")]
    Usage(String),
    #[error("cannot start {what}")]
    Start {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    #[error("the demo stopped: {0}")]
    Demo(String),
    #[error("cannot write {}", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("cannot write to standard output")]
    Print(#[source] io::Error),
}

impl CliError {
    pub(crate) fn exit_status(&self) -> ExitStatus {
        match self {
            Self::Engine(error) => engine_exit_status(error),
            Self::Client(error) => client_exit_status(error),
            Self::MaybeStarted { source, .. } => client_exit_status(source),
            Self::Store(_) | Self::OpenStore { .. } | Self::NoStore { .. } => ExitStatus::Unavailable,
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::InvalidWorkflow { .. }
            | Self::InvalidFiles { .. }
            | Self::InvalidPolicy { .. }
            | Self::BadJson { .. }
            | Self::Id(_)
            | Self::Key { .. }
            | Self::Usage(_) => ExitStatus::BadInput,
            // The reader closed the pipe, as `… | head` does.
            Self::Print(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitStatus::Success,
            Self::Refused(_) | Self::Start { .. } | Self::Demo(_) | Self::Write { .. } | Self::Print(_) => {
                ExitStatus::Failure
            }
        }
    }

    /// The error code of the API, for a refusal.
    fn code(&self) -> Option<&str> {
        match self {
            Self::Engine(EngineError::Refused(refusal)) => Some(refusal.code().as_str()),
            Self::Client(error) => error.problem().map(|problem| problem.code.as_str()),
            Self::MaybeStarted { source, .. } => source.problem().map(|problem| problem.code.as_str()),
            _ => None,
        }
    }

    /// The location in a file, for a parse error.
    fn location(&self) -> Option<Value> {
        match self {
            Self::InvalidWorkflow { path, location, .. } => Some(
                json!({ "file": path.to_string_lossy(), "line": location.line, "column": location.column }),
            ),
            Self::InvalidPolicy { location: Some(location), .. } => {
                Some(json!({ "file": location.file, "line": location.line, "column": location.column }))
            }
            _ => None,
        }
    }

    /// The remedy, if the message does not contain it.
    fn help(&self) -> Option<Cow<'static, str>> {
        let words = match self {
            Self::Engine(EngineError::Refused(refusal)) => remedy_for_refusal(refusal),
            Self::Client(ClientError::Refused(problem)) => return remedy_for_problem(problem),
            Self::MaybeStarted { key, .. } => {
                let key = quoted(key);
                return Some(
                    format!("repeat the command with --key {key}; it starts at most one run").into(),
                );
            }
            Self::Engine(EngineError::Store(StoreError::Busy { .. })) => {
                Some("another process holds the file, or AWS throttles requests; try again")
            }
            Self::NoStore { .. } => Some(
                "create it with `countersign run start FILE` or `countersign worker`, or name another file with \
                 --store or COUNTERSIGN_STORE",
            ),
            Self::OpenStore { .. } => Some("name another file with --store or COUNTERSIGN_STORE"),
            _ => None,
        };
        words.map(Cow::Borrowed)
    }

    /// Prints the error on standard error and returns the exit status.
    pub(crate) fn report(&self, json: bool) -> ExitStatus {
        let status = self.exit_status();
        if status != ExitStatus::Success {
            // A failed write to standard error cannot be reported.
            let _ = io::Write::write_all(&mut io::stderr(), self.render(json).as_bytes());
        }
        status
    }

    fn render(&self, json: bool) -> String {
        if json { json_line(&self.to_json()) } else { sanitize(&self.to_text()) }
    }

    fn causes(&self) -> Vec<String> {
        let first = match self {
            // The message already contains the text of the error itself.
            Self::Engine(error) => error.source(),
            Self::Client(error) => error.source(),
            Self::MaybeStarted { source, .. } => source.source(),
            other => other.source(),
        };
        std::iter::successors(first, |&error| error.source()).map(ToString::to_string).collect()
    }

    fn to_text(&self) -> String {
        let mut text = format!("error: {}", self.to_string().trim_end());
        if let Some(code) = self.code() {
            let _ = write!(text, " [{code}]");
        }
        text.push('\n');
        for cause in self.causes() {
            let _ = writeln!(text, "  caused by: {cause}");
        }
        if let Some(help) = self.help() {
            let _ = writeln!(text, "  help: {help}");
        }
        text
    }

    fn to_json(&self) -> Value {
        json!({ "error": {
            "message": self.to_string(),
            "code": self.code(),
            "location": self.location(),
            "causes": self.causes(),
            "help": self.help(),
            "exit": self.exit_status().code(),
        }})
    }
}

fn engine_exit_status(error: &EngineError) -> ExitStatus {
    match error {
        EngineError::Refused(_)
        | EngineError::DispatchStartedDuringBackout
        | EngineError::PolicyBusy { .. }
        | EngineError::UnsupportedRecordFormat { .. }
        | EngineError::Contended { .. }
        | EngineError::TenantChanged { .. }
        | EngineError::ConnectionChanged { .. }
        | EngineError::PolicyTestsFailed { .. }
        | EngineError::WorkerRecordContended { .. }
        | EngineError::KeyChanged { .. }
        | EngineError::NotFinished { .. }
        | EngineError::NoEvidence { .. }
        | EngineError::AlteredRun { .. }
        | EngineError::NotifyFailure(_) => ExitStatus::Failure,
        EngineError::NoRun { .. }
        | EngineError::NotStarted { .. }
        | EngineError::NoApiKey { .. }
        | EngineError::NoWorker { .. }
        | EngineError::NoWorkflow { .. }
        | EngineError::BadInput { .. }
        | EngineError::BadPolicy(_)
        | EngineError::BadPeople(_)
        | EngineError::BadRedaction(_)
        | EngineError::NoConnection { .. }
        | EngineError::BadConnection { .. }
        | EngineError::OtherWorkspace { .. }
        | EngineError::StepConnection { .. }
        | EngineError::DirectoryRemoved { .. }
        | EngineError::TenantTooLarge { .. }
        | EngineError::InvalidUserName { .. } => ExitStatus::BadInput,
        EngineError::Store(_)
        | EngineError::NoPlan { .. }
        | EngineError::BadPlan { .. }
        | EngineError::NoPayload { .. }
        | EngineError::NoSigningKey
        | EngineError::NoSlack
        | EngineError::BadEvidence { .. } => ExitStatus::Unavailable,
    }
}

fn client_exit_status(error: &ClientError) -> ExitStatus {
    match error {
        ClientError::Refused(problem) => match problem.status {
            400 | 404 | 413 | 415 => ExitStatus::BadInput,
            500.. => ExitStatus::Unavailable,
            _ => ExitStatus::Failure,
        },
        ClientError::BadServer { .. } => ExitStatus::BadInput,
        ClientError::Unreachable { .. }
        | ClientError::NoResponse { .. }
        | ClientError::ProxyResponse { .. }
        | ClientError::InvalidResponse(_) => ExitStatus::Unavailable,
    }
}

/// The actions on a run that remedies of the API name.
const VERBS: [&str; 4] = ["pause", "cancel", "undo", "retry"];

/// The remedy as commands of this program, or else the API's remedy with its actions rewritten as commands.
fn remedy_for_problem(problem: &Problem) -> Option<Cow<'static, str>> {
    let words = match problem.code.as_str() {
        "RUN_TERMINAL_STATE" => "start another run with `run start`; see how this one ended with `run show`",
        "APPROVAL_REFUSED" => "see who may approve and which decisions exist with `approval show`",
        "UNAUTHENTICATED" => {
            "the API key is unknown, expired or revoked; see which key is used with `countersign profile list`"
        }
        _ if problem.remedy.is_empty() => return None,
        _ => {
            let as_command =
                |text: String, verb: &&str| text.replace(&format!("`{verb}`"), &format!("`run {verb}`"));
            return Some(VERBS.iter().fold(problem.remedy.clone(), as_command).into());
        }
    };
    Some(words.into())
}

fn engine_message(error: &EngineError) -> String {
    match error {
        EngineError::BadInput { what, .. } => format!("{what} is invalid"),
        other => other.to_string(),
    }
}

fn remedy_for_refusal(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Terminal { .. } => {
            Some("start another run with `run start`; see how this one ended with `run show`")
        }
        Refusal::KeyConflict { .. } => Some("repeat the first request, or use another --key"),
        Refusal::ConcurrencyConflict { .. } => {
            Some("see the status of that run with `run show`; another run can start when it has ended")
        }
        Refusal::InvalidConcurrencyKey { .. } => {
            Some("add the field to the input that `concurrency.key` of the workflow reads")
        }
        Refusal::LeaseHeld { .. } => {
            Some("pause the run with `run pause`, then try again when its current step has finished")
        }
        Refusal::NotPaused { .. }
        | Refusal::NoOpenApproval { .. }
        | Refusal::ApprovalExpired { .. }
        | Refusal::WaitExpired { .. }
        | Refusal::AlreadyDecided { .. } => {
            Some("see the status of the run and what it waits for with `run show`")
        }
        Refusal::UnknownApproval { .. } | Refusal::SubjectChanged { .. } => {
            Some("list pending approvals with `approval list`")
        }
        Refusal::NotApprover { why: NotApprover::Participant(_) | NotApprover::NotInGroup, .. } => {
            Some("see who may approve with `approval show`")
        }
        Refusal::NotApprover { why: NotApprover::Assurance, .. } => Some(
            "approve in the console, or use a token of the identity provider as the credential of a profile",
        ),
        Refusal::WorkflowNotNewer { .. } => Some("list the applied versions with `workflow list`"),
        Refusal::AmbiguousTrigger { .. } => Some(
            "add a `when` condition so that each event matches one workflow, or apply a version of the other one without a trigger",
        ),
        Refusal::UnknownAuthor { .. } => Some("correct `author`, or add the user with `tenant set`"),
        Refusal::NothingToRollBack => Some("stop the run with `run cancel`; its effects stay in place"),
        Refusal::Run(_) | Refusal::Step(_) | Refusal::WrongState { .. } => {
            Some("see which commands apply to the run with `run show`")
        }
        Refusal::StaleFence { .. }
        | Refusal::NotStarted { .. }
        | Refusal::NoVerdict { .. }
        | Refusal::NotBefore { .. }
        | Refusal::NotAwaited { .. }
        | Refusal::BufferFull { .. }
        | Refusal::SignalConflict { .. }
        | Refusal::Paused { .. }
        | Refusal::NotApprover { why: NotApprover::UnknownUser, .. }
        | Refusal::OffPlan { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use domain::RunKey;

    fn run() -> RunKey {
        RunKey { tenant: "acme".parse().unwrap(), run: "run-1".parse().unwrap() }
    }

    fn refused(refusal: Refusal) -> CliError {
        EngineError::from(refusal).into()
    }

    #[test]
    fn refusal_shows_code_and_remedy() {
        assert_eq!(
            refused(Refusal::KeyConflict { run: run() }).to_text(),
            "error: the key of run acme/run-1 was used before with a different input, record or workflow \
             [IDEMPOTENCY_CONFLICT]\n  help: repeat the first request, or use another --key\n"
        );
    }

    #[test]
    fn unknown_start_outcome_names_the_key() {
        let source = ClientError::ProxyResponse { server: "https://a.example/".to_owned(), status: 502 };
        let error = CliError::MaybeStarted { source: Box::new(source), key: "cli:7f".to_owned() };
        let text = error.to_text();
        assert!(text.contains("help: repeat the command with --key cli:7f"), "{text}");
        assert_eq!(error.exit_status(), ExitStatus::Unavailable);
    }

    #[test]
    fn causes_are_listed_in_order() {
        let source = StoreError::broken("open the store's file", "disk on fire");
        let error = CliError::OpenStore { path: "a.db".into(), source };
        let text = error.to_text();
        assert!(text.starts_with("error: cannot open the store a.db\n"), "{text}");
        assert!(text.contains("  caused by: open the store's file\n  caused by: disk on fire\n"), "{text}");
        assert_eq!(error.exit_status(), ExitStatus::Unavailable);
    }

    #[test]
    fn cause_is_not_repeated() {
        let error = CliError::from(EngineError::NoRun { run: run() });
        assert_eq!(error.to_text(), "error: run acme/run-1 not found; `run list` lists runs\n");
        assert_eq!(error.exit_status(), ExitStatus::BadInput);
    }

    #[test]
    fn closed_pipe_is_success() {
        let error = CliError::Print(io::ErrorKind::BrokenPipe.into());
        assert_eq!(error.exit_status(), ExitStatus::Success);
    }
}
