//! Why a command was not done: what it names, what caused it, the way out, and the exit code.

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
use workflow::Place;

use crate::ending::Ending;
use crate::screen::harmless;
use views::hint::quoted;
use views::refusal_in_words;

/// Why a command was not done.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CliError {
    /// The engine did not do it.
    #[error("{}", in_words(.0))]
    Engine(#[from] EngineError),
    /// The API did not do it.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Nobody knows whether the run with this key was started.
    #[error("{source}")]
    MaybeStarted { source: Box<ClientError>, key: String },
    /// The store did not answer.
    #[error("the store did not answer")]
    Store(#[from] StoreError),
    /// The store's file cannot be used.
    #[error("the store {} cannot be used", .path.display())]
    OpenStore {
        path: PathBuf,
        #[source]
        source: StoreError,
    },
    /// There is no store to look into.
    #[error("there is no store {}", .path.display())]
    NoStore { path: PathBuf },
    /// A file cannot be read.
    #[error("{} cannot be read", .path.display())]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// A file or an input is larger than anything that is accepted.
    #[error("{what} has more than {most} bytes")]
    TooLarge { what: String, most: usize },
    /// A file that should be text is not.
    #[error("{} is not UTF-8 text", .path.display())]
    NotText { path: PathBuf },
    /// A file is no workflow; `shown` is the fault with its place and the line it is on.
    #[error("{}, {shown}", .path.display())]
    NotAWorkflow { path: PathBuf, place: Place, shown: String },
    /// Some of the files that were checked are no workflows; each was reported.
    #[error("{bad} of {all} files are not workflows")]
    SomeNotWorkflows { bad: usize, all: usize },
    /// A directory is no policy; `shown` is the fault with its place and the line it is on.
    #[error("{shown}")]
    NotAPolicy { place: Option<policy::Place>, shown: String },
    /// It could be done, and is not.
    #[error("{0}")]
    Refused(String),
    /// A value is not JSON, or JSON that readers disagree about.
    #[error("{what} cannot be used")]
    BadJson {
        what: String,
        #[source]
        source: InvalidJson,
    },
    /// A text is no id.
    #[error(transparent)]
    Id(#[from] InvalidId),
    /// A file is no key.
    #[error("{} cannot be used as a key: {why}", .path.display())]
    Key { path: PathBuf, why: String },
    /// Options that do not go together, with the way out.
    #[error("{0}")]
    Usage(String),
    /// Something that the program needs from the machine is not to be had.
    #[error("{what} could not be started")]
    Start {
        what: &'static str,
        #[source]
        source: io::Error,
    },
    /// The demo could not go on.
    #[error("the demo could not go on: {0}")]
    Demo(String),
    /// A file cannot be written.
    #[error("{} cannot be written", .path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// The output cannot be written.
    #[error("the answer cannot be printed")]
    Print(#[source] io::Error),
}

impl CliError {
    /// How the program ends because of it.
    pub(crate) fn ending(&self) -> Ending {
        match self {
            Self::Engine(error) => engine_ending(error),
            Self::Client(error) => client_ending(error),
            Self::MaybeStarted { source, .. } => client_ending(source),
            Self::Store(_) | Self::OpenStore { .. } | Self::NoStore { .. } => Ending::NoStore,
            Self::Read { .. }
            | Self::TooLarge { .. }
            | Self::NotText { .. }
            | Self::NotAWorkflow { .. }
            | Self::SomeNotWorkflows { .. }
            | Self::NotAPolicy { .. }
            | Self::BadJson { .. }
            | Self::Id(_)
            | Self::Key { .. }
            | Self::Usage(_) => Ending::BadInput,
            // Whoever reads us has seen enough: `… | head` is no failure.
            Self::Print(error) if error.kind() == io::ErrorKind::BrokenPipe => Ending::Done,
            Self::Refused(_) | Self::Start { .. } | Self::Demo(_) | Self::Write { .. } | Self::Print(_) => {
                Ending::NotDone
            }
        }
    }

    /// The code that stands for it on the API and in logs, if the rules said no.
    fn code(&self) -> Option<&str> {
        match self {
            Self::Engine(EngineError::Refused(refusal)) => Some(refusal.code().as_str()),
            Self::Client(error) => error.problem().map(|problem| problem.code.as_str()),
            Self::MaybeStarted { source, .. } => source.problem().map(|problem| problem.code.as_str()),
            _ => None,
        }
    }

    /// Where in a file it is, if it is in one.
    fn place(&self) -> Option<Value> {
        match self {
            Self::NotAWorkflow { path, place, .. } => {
                Some(json!({ "file": path.to_string_lossy(), "line": place.line, "column": place.column }))
            }
            Self::NotAPolicy { place: Some(place), .. } => {
                Some(json!({ "file": place.file, "line": place.line, "column": place.column }))
            }
            _ => None,
        }
    }

    /// The way out, where the text does not say it.
    fn help(&self) -> Option<Cow<'static, str>> {
        let words = match self {
            Self::Engine(EngineError::Refused(refusal)) => way_out(refusal),
            Self::Client(ClientError::Refused(problem)) => return way_out_of(problem),
            Self::MaybeStarted { key, .. } => {
                return Some(format!("start it again with --key {}: it starts one run", quoted(key)).into());
            }
            Self::Engine(EngineError::Store(StoreError::Busy { .. })) => {
                Some("another process holds the file, or AWS asks for less at once; try again")
            }
            Self::NoStore { .. } => Some(
                "`countersign run start FILE` and `countersign worker` create one; --store or \
                 COUNTERSIGN_STORE names another",
            ),
            Self::OpenStore { .. } => Some("--store or COUNTERSIGN_STORE names another file"),
            _ => None,
        };
        words.map(Cow::Borrowed)
    }

    /// Says on standard error what went wrong; gives back how the program ends.
    pub(crate) fn report(&self, json: bool) -> Ending {
        let ending = self.ending();
        if ending != Ending::Done {
            // If even this cannot be written there is nobody left to tell.
            let _ = io::Write::write_all(&mut io::stderr(), self.told(json).as_bytes());
        }
        ending
    }

    fn told(&self, json: bool) -> String {
        if json { format!("{}\n", self.to_json()) } else { harmless(&self.to_text()) }
    }

    fn causes(&self) -> Vec<String> {
        let first = match self {
            // Its own text already stands on top.
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
            "place": self.place(),
            "causes": self.causes(),
            "help": self.help(),
            "exit": self.ending().number(),
        }})
    }
}

