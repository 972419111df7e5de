//! Every statement that allows something lists its actions and its resources.

use hcl_edit::expr::{Expression, Object};
use hcl_edit::structure::{Block, Body};

use crate::module::{
    Module, assert_found, entry, fixture, infra, keys, label, objects, text, text_of, value,
};

/// AWS knows no resource for these; their statements say `*`, and hold nothing else.
const WITHOUT_RESOURCE: [&str; 3] =
    ["ecr:GetAuthorizationToken", "xray:PutTraceSegments", "xray:PutTelemetryRecords"];

/// What a `/*` may stand behind: the objects of one bucket have no names yet.
const BUCKETS: [&str; 3] = ["${aws_s3_bucket.", "${var.payloads.arn}", "${var.evidence.arn}"];

/// What is listed by whoever calls the module, whose variable refuses wildcards.
const LISTED_BY_THE_CALLER: [&str; 2] = ["statement.value.actions", "statement.value.resources"];

/// The modules that do, and how their variable refuses them.
const TAKING_STATEMENTS: [&str; 3] = ["modules/function", "modules/server", "modules/worker"];
const REFUSING_WILDCARDS: [&str; 2] = [
    r#"alltrue([for action in flatten(var.statements[*].actions) : can(regex("^[a-z0-9-]+:[A-Za-z]+$", action))])"#,
    r#"alltrue([for arn in flatten(var.statements[*].resources) : can(regex("^arn:[a-z-]+:s3:::[^*?/]+/\\*$", arn)) || can(regex("^arn:[^*?]+$", arn))])"#,
];

#[test]
fn every_statement_is_specific() {
    assert_eq!(faults(&infra()), [""; 0]);
}

