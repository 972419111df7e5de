//! Whether a body can be the payload of the event that a GitHub delivery names.
//!
//! GitHub signs the body of a delivery and not its headers. Without this check, a captured body could be sent again under
//! another event name and a new delivery id, and would start the workflow of that event. A payload shows its event only
//! by the fields that it has, so each event is described by some of them.
//!
//! The check must not refuse a real event, not even after GitHub has added fields. So it requires only fields that GitHub
//! documents as present, and excludes only fields by which another event is recognized. An event that is not listed is
//! accepted with any body.

use serde_json::Value;

/// What the payload of an event looks like.
struct Shape {
    event: &'static str,
    /// Fields of every payload of the event. A dot separates the names in a path.
    required: &'static [&'static str],
    /// Fields of other events whose payloads also have the required fields.
    excluded: &'static [&'static str],
}

const fn shape(
    event: &'static str,
    required: &'static [&'static str],
    excluded: &'static [&'static str],
) -> Shape {
    Shape { event, required, excluded }
}

/// Events whose payload has a field of its own.
const SPECIFIC: [Shape; 73] = [
    shape("branch_protection_rule", &["rule"], &[]),
    shape("check_run", &["check_run"], &["deployment_status"]),
    shape("check_suite", &["check_suite"], &[]),
    shape("code_scanning_alert", &["alert", "commit_oid"], &[]),
    shape("commit_comment", &["comment"], &["issue", "pull_request", "discussion", "workflow_run"]),
    shape("content_reference", &["content_reference"], &[]),
    shape("create", &["ref", "ref_type", "master_branch"], &[]),
    shape("custom_property", &["definition"], &[]),
    shape("custom_property_values", &["new_property_values"], &[]),
    shape("delete", &["ref", "ref_type"], &["master_branch"]),
    shape("dependabot_alert", &["alert.dependency"], &[]),
    shape("deploy_key", &["key"], &[]),
    shape("deployment", &["deployment"], &["deployment_status", "deployment_callback_url", "workflow_job"]),
    shape("deployment_protection_rule", &["deployment_callback_url"], &[]),
    shape("deployment_review", &["workflow_run", "since"], &[]),
    shape("deployment_status", &["deployment", "deployment_status"], &[]),
    shape("discussion", &["discussion"], &["comment"]),
    shape("discussion_comment", &["discussion", "comment"], &[]),
    shape("dismissal_request_code_scanning", &["exemption_request"], &[]),
    shape("dismissal_request_secret_scanning", &["exemption_request"], &[]),
    shape("exemption_request_push_ruleset", &["exemption_request"], &[]),
    shape("exemption_request_secret_scanning", &["exemption_request"], &[]),
    shape("fork", &["forkee"], &[]),
    shape("gollum", &["pages"], &[]),
    shape("installation_repositories", &["repositories_added"], &[]),
    shape("installation_target", &["target_type"], &[]),
    shape("issue_comment", &["issue", "comment"], &[]),
    shape("issue_dependencies", &["blocked_issue_id"], &[]),
    shape("issues", &["issue"], &["comment"]),
    shape("label", &["label"], &["issue", "pull_request", "discussion"]),
    shape("marketplace_purchase", &["marketplace_purchase"], &[]),
    shape("member", &["member"], &["team"]),
    shape("membership", &["member", "team"], &[]),
    shape("merge_group", &["merge_group"], &[]),
    shape("meta", &["hook"], &["zen"]),
    shape("milestone", &["milestone"], &["issue", "pull_request"]),
    shape("org_block", &["blocked_user"], &[]),
    shape("organization_custom_property", &["definition"], &[]),
    shape("organization_custom_property_values", &["new_property_values"], &[]),
    shape("package", &["package"], &[]),
    shape("page_build", &["build"], &[]),
    shape("personal_access_token_request", &["personal_access_token_request"], &[]),
    shape("project", &["project"], &[]),
    shape("project_card", &["project_card"], &[]),
    shape("project_column", &["project_column"], &[]),
    shape("projects_v2", &["projects_v2"], &[]),
    shape("projects_v2_item", &["projects_v2_item"], &[]),
    shape("projects_v2_status_update", &["projects_v2_status_update"], &[]),
    shape("pull_request", &["pull_request"], &["comment", "review", "thread"]),
    shape("pull_request_review", &["pull_request", "review"], &[]),
    shape("pull_request_review_comment", &["pull_request", "comment"], &[]),
    shape("pull_request_review_thread", &["pull_request", "thread"], &[]),
    shape("push", &["ref"], &["ref_type", "alert", "inputs", "cache_location"]),
    shape("registry_package", &["registry_package"], &[]),
    shape("release", &["release"], &[]),
    shape("repository_advisory", &["repository_advisory"], &[]),
    shape("repository_dispatch", &["client_payload"], &[]),
    shape("repository_import", &["status"], &[]),
    shape("repository_ruleset", &["repository_ruleset"], &[]),
    shape("repository_vulnerability_alert", &["alert.affected_range"], &[]),
    shape("secret_scanning_alert", &["alert.secret_type"], &["location"]),
    shape("secret_scanning_alert_location", &["alert", "location"], &[]),
    shape("secret_scanning_scan", &["completed_at", "source"], &[]),
    shape("security_advisory", &["security_advisory"], &[]),
    shape("sponsorship", &["sponsorship"], &[]),
    shape("star", &["starred_at"], &[]),
    shape("status", &["sha", "context"], &[]),
    shape("sub_issues", &["sub_issue_id"], &[]),
    shape("team", &["team"], &["member"]),
    shape("team_add", &["team"], &["member"]),
    shape("workflow_dispatch", &["workflow", "inputs"], &[]),
    shape("workflow_job", &["workflow_job"], &[]),
    shape("workflow_run", &["workflow_run"], &["deployment", "since"]),
];