fn engine_ending(error: &EngineError) -> Ending {
    match error {
        EngineError::Refused(_)
        | EngineError::BackoutOver
        | EngineError::PolicyBusy { .. }
        | EngineError::Contended { .. }
        | EngineError::TenantChanged { .. }
        | EngineError::NotGreen { .. }
        | EngineError::WorkerBusy { .. }
        | EngineError::KeyTaken { .. } => Ending::NotDone,
        EngineError::NotOver { .. } | EngineError::NoEvidence { .. } | EngineError::NotShown(_) => {
            Ending::NotDone
        }
        EngineError::NoRun { .. }
        | EngineError::NotBegun { .. }
        | EngineError::NoApiKey { .. }
        | EngineError::NoWorker { .. }
        | EngineError::NoWorkflow { .. }
        | EngineError::BadInput { .. }
        | EngineError::BadPolicy(_)
        | EngineError::BadPeople(_)
        | EngineError::TenantTooLarge { .. }
        | EngineError::NotAPerson { .. } => Ending::BadInput,
        EngineError::Store(_)
        | EngineError::NoPlan { .. }
        | EngineError::BadPlan { .. }
        | EngineError::NoPayload { .. }
        | EngineError::NoKey
        | EngineError::NoSlack
        | EngineError::BadEvidence { .. } => Ending::NoStore,
    }
}

fn client_ending(error: &ClientError) -> Ending {
    match error {
        ClientError::Refused(problem) => match problem.status {
            400 | 404 | 413 | 415 => Ending::BadInput,
            500.. => Ending::NoStore,
            _ => Ending::NotDone,
        },
        ClientError::BadServer { .. } => Ending::BadInput,
        ClientError::Unreachable { .. }
        | ClientError::NoAnswer { .. }
        | ClientError::Between { .. }
        | ClientError::Unreadable(_) => Ending::NoStore,
    }
}

/// The verbs of a run that the API's words speak of.
const VERBS: [&str; 4] = ["pause", "cancel", "undo", "retry"];

/// The way out that this program has, or else the one that the API tells of, with the commands for its verbs.
fn way_out_of(problem: &Problem) -> Option<Cow<'static, str>> {
    let words = match problem.code.as_str() {
        "RUN_TERMINAL_STATE" => "`run start` begins another run; `run show` tells how this one ended",
        "APPROVAL_REFUSED" => "`approval show` says who is asked and what was answered",
        "UNAUTHENTICATED" => {
            "the key is unknown, has run out or was taken back; see `countersign profile list`"
        }
        _ if problem.remedy.is_empty() => return None,
        _ => {
            let told = problem.remedy.clone();
            let told = VERBS
                .iter()
                .fold(told, |told, verb| told.replace(&format!("`{verb}`"), &format!("`run {verb}`")));
            return Some(told.into());
        }
    };
    Some(words.into())
}

