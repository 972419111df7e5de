//! Which channel of a Slack workspace shows an approval request.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::approval::{Approval, Subject};
use crate::connection::ConnectionOptions;
use crate::id::{GroupName, WorkflowName};
use crate::plan::Environment;
use crate::verdict::Tier;

/// The channel for the approval requests that meet all of its conditions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CardRoute {
    /// The risk tier that the request has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<Tier>,
    /// One of the groups that must approve.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<GroupName>,
    /// The workflow of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workflow: Option<WorkflowName>,
    /// The environment of the action, or of the workflow if the request is a question.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Environment>,
    /// The id of the channel.
    pub channel: String,
}

impl CardRoute {
    /// Whether the route has a condition. One without would hide the routes after it.
    pub fn has_condition(&self) -> bool {
        let Self { tier, group, workflow, environment, channel: _ } = self;
        tier.is_some() || group.is_some() || workflow.is_some() || environment.is_some()
    }

    /// Whether `approval` meets every condition.
    pub fn matches(&self, approval: &Approval) -> bool {
        let Self { tier, group, workflow, environment, channel: _ } = self;
        let requirement = &approval.requirement;
        tier.is_none_or(|tier| tier == requirement.tier)
            && group.as_ref().is_none_or(|group| requirement.groups.contains(group))
            && workflow.as_ref().is_none_or(|workflow| *workflow == approval.workflow)
            && environment.is_none_or(|environment| environment == environment_of(approval))
    }
}

impl fmt::Display for CardRoute {
    /// `tier high, environment prod: C0RISK`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let conditions = [
            self.tier.map(|tier| format!("tier {tier}")),
            self.group.as_ref().map(|group| format!("group {group}")),
            self.workflow.as_ref().map(|workflow| format!("workflow {workflow}")),
            self.environment.map(|environment| format!("environment {environment}")),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        write!(f, "{}: {}", conditions.join(", "), self.channel)
    }
}

impl ConnectionOptions {
    /// The channel for the card of `approval`: that of the first route that matches, or the default. `None` if the
    /// connection is not used for approval requests.
    pub fn channel_of(&self, approval: &Approval) -> Option<&str> {
        let routed = self.routes.iter().find(|route| route.matches(approval)).map(|route| &route.channel);
        routed.or(self.channel.as_ref()).map(String::as_str)
    }
}

fn environment_of(approval: &Approval) -> Environment {
    match &approval.subject {
        Subject::Question { .. } => approval.environment,
        Subject::Action { action, .. } => action.environment(approval.environment),
    }
}
