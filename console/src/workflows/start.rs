//! Starting a run of the version in use, with an input that somebody types.

use api::{Problem, request_key};
use domain::{RecordName, Role, RunId};
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

/// The run that is wanted, which the same form may have started before.
pub(super) async fn started<S: Store>(
    visitor: &Visitor<S>,
    shown: &Shown,
    wanted: &Wanted,
) -> Result<RunId, Problem> {
    let input = json("the input", &wanted.input)?;
    let record = match wanted.record.trim() {
        "" => None,
        name => Some(RecordName::new(name).map_err(|error| Problem::bad_request(error.to_string()))?),
    };
    let once = Some(wanted.once.as_str()).filter(|once| !once.is_empty());
    let key = request_key(&visitor.caller.credential, once)?;
    let started = visitor.desk.start(&shown.applied.workflow, key, TRIGGER, record, input).await?;
    Ok(started.run.run)
}

/// The form, for whoever may start a run, and why there is none.
pub(super) fn section<S: Store>(
    visitor: &Visitor<S>,
    shown: &Shown,
    wanted: &Wanted,
    refused: Option<&Problem>,
) -> Result<Markup, Problem> {
    if !visitor.may(Role::Operator) || !shown.is_in_use() {
        return Ok(html! {});
    }
    let once = api::hex::<16>()?;
    Ok(html! {
        section aria-labelledby="start" {
            h2 #start { "Start a run" }
            p.soft { "Policy is asked before anything happens outside, and you do not approve what you started." }
            @if let Some(problem) = refused { (notice(problem)) }
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