/// An error of the engine, with moments as people read them.
fn in_words(error: &EngineError) -> String {
    match error {
        EngineError::Refused(refusal) => refusal_in_words(refusal),
        EngineError::BadInput { what, .. } => format!("{what} cannot be used"),
        other => other.to_string(),
    }
}

fn way_out(refusal: &Refusal) -> Option<&'static str> {
    match refusal {
        Refusal::Terminal { .. } => {
            Some("`run start` begins another run; `run show` tells how this one ended")
        }
        Refusal::KeyConflict { .. } => Some("send the first request again, or use another --key"),
        Refusal::TicketTaken { .. } => {
            Some("`run show` says how that run stands; when it is over, another one can start")
        }
        Refusal::NoTicket { .. } => Some("send with the input what `ticket` of the workflow reads"),
        Refusal::Held { .. } => Some("`run pause` holds the run once its step has finished; then try again"),
        Refusal::NotPaused { .. }
        | Refusal::NotAsked { .. }
        | Refusal::Lapsed { .. }
        | Refusal::AlreadyDecided { .. } => {
            Some("`run show` says where the run stands and what it waits for")
        }
        Refusal::UnknownApproval { .. } | Refusal::OtherSubject { .. } => {
            Some("`approval list` shows what can be answered")
        }
        Refusal::NotApprover {
            why: NotApprover::Requester | NotApprover::Author | NotApprover::NotInGroup,
            ..
        } => Some("`approval show` says who is asked"),
        Refusal::NotNewer { .. } => Some("`workflow list` shows the versions in use"),
        Refusal::NothingToRollBack => Some("`run cancel` stops the run; its effects stand"),
        Refusal::Run(_) | Refusal::Step(_) | Refusal::WrongWork { .. } => {
            Some("`run show` says what can be done with the run now")
        }
        Refusal::StaleFence { .. }
        | Refusal::NotStarted { .. }
        | Refusal::Unjudged { .. }
        | Refusal::NotBefore { .. }
        | Refusal::NotAwaited { .. }
        | Refusal::TooManyEarly { .. }
        | Refusal::SignalConflict { .. }
        | Refusal::Paused { .. }
        | Refusal::NotApprover { why: NotApprover::Stranger, .. }
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
    fn a_refusal_is_told_with_its_code_and_the_way_out() {
        assert_eq!(
            refused(Refusal::KeyConflict { run: run() }).to_text(),
            "error: the key of run acme/run-1 was used before with a different input or record, or for \
             another workflow [IDEMPOTENCY_CONFLICT]\n  help: send the first request again, or use another --key\n"
        );
    }

    #[test]
    fn where_nobody_knows_whether_a_run_was_started_its_key_is_told() {
        let source = ClientError::Between { server: "https://a.example/".to_owned(), status: 502 };
        let error = CliError::MaybeStarted { source: Box::new(source), key: "cli:7f".to_owned() };
        assert!(error.to_text().contains("help: start it again with --key cli:7f"), "{}", error.to_text());
        assert_eq!(error.ending(), Ending::NoStore);
    }

    #[test]
    fn causes_are_told_one_below_the_other() {
        let source = StoreError::broken("open the store's file", "disk on fire");
        let error = CliError::OpenStore { path: "a.db".into(), source };
        let text = error.to_text();
        assert!(text.starts_with("error: the store a.db cannot be used\n"), "{text}");
        assert!(text.contains("  caused by: open the store's file\n  caused by: disk on fire\n"), "{text}");
        assert_eq!(error.ending(), Ending::NoStore);
    }

    #[test]
    fn a_cause_is_not_told_twice() {
        let error = CliError::from(EngineError::NoRun { run: run() });
        assert_eq!(error.to_text(), "error: there is no run acme/run-1; `run list` shows those there are\n");
        assert_eq!(error.ending(), Ending::BadInput);
    }

    #[test]
    fn a_reader_that_went_away_is_no_failure() {
        let error = CliError::Print(io::ErrorKind::BrokenPipe.into());
        assert_eq!(error.ending(), Ending::Done);
    }
}