/// Events whose payload has no field of its own: only the repository, the organization or the installation. They cannot
/// be distinguished, but their payloads have no required field of a specific event.
const GENERIC: [Shape; 8] = [
    shape("branch_protection_configuration", &["action", "repository"], &[]),
    shape("github_app_authorization", &["action"], &[]),
    shape("installation", &["action", "installation"], &[]),
    shape("organization", &["action", "organization"], &[]),
    shape("public", &["repository"], &[]),
    shape("repository", &["action", "repository"], &[]),
    shape("security_and_analysis", &["changes", "repository"], &[]),
    shape("watch", &["action", "repository"], &[]),
];

/// Whether `body` can be the payload of `event`.
pub(super) fn can_have_payload(event: &str, body: &Value) -> bool {
    let named = |shape: &&Shape| shape.event == event;
    match (SPECIFIC.iter().find(named), GENERIC.iter().find(named)) {
        (Some(specific), _) => specific.fits(body),
        (None, Some(generic)) => {
            let mut of_specific = SPECIFIC.iter().flat_map(|shape| shape.required);
            generic.fits(body) && !of_specific.any(|field| has_value(body, field))
        }
        (None, None) => true,
    }
}

impl Shape {
    fn fits(&self, body: &Value) -> bool {
        let has_required = self.required.iter().all(|field| find(body, field).is_some());
        has_required && !self.excluded.iter().any(|field| has_value(body, field))
    }
}

fn find<'b>(body: &'b Value, field: &str) -> Option<&'b Value> {
    field.split('.').try_fold(body, |value, name| value.get(name))
}

/// Whether the field is present and not null. GitHub sends null for a part that does not apply.
fn has_value(body: &Value, field: &str) -> bool {
    find(body, field).is_some_and(|value| !value.is_null())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    /// The fields of payloads, without those that most payloads have.
    const PAYLOADS: [(&str, &[&str]); 24] = [
        ("check_run", &["check_run"]),
        ("check_suite", &["check_suite"]),
        ("commit_comment", &["comment"]),
        ("create", &["ref", "ref_type", "master_branch", "description", "pusher_type"]),
        ("delete", &["ref", "ref_type", "pusher_type"]),
        ("deployment", &["deployment", "workflow", "workflow_run"]),
        ("deployment_protection_rule", &["environment", "event", "deployment_callback_url", "deployment"]),
        ("deployment_review", &["since", "workflow_run", "workflow_job_run", "comment", "approver"]),
        ("deployment_status", &["deployment", "deployment_status", "check_run", "workflow", "workflow_run"]),
        ("discussion", &["discussion", "label", "answer"]),
        ("discussion_comment", &["discussion", "comment"]),
        ("issue_comment", &["issue", "comment", "changes"]),
        ("issues", &["issue", "assignee", "label", "milestone", "changes", "type"]),
        ("label", &["label", "changes"]),
        ("member", &["member", "changes"]),
        ("membership", &["member", "team", "scope"]),
        ("pull_request", &["pull_request", "number", "before", "after", "label", "milestone", "assignee"]),
        ("pull_request_review", &["pull_request", "review"]),
        ("pull_request_review_comment", &["pull_request", "comment"]),
        ("push", &["ref", "before", "after", "commits", "head_commit", "pusher", "compare"]),
        ("release", &["release", "changes"]),
        ("status", &["id", "sha", "name", "context", "state", "commit", "branches", "description"]),
        ("workflow_job", &["workflow_job", "deployment"]),
        ("workflow_run", &["workflow_run", "workflow"]),
    ];

    fn payload(fields: &[&str]) -> Value {
        let common = ["action", "repository", "organization", "installation", "enterprise", "sender"];
        common.iter().chain(fields).map(|field| ((*field).to_owned(), json!({ "id": 1 }))).collect()
    }

    #[test]
    fn payload_fits_no_other_event() {
        for (sent, fields) in PAYLOADS {
            let body = payload(fields);
            assert!(can_have_payload(sent, &body), "{sent}");
            for Shape { event, .. } in SPECIFIC.iter().chain(&GENERIC) {
                assert!(*event == sent || !can_have_payload(event, &body), "{sent} as {event}");
            }
        }
    }

    #[test]
    fn generic_payload_fits_generic_events_only() {
        let body = payload(&["changes"]);
        let fitting = SPECIFIC.iter().chain(&GENERIC).filter(|shape| can_have_payload(shape.event, &body));
        let fitting: BTreeSet<&str> = fitting.map(|shape| shape.event).collect();
        assert_eq!(fitting, GENERIC.iter().map(|shape| shape.event).collect());
    }

    #[test]
    fn alert_events_differ_in_their_alert() {
        let alert = |field: &str| json!({ "action": "created", "alert": { "number": 1, field: "a" } });
        let events = [
            ("dependabot_alert", "dependency"),
            ("repository_vulnerability_alert", "affected_range"),
            ("secret_scanning_alert", "secret_type"),
        ];
        for (event, _) in events {
            for (sent, field) in events {
                assert_eq!(can_have_payload(event, &alert(field)), event == sent, "{sent} as {event}");
            }
        }
    }

    #[test]
    fn null_field_identifies_no_other_event() {
        let mut body = payload(&["deployment"]);
        body["deployment_status"] = Value::Null;
        assert!(can_have_payload("deployment", &body));
    }

    #[test]
    fn unlisted_event_has_any_payload() {
        assert!(can_have_payload("an_event_of_next_year", &payload(&["pull_request"])));
    }
}
