//! Every statement that allows an action lists its actions and its resources.

use hcl_edit::expr::{Expression, Object};
use hcl_edit::structure::{Block, Body};

use crate::module::{
    Module, assert_reported, entry, fixture, infra, keys, label, objects, text, text_of, value,
};

/// These actions do not support resources; their statements use `*` and contain no other action.
const WITHOUT_RESOURCE: [&str; 3] =
    ["ecr:GetAuthorizationToken", "xray:PutTraceSegments", "xray:PutTelemetryRecords"];

/// Prefixes that a `/*` may follow: the objects of one bucket.
const BUCKETS: [&str; 3] = ["${aws_s3_bucket.", "${var.payloads.arn}", "${var.evidence.arn}"];

/// Lists from the caller of the module, whose variable refuses wildcards.
const CALLER_LISTS: [&str; 2] = ["statement.value.actions", "statement.value.resources"];

/// The modules with such a variable, and the terraform tests of each.
const TAKING_STATEMENTS: [&str; 2] = ["modules/ecs-service", "modules/function"];
const REFUSING_WILDCARDS: [&str; 3] =
    ["rejects_a_wildcard_action", "rejects_a_wildcard_resource", "rejects_the_objects_of_every_bucket"];

#[test]
fn every_statement_is_specific() {
    assert_eq!(faults(&infra()), [""; 0]);
}

