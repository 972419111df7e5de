//! The actions on a run: cancel, pause, resume, roll back.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use domain::{Role, RunId, RunStatus, StepSeq, StepState};
use engine::{EngineError, RunView};
use maud::{Markup, html};
use serde::Deserialize;
use store::Store;

use super::show::render;
use crate::Shared;
use crate::extract::{PathParams, SessionUser};
use crate::form::SessionForm;
use crate::layout::token;
use crate::page_error::PageError;

/// Reasons are stored in the chain permanently, so they are short.
const REASON_CHARS_MAX: usize = 500;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RunAction {
    Cancel,
    Pause,
    Resume,
    RollBack,
}

impl RunAction {
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
            Self::Cancel => "Cancel run",
            Self::Pause => "Pause run",
            Self::Resume => "Resume run",
            Self::RollBack => "Roll back run",
        }
    }

    fn explanation(self, view: &RunView) -> &'static str {
        match self {
            Self::Cancel => {
                "The run ends. A running step finishes first, and its effect is rolled back if the step declares a rollback. Earlier effects remain."
            }
            Self::Pause => "The run pauses after the current step, until it is resumed.",
            Self::Resume if view.record.step_state.open().is_some() => {
                "The step is attempted again. If its effect already happened, it happens twice."
            }
            Self::Resume => "The run continues with the current step.",
            Self::RollBack => {
                "Completed steps that declare a rollback are rolled back, newest first. Then the run ends."
            }
        }
    }

    /// Whether to offer the action. The engine decides; this only hides buttons that it would refuse.
    fn is_offered(self, view: &RunView) -> bool {
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
                !record.is_rolling_back()
                    && !matches!(record.step_state, StepState::Running(_))
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
pub(crate) struct ReasonForm {
    #[serde(default)]
    reason: String,
}

pub(crate) async fn act<S: Store>(
    State(console): State<Shared<S>>,
    PathParams((run, action)): PathParams<(String, String)>,
    SessionForm { mut user, form }: SessionForm<S, ReasonForm>,
) -> Result<Response, PageError> {
    let action = RunAction::ALL
        .into_iter()
        .find(|known| known.name() == action)
        .ok_or_else(PageError::page_not_found)?;
    let run = RunId::new(&run).map_err(|_| PageError::not_found("run"))?;
    user.require_role(Role::Operator)?;
    let reason: String = form.reason.trim().chars().take(REASON_CHARS_MAX).collect();
    match perform(&user, &run, action, &reason).await {
        Ok(()) => Ok(Redirect::to(&format!("/runs/{run}")).into_response()),
        Err(EngineError::Refused(refusal)) => {
            // Live updates fetch the page, not the address of the form.
            user.address = format!("/runs/{run}");
            render(user, &console, &run, Some(refusal.into())).await
        }
        Err(error) => Err(error.into()),
    }
}

async fn perform<S: Store>(
    user: &SessionUser<S>,
    run: &RunId,
    action: RunAction,
    reason: &str,
) -> Result<(), EngineError> {
    let handle = &user.handle;
    match action {
        RunAction::Cancel => handle.cancel(run, reason).await.map(|_| ()),
        RunAction::Pause => handle.pause(run, reason).await.map(|_| ()),
        RunAction::Resume => handle.resume(run, reason).await,
        RunAction::RollBack => handle.roll_back(run, reason, None).await.map(|_| ()),
    }
}

/// The actions that this user can take now.
pub(super) fn buttons<S>(user: &SessionUser<S>, view: &RunView) -> Markup {
    let run = &view.record.key.run;
    let actions: Vec<RunAction> =
        RunAction::ALL.into_iter().filter(|action| action.is_offered(view)).collect();
    if actions.is_empty() || !user.has_role(Role::Operator) {
        return html! {};
    }
    html! {
        div.verbs {
            @for action in actions {
                details id={ "action-" (action.name()) } {
                    summary { (action.button()) }
                    form.stack method="post" action={ "/runs/" (run) "/" (action.name()) } {
                        (token(user))
                        p { (action.explanation(view)) }
                        label for={ "reason-" (action.name()) } { "Reason" }
                        input id={ "reason-" (action.name()) } name="reason" type="text" required maxlength=(REASON_CHARS_MAX)
                            autocomplete="off";
                        button class=(if action == RunAction::Cancel { "danger" } else { "primary" }) type="submit" { (action.button()) }
                    }
                }
            }
        }
    }
}
