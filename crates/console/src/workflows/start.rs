//! Starting a run of the version in use, with an input that somebody types.

use api::{Problem, request_key};
use axum::http::StatusCode;
use domain::{RecordName, Role, RunId};
use engine::{EngineError, Place, Started};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use super::json;
use super::show::Shown;
use crate::at::Visitor;
use crate::layout::token;
use crate::no::notice;

/// What started a run, as the run tells it.
const TRIGGER: &str = "console";

/// What to do where nobody knows whether a run was started.
pub(super) const AGAIN: &str =
    "send the form again as it stands; however often it is sent, it starts one run";

/// Whether a run may have been started all the same.
pub(super) fn leaves_open(problem: &Problem) -> bool {
    problem.status >= StatusCode::INTERNAL_SERVER_ERROR.as_u16()
}

/// What somebody typed into the form.
#[derive(Debug, Deserialize)]
pub(crate) struct Wanted {
    #[serde(default)]
    input: String,
    #[serde(default)]
    record: String,
    /// Names the form as it was shown: sent twice, it starts one run.
    #[serde(default)]
    once: String,
}

impl Wanted {
    /// What the form begins with.
    pub(super) fn first(shown: &Shown) -> Self {
        Self { input: shown.sample(), record: String::new(), once: String::new() }
    }
}

/// What a wish is answered with.
pub(super) enum Answer {
    /// This run: its own, or that of another request about the same ticket.
    Run(RunId),
    /// Its run is not there yet.
    Waits(Waits),
}

/// A run that begins when another one is over, which is about the same ticket.
pub(super) struct Waits {
    /// Which run.
    run: RunId,
    /// The one before it.
    by: RunId,
    /// Whether that one is there; else it waits, too.
    by_is_there: bool,
}

impl Waits {
    async fn behind<S: Store>(visitor: &Visitor<S>, run: RunId, by: RunId) -> Result<Self, Problem> {
        let by_is_there = match visitor.handle.record(&by).await {
            Ok(_) => true,
            Err(EngineError::NoRun { .. } | EngineError::NotBegun { .. }) => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { run, by, by_is_there })
    }

    fn notice(&self) -> Markup {
        html! {
            div.why role="status" {
                p { strong { "Run " code { (self.run) } " waits for its turn." } }
                p {
                    "It begins when "
                    @if self.by_is_there { a href={ "/runs/" (self.by) } { "run " code { (self.by) } } }
                    @else { "run " code { (self.by) } ", which waits itself," }
                    " is over: both are about the same ticket. Until then it has no page."
                }
            }
        }
    }
}

/// The run that is wanted, which the same form may have started before.
pub(super) async fn started<S: Store>(
    visitor: &Visitor<S>,
    shown: &Shown,
    wanted: &Wanted,
) -> Result<Answer, Problem> {
    let input = json("the input", &wanted.input)?;
    let record = match wanted.record.trim() {
        "" => None,
        name => Some(RecordName::new(name).map_err(|error| Problem::bad_request(error.to_string()))?),
    };
    let once = Some(wanted.once.as_str()).filter(|once| !once.is_empty());
    let key = request_key(&visitor.caller.credential, once)?;
    let start = visitor.handle.start(&shown.applied.workflow, key, TRIGGER, record, input);
    let Started { run, place, .. } = start.await?;
    match place {
        Place::Behind(by) => Waits::behind(visitor, run.run, by.run).await.map(Answer::Waits),
        Place::Own | Place::Joined => Ok(Answer::Run(run.run)),
    }
}

/// What is told about a wish.
#[derive(Clone, Copy)]
pub(super) enum Told<'a> {
    /// Nobody had one, or its run has a page.
    Nothing,
    /// Why no run was started.
    Refused(&'a Problem),
    /// For what its run waits.
    Waits(&'a Waits),
}

/// The form, for whoever may start a run, and what is told about the wish before.
pub(super) fn section<S: Store>(
    visitor: &Visitor<S>,
    shown: &Shown,
    wanted: &Wanted,
    told: Told<'_>,
) -> Result<Markup, Problem> {
    if !visitor.may(Role::Operator) || !shown.is_in_use() {
        return Ok(html! {});
    }
    let once = match told {
        // Under another name it would be another run.
        Told::Refused(problem) if leaves_open(problem) => wanted.once.clone(),
        Told::Nothing | Told::Refused(_) | Told::Waits(_) => api::hex::<16>()?,
    };
    Ok(html! {
        section aria-labelledby="start" {
            h2 #start { "Start a run" }
            p.soft { "Policy is asked before anything happens outside, and you do not approve what you started." }
            @match told {
                Told::Nothing => {}
                Told::Refused(problem) => (notice(problem)),
                Told::Waits(waits) => (waits.notice()),
            }
            form.stack method="post" action={ "/workflows/" (shown.applied.workflow) "/start" } {
                (token(visitor))
                input type="hidden" name="once" value=(once);
                label for="start-input" { "Input, as JSON" }
                textarea #start-input name="input" rows="5" spellcheck="false" { (wanted.input) }
                label for="start-record" { "The record it is about, if any, such as servicenow:incident:9d38" }
                input #start-record type="text" name="record" maxlength="256" autocomplete="off" spellcheck="false" value=(wanted.record);
                button.primary type="submit" { "Start it" }
            }
        }
    })
}