#[test]
fn a_wildcard_is_found_wherever_it_stands() {
    for (statement, words) in [
        (r#"actions = ["sqs:*"]"#, "`sqs:*` is no single action"),
        (r#"actions = ["*"]"#, "`*` is no single action"),
        (r#"actions = ["sqs:Send*"]"#, "`sqs:Send*` is no single action"),
        ("actions = local.any", "`s3:*` is no single action"),
        ("actions = local.sets.any", "`* of local.sets.any` is no single action"),
        (r#"resources = local.sets["any"]"#, "is no single resource"),
        (r#"actions = ["sqs:SendMessage"]"#, "no resources"),
        (r#"resources = ["*"]"#, "no actions"),
        ("actions = [\"sqs:SendMessage\"]\nresources = [\"*\"]", "`*` is no single resource"),
        ("actions = [\"sqs:SendMessage\"]\nresources = [\"${var.arn}*\"]", "is no single resource"),
        ("actions = [\"dynamodb:Query\"]\nresources = [\"${var.arn}/index/*\"]", "is no single resource"),
        ("actions = [\"s3:GetObject\"]\nresources = [\"arn:aws:s3:::*/*\"]", "is no single resource"),
        (
            "actions = [\"ecr:GetAuthorizationToken\", \"ecr:BatchGetImage\"]\nresources = [\"*\"]",
            "`*` is no",
        ),
        ("not_actions = [\"sqs:SendMessage\"]", "says what it is not"),
        (
            "actions = [\"sqs:SendMessage\"]\nresources = [var.arn]\nprincipals {\nidentifiers = [\"*\"]\n}",
            "anybody",
        ),
    ] {
        let document = "locals {\nany = [\"s3:*\"]\n}\ndata \"aws_iam_policy_document\" \"a\" {\n";
        let plain = format!("{document}statement {{\n{statement}\n}}\n}}");
        let dynamic = format!("{document}dynamic \"statement\" {{\ncontent {{\n{statement}\n}}\n}}\n}}");
        assert_found(&faults(&fixture(&plain)), words);
        assert_found(&faults(&fixture(&dynamic)), words);
    }
}

#[test]
fn a_statement_that_is_handed_on_is_read_too() {
    let handed_on = r#"locals { a = { b = [{ actions = ["sqs:*"], resources = ["*"] }] } }"#;
    assert_found(&faults(&fixture(handed_on)), "`sqs:*` is no single action");
    assert_found(&faults(&fixture(handed_on)), "`*` is no single resource");
}

#[test]
fn a_policy_that_cannot_be_read_here_is_refused() {
    let raw = r#"locals { a = jsonencode({ Statement = [{ Action = "*" }] }) }"#;
    assert_found(&faults(&fixture(raw)), "aws_iam_policy_document");
    let heredoc = "resource \"aws_iam_role_policy\" \"a\" {\npolicy = \"{}\"\n}";
    assert_found(&faults(&fixture(heredoc)), "aws_iam_policy_document");
    for key in ["source_policy_documents", "override_policy_documents"] {
        let put_together = format!("data \"aws_iam_policy_document\" \"a\" {{\n{key} = [var.policy]\n}}");
        assert_found(&faults(&fixture(&put_together)), "a policy of somebody else");
    }
    let foreign_intent = r#"resource "aws_iam_role_policy_attachment" "a" {}"#;
    assert_found(&faults(&fixture(foreign_intent)), "a policy of somebody else");
}

#[test]
fn what_the_caller_lists_is_refused_with_a_wildcard() {
    let modules = infra();
    let lists =
        |module: &&Module| LISTED_BY_THE_CALLER.iter().any(|list| module.body().to_string().contains(list));
    let taking: Vec<&Module> = modules.iter().filter(lists).collect();
    assert_eq!(taking.iter().map(|module| module.path.as_str()).collect::<Vec<_>>(), TAKING_STATEMENTS);
    for module in taking {
        let variable = module.blocks("variable").find(|block| takes_statements(block)).unwrap();
        let rules: Vec<_> =
            variable.body.get_blocks("validation").map(|rule| text_of(&rule.body, "condition")).collect();
        for rule in REFUSING_WILDCARDS {
            assert!(rules.iter().any(|written| written == rule), "{} does not say {rule}", module.path);
        }
    }
}

fn takes_statements(variable: &Block) -> bool {
    label(variable, 0) == "statements"
}

fn faults(modules: &[Module]) -> Vec<String> {
    let per_module = |module: &Module| {
        let mut faults: Vec<String> = Vec::new();
        let documents = module.blocks("data").filter(|block| label(block, 0) == "aws_iam_policy_document");
        for statement in documents.flat_map(statements) {
            faults.extend(wrong(module, &Statement::written(statement)));
        }
        for object in objects(module.body()) {
            faults.extend(wrong_object(module, &object));
        }
        faults.extend(unread(module));
        faults.into_iter().map(|fault| format!("{}: {fault}", module.path)).collect::<Vec<_>>()
    };
    modules.iter().flat_map(per_module).collect()
}

/// The actions that a module allows anybody.
pub(crate) fn allowed(module: &Module) -> Vec<String> {
    let mut actions = Vec::new();
    let documents = module.blocks("data").filter(|block| label(block, 0) == "aws_iam_policy_document");
    for statement in documents.flat_map(statements).map(Statement::written).filter(|one| !one.denies) {
        actions.extend(listed(module, statement.actions).unwrap_or_default());
    }
    for object in objects(module.body()) {
        actions.extend(listed(module, entry(&object, "actions")).unwrap_or_default());
    }
    actions
}

/// The statements of a document, those made in a loop too.
fn statements(document: &Block) -> impl Iterator<Item = &Body> {
    let loops = document.body.get_blocks("dynamic").filter(|block| label(block, 0) == "statement");
    let made = loops.flat_map(|block| block.body.get_blocks("content"));
    document.body.get_blocks("statement").chain(made).map(|block| &block.body)
}

struct Statement<'s> {
    actions: Option<&'s Expression>,
    resources: Option<&'s Expression>,
    /// A refusal may be as wide as it likes.
    denies: bool,
    /// Whom it is about, where it says so.
    principals: Vec<String>,
    /// It names what it leaves out.
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

fn wrong(module: &Module, statement: &Statement<'_>) -> Vec<String> {
    if statement.denies {
        return Vec::new();
    }
    let mut faults = Vec::new();
    if statement.inverted {
        faults.push("a statement says what it is not about".to_owned());
    }
    if statement.principals.iter().any(|who| who.contains("\"*\"")) {
        faults.push("a statement allows something to anybody".to_owned());
    }
    let actions = listed(module, statement.actions);
    let single = |action: &String| !is_action(action);
    faults.extend(actions.iter().flatten().filter(|action| single(action)).map(|a| not_single(a, "action")));
    if actions.is_none() {
        faults.push("a statement has no actions".to_owned());
    }
    let without = actions.iter().flatten().all(|action| WITHOUT_RESOURCE.contains(&action.as_str()));
    match listed(module, statement.resources) {
        // Who may take a role is said without a resource: it is the role's own policy.
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
    format!("`{what}` is no single {kind}")
}

/// The members of a list, if they can be read here.
fn listed(module: &Module, expression: Option<&Expression>) -> Option<Vec<String>> {
    let expression = expression?;
    if let Some(array) = expression.as_array() {
        return Some(array.iter().map(text).collect());
    }
    let written = text(expression);
    if LISTED_BY_THE_CALLER.contains(&written.as_str()) {
        return Some(Vec::new());
    }
    match written.strip_prefix("local.") {
        // What cannot be read may hold anything.
        Some(name) => listed(module, module.local(name)).or_else(|| Some(vec![format!("* of {written}")])),
        None => Some(vec![written]),
    }
}

/// `service:Action`, written out. What the caller lists was checked where it came in.
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

fn wrong_object(module: &Module, object: &Object) -> Vec<String> {
    let keys = keys(object);
    let has = |name: &str| keys.iter().any(|key| key == name);
    if has("Statement") || has("Action") {
        return vec!["a policy is written as aws_iam_policy_document, where it can be read".to_owned()];
    }
    // The type of the variable that takes statements looks like one.
    let is_a_type = entry(object, "actions").is_some_and(|actions| text(actions) == "list(string)");
    if !(has("actions") && has("resources")) || is_a_type {
        return Vec::new();
    }
    let (actions, resources) = (entry(object, "actions"), entry(object, "resources"));
    wrong(module, &Statement { actions, resources, denies: false, principals: Vec::new(), inverted: false })
}

/// Policies that come from elsewhere than a document that was read above.
fn unread(module: &Module) -> Vec<String> {
    let mut faults = Vec::new();
    for document in module.blocks("data").filter(|block| label(block, 0) == "aws_iam_policy_document") {
        let borrows = |key: &&str| value(&document.body, key).is_some();
        if ["source_policy_documents", "override_policy_documents"].iter().any(borrows) {
            faults.push(format!("{} takes in a policy of somebody else", label(document, 1)));
        }
    }
    for resource in module.blocks("resource") {
        let kind = label(resource, 0);
        if kind.ends_with("_policy_attachment") || value(&resource.body, "managed_policy_arns").is_some() {
            faults.push(format!("{kind}.{} attaches a policy of somebody else", label(resource, 1)));
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
