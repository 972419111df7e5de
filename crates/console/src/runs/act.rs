//! What people say about a run: stop it, hold it, let it go on, take it back.

use axum::response::{IntoResponse as _, Redirect, Response};
use domain::{Live, Role, RunId, RunStatus, StepSeq};
use engine::{EngineError, RunView};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use super::show::render;
use crate::at::{Named, Visitor};
use crate::form::Sent;
use crate::layout::token;
use crate::no::No;

/// More is an essay; the chain keeps it for ever.
const REASON_CHARS_MAX: usize = 500;

/// What can be said about a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verb {
    Cancel,
    Pause,
    Resume,
    RollBack,
}

impl Verb {
    const ALL: [Self; 4] = [Self::Resume, Self::RollBack, Self::Pause, Self::Cancel];

    fn name(self) -> &'static str {
        match self {
            Self::Cancel => "cancel",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::RollBack => "rollback",
        }
    }

    fn button(self) -> &'static str {
        match self {
            Self::Cancel => "Cancel the run",
            Self::Pause => "Pause the run",
            Self::Resume => "Let it go on",
            Self::RollBack => "Roll it back",
        }
    }

    fn explained(self, view: &RunView) -> &'static str {
        match self {
            Self::Cancel => "It stops. What happened outside stands.",
            Self::Pause => "It is held after the step under way, until somebody lets it go on.",
            Self::Resume if view.record.live.open().is_some() => {
                "The step is tried again. If it happened before, it then happens twice."
            }
            Self::Resume => "It goes on with the step it stands at.",
            Self::RollBack => "Earlier steps are taken back, newest first, and the run ends.",
        }
    }

    /// Whether it means anything for the run as it stands. The rules decide; this only spares people a no.
    fn fits(self, view: &RunView) -> bool {
        let record = &view.record;
        if record.status.is_terminal() {
            return false;
        }
        let paused = record.status == RunStatus::Paused;
        match self {
            Self::Cancel => record.cancel.is_none(),
            Self::Pause => !paused && record.pause.is_none(),
            Self::Resume => paused,
            Self::RollBack => {
                !record.is_undoing()
                    && !matches!(record.live, Live::Running(_))
                    && has_something_to_undo(view)
            }
        }
    }
}

fn has_something_to_undo(view: &RunView) -> bool {
    let record = &view.record;
    let undoable = |seq| view.plan().step(seq).is_some_and(|step| step.rollback.is_some());
    (0..=record.at.0).map(StepSeq).any(|seq| record.acted.has(seq) && undoable(seq))
}

#[derive(Deserialize)]
pub(crate) struct Said {
    #[serde(default)]
    reason: String,
}

pub(crate) async fn act<S: Store>(
    Named((run, verb)): Named<(String, String)>,
    Sent { mut visitor, form }: Sent<S, Said>,
) -> Result<Response, No> {
    let verb = Verb::ALL.into_iter().find(|known| known.name() == verb).ok_or_else(No::page)?;
    let run = RunId::new(&run).map_err(|_| No::such("run"))?;
    visitor.must_be(Role::Operator)?;
    let reason: String = form.reason.trim().chars().take(REASON_CHARS_MAX).collect();
    match done(&visitor, &run, verb, &reason).await {
        Ok(()) => Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
        Err(EngineError::Refused(refusal)) => {
            // Nothing is fetched from where a form was sent to.
            visitor.address = format!("/runs/{run}");
            render(visitor, &run, Some(refusal.into())).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn done<S: Store>(
    visitor: &Visitor<S>,
    run: &RunId,
    verb: Verb,
    reason: &str,
) -> Result<(), EngineError> {
    let handle = &visitor.handle;
    match verb {
        Verb::Cancel => handle.cancel(run, reason).await.map(|_| ()),
        Verb::Pause => handle.pause(run, reason).await.map(|_| ()),
        Verb::Resume => handle.resume(run, reason).await,
        Verb::RollBack => handle.roll_back(run, reason).await.map(|_| ()),
    }
}

/// The buttons that this visitor may press now.
pub(super) fn buttons<S>(visitor: &Visitor<S>, view: &RunView) -> Markup {
    let run = &view.record.key.run;
    let verbs: Vec<Verb> = Verb::ALL.into_iter().filter(|verb| verb.fits(view)).collect();
    if verbs.is_empty() || !visitor.may(Role::Operator) {
        return html! {};
    }
    html! {
        div.verbs {
            @for verb in verbs {
                details id={ "say-" (verb.name()) } {
                    summary { (verb.button()) }
                    form.stack method="post" action={ "/runs/" (run) "/" (verb.name()) } {
                        (token(visitor))
                        p { (verb.explained(view)) }
                        label for={ "reason-" (verb.name()) } { "Why" }
                        input id={ "reason-" (verb.name()) } name="reason" type="text" required maxlength=(REASON_CHARS_MAX)
                            autocomplete="off";
                        button class=(if verb == Verb::Cancel { "danger" } else { "primary" }) type="submit" { (verb.button()) }
                    }
                }
            }
        }
    }
}