#[test]
fn every_wildcard_is_reported() {
    for (statement, words) in [
        (r#"actions = ["sqs:*"]"#, "`sqs:*` is not a single action"),
        (r#"actions = ["*"]"#, "`*` is not a single action"),
        (r#"actions = ["sqs:Send*"]"#, "`sqs:Send*` is not a single action"),
        ("actions = local.any", "`s3:*` is not a single action"),
        ("actions = local.sets.any", "`* of local.sets.any` is not a single action"),
        (r#"resources = local.sets["any"]"#, "is not a single resource"),
        (r#"actions = ["sqs:SendMessage"]"#, "no resources"),
        (r#"resources = ["*"]"#, "no actions"),
        ("actions = [\"sqs:SendMessage\"]\nresources = [\"*\"]", "`*` is not a single resource"),
        ("actions = [\"sqs:SendMessage\"]\nresources = [\"${var.arn}*\"]", "is not a single resource"),
        ("actions = [\"dynamodb:Query\"]\nresources = [\"${var.arn}/index/*\"]", "is not a single resource"),
        ("actions = [\"s3:GetObject\"]\nresources = [\"arn:aws:s3:::*/*\"]", "is not a single resource"),
        (
            "actions = [\"ecr:GetAuthorizationToken\", \"ecr:BatchGetImage\"]\nresources = [\"*\"]",
            "`*` is not",
        ),
        ("not_actions = [\"sqs:SendMessage\"]", "uses not_actions or not_resources"),
        (
            "actions = [\"sqs:SendMessage\"]\nresources = [var.arn]\nprincipals {\nidentifiers = [\"*\"]\n}",
            "every principal",
        ),
    ] {
        let document = "locals {\nany = [\"s3:*\"]\n}\ndata \"aws_iam_policy_document\" \"a\" {\n";
        let plain = format!("{document}statement {{\n{statement}\n}}\n}}");
        let dynamic = format!("{document}dynamic \"statement\" {{\ncontent {{\n{statement}\n}}\n}}\n}}");
        assert_reported(&faults(&fixture(&plain)), words);
        assert_reported(&faults(&fixture(&dynamic)), words);
    }
}

#[test]
fn statements_in_locals_are_checked() {
    let in_locals = r#"locals { a = { b = [{ actions = ["sqs:*"], resources = ["*"] }] } }"#;
    assert_reported(&faults(&fixture(in_locals)), "`sqs:*` is not a single action");
    assert_reported(&faults(&fixture(in_locals)), "`*` is not a single resource");
}

#[test]
fn unreadable_policies_are_reported() {
    let raw = r#"locals { a = jsonencode({ Statement = [{ Action = "*" }] }) }"#;
    assert_reported(&faults(&fixture(raw)), "aws_iam_policy_document");
    let heredoc = "resource \"aws_iam_role_policy\" \"a\" {\npolicy = \"{}\"\n}";
    assert_reported(&faults(&fixture(heredoc)), "aws_iam_policy_document");
    for key in ["source_policy_documents", "override_policy_documents"] {
        let put_together = format!("data \"aws_iam_policy_document\" \"a\" {{\n{key} = [var.policy]\n}}");
        assert_reported(&faults(&fixture(&put_together)), "cannot be read here");
    }
    let attachment = r#"resource "aws_iam_role_policy_attachment" "a" {}"#;
    assert_reported(&faults(&fixture(attachment)), "cannot be read here");
}

#[test]
fn module_variables_refuse_wildcards() {
    let modules = infra();
    let lists = |module: &&Module| CALLER_LISTS.iter().any(|list| module.body().to_string().contains(list));
    let taking: Vec<&Module> = modules.iter().filter(lists).collect();
    assert_eq!(taking.iter().map(|module| module.path.as_str()).collect::<Vec<_>>(), TAKING_STATEMENTS);
    for module in taking {
        for test in REFUSING_WILDCARDS {
            assert!(module.tests.contains(&format!("run \"{test}\"")), "{} has no test {test}", module.path);
        }
    }
}

fn faults(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let mut faults: Vec<String> = Vec::new();
        let documents = module.blocks("data").filter(|block| label(block, 0) == "aws_iam_policy_document");
        for statement in documents.flat_map(statements) {
            faults.extend(statement_faults(module, &Statement::written(statement)));
        }
        for object in objects(module.body()) {
            faults.extend(object_faults(module, &object));
        }
        faults.extend(unreadable_policies(module));
        faults.into_iter().map(|fault| format!("{}: {fault}", module.path)).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// The actions that a module allows.
pub(crate) fn allowed(module: &Module) -> Vec<String> {
    let mut actions = Vec::new();
    let documents = module.blocks("data").filter(|block| label(block, 0) == "aws_iam_policy_document");
    for statement in documents.flat_map(statements).map(Statement::written).filter(|one| !one.denies) {
        actions.extend(list_members(module, statement.actions).unwrap_or_default());
    }
    for object in objects(module.body()) {
        actions.extend(list_members(module, entry(&object, "actions")).unwrap_or_default());
    }
    actions
}

/// The statements of a document, including dynamic ones.
fn statements(document: &Block) -> impl Iterator<Item = &Body> {
    let loops = document.body.get_blocks("dynamic").filter(|block| label(block, 0) == "statement");
    let made = loops.flat_map(|block| block.body.get_blocks("content"));
    document.body.get_blocks("statement").chain(made).map(|block| &block.body)
}

struct Statement<'s> {
    actions: Option<&'s Expression>,
    resources: Option<&'s Expression>,
    /// A `Deny` may be broad.
    denies: bool,
    /// The principals, if it names any.
    principals: Vec<String>,
    /// It uses `not_actions` or `not_resources`.
    inverted: bool,
}

impl<'s> Statement<'s> {
    fn written(body: &'s Body) -> Self {
        let named = body.get_blocks("principals").filter_map(|block| value(&block.body, "identifiers"));
        let inverted = ["not_actions", "not_resources"].iter().any(|key| value(body, key).is_some());
        Self {
            actions: value(body, "actions"),
            resources: value(body, "resources"),
            denies: text_of(body, "effect") == "Deny",
            principals: named.map(text).collect(),
            inverted,
        }
    }
}

fn statement_faults(module: &Module, statement: &Statement<'_>) -> Vec<String> {
    if statement.denies {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if statement.inverted {
        faults.push("a statement uses not_actions or not_resources".to_owned());
    }
    if statement.principals.iter().any(|who| who.contains("\"*\"")) {
        faults.push("a statement allows every principal".to_owned());
    }
    let actions = list_members(module, statement.actions);
    let single = |action: &String| !is_action(action);
    faults.extend(actions.iter().flatten().filter(|action| single(action)).map(|a| not_single(a, "action")));
    if actions.is_none() {
        faults.push("a statement has no actions".to_owned());
    }
    let without = actions.iter().flatten().all(|action| WITHOUT_RESOURCE.contains(&action.as_str()));
    match list_members(module, statement.resources) {
        // A trust policy has no resource: it belongs to its role.
        None if statement.principals.is_empty() => faults.push("a statement has no resources".to_owned()),
        None => {}
        Some(resources) => {
            let wide = resources.iter().filter(|arn| !(is_resource(arn) || without && *arn == "*"));
            faults.extend(wide.map(|arn| not_single(arn, "resource")));
        }
    }
    faults
}

fn not_single(what: &str, kind: &str) -> String {
    format!("`{what}` is not a single {kind}")
}

/// The elements of a list, if they can be read here.
fn list_members(module: &Module, expression: Option<&Expression>) -> Option<Vec<String>> {
    let expression = expression?;
    if let Some(array) = expression.as_array() {
        return Some(array.iter().map(text).collect());
    }
    let written = text(expression);
    if CALLER_LISTS.contains(&written.as_str()) {
        return Some(Vec::new());
    }
    match written.strip_prefix("local.") {
        // An unreadable list counts as a wildcard.
        Some(name) => {
            list_members(module, module.local(name)).or_else(|| Some(vec![format!("* of {written}")]))
        }
        None => Some(vec![written]),
    }
}

/// `service:Action` without a wildcard. Lists from the caller are validated by the variable.
fn is_action(action: &str) -> bool {
    let letters =
        |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    action.split_once(':').is_some_and(|(service, verb)| letters(service) && letters(verb))
}

/// One resource, the objects of one bucket, or the streams of one log group.
fn is_resource(arn: &str) -> bool {
    let one = |arn: &str| !arn.contains('*');
    if let Some(bucket) = arn.strip_suffix("/*") {
        return one(bucket) && BUCKETS.iter().any(|known| bucket.starts_with(known));
    }
    if let Some(group) = arn.strip_suffix(":log-stream:*") {
        return one(group) && group.starts_with("${aws_cloudwatch_log_group.");
    }
    one(arn)
}

fn object_faults(module: &Module, object: &Object) -> Vec<String> {
    let keys = keys(object);
    let has = |name: &str| keys.iter().any(|key| key == name);
    if has("Statement") || has("Action") {
        return vec!["write the policy as aws_iam_policy_document, so that it can be checked".to_owned()];
    }
    // The type of the variable that takes statements looks like a statement.
    let is_a_type = entry(object, "actions").is_some_and(|actions| text(actions) == "list(string)");
    if !(has("actions") && has("resources")) || is_a_type {
        return Vec::new();
    }
    let (actions, resources) = (entry(object, "actions"), entry(object, "resources"));
    statement_faults(
        module,
        &Statement { actions, resources, denies: false, principals: Vec::new(), inverted: false },
    )
}

/// Policies that do not come from a document checked above.
fn unreadable_policies(module: &Module) -> Vec<String> {
    let mut faults = Vec::new();
    for document in module.blocks("data").filter(|block| label(block, 0) == "aws_iam_policy_document") {
        let borrows = |key: &&str| value(&document.body, key).is_some();
        if ["source_policy_documents", "override_policy_documents"].iter().any(borrows) {
            faults
                .push(format!("{} includes a policy document that cannot be read here", label(document, 1)));
        }
    }
    for resource in module.blocks("resource") {
        let kind = label(resource, 0);
        if kind.ends_with("_policy_attachment") || value(&resource.body, "managed_policy_arns").is_some() {
            faults.push(format!("{kind}.{} attaches a policy that cannot be read here", label(resource, 1)));
        }
        for key in ["policy", "assume_role_policy"] {
            let policy = text_of(&resource.body, key);
            if !policy.is_empty() && !policy.starts_with("data.aws_iam_policy_document.") {
                faults.push(format!(
                    "the {key} of {kind}.{} is not from an aws_iam_policy_document",
                    label(resource, 1)
                ));
            }
        }
    }
    faults
}
