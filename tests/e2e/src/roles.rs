//! The IAM permissions of each program, read from terraform.

use std::collections::BTreeSet;
use std::path::Path;

use hcl_edit::expr::{Expression, Object};
use hcl_edit::structure::Body;

/// An action of a service, and its resource: `sqs:SendMessage` on `ingest`.
pub type Grant = (String, String);

const PROGRAMS: &str = "../../infra/modules/programs/main.tf";

/// The statements that let a program use the customer managed key.
const KEYS: &str = "local.keys";

/// The statements that let the worker read the secrets of connections.
const CONNECTION_SECRETS: &str = "local.connection_secrets";

pub(crate) fn grant(service: &str, action: &str, on: &str) -> Grant {
    (format!("{service}:{action}"), on.to_owned())
}

/// Everything that `infra/modules/programs` allows a program.
pub fn granted(program: &str) -> BTreeSet<Grant> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(PROGRAMS);
    let body: Body = std::fs::read_to_string(path).unwrap().parse().unwrap();
    let locals = body.get_blocks("locals").next().unwrap();
    let statements = &locals.body.get_attribute("statements").unwrap().value;
    let lists = entry(statements.as_object().unwrap(), program).as_func_call().unwrap();
    let uses_keys = lists.args.iter().any(|list| expression_text(list) == KEYS);
    assert!(uses_keys, "{PROGRAMS}: {program} may not use the key that everything is encrypted with");
    lists.args.iter().flat_map(statement_list).collect()
}

/// Whether `granted` includes the grant. A grant on every index includes each index.
pub fn allows(granted: &BTreeSet<Grant>, (action, on): &Grant) -> bool {
    let on = if on.starts_with("index ") { vec![on.as_str(), "every index"] } else { vec![on.as_str()] };
    on.iter().any(|on| granted.contains(&(action.clone(), (*on).to_owned())))
}

fn statement_list(list: &Expression) -> Vec<Grant> {
    let Some(list) = list.as_array() else {
        return match expression_text(list).as_str() {
            // The brackets name the secret's program.
            secret if secret.starts_with("local.secret[") => {
                vec![grant("secretsmanager", "GetSecretValue", "secret")]
            }
            // Programs do not call KMS directly; the services call it for them. The other list is empty unless the
            // operator names secrets; a terraform test compares it with the names.
            KEYS | CONNECTION_SECRETS => Vec::new(),
            other => panic!("{PROGRAMS}: what does {other} allow?"),
        };
    };
    list.iter().filter_map(Expression::as_object).flat_map(statement).collect()
}

fn statement(statement: &Object) -> Vec<Grant> {
    let resources: Vec<String> = match entry(statement, "resources") {
        Expression::Array(list) => list.iter().flat_map(|one| named(&expression_text(one))).collect(),
        other => named(&expression_text(other)),
    };
    let actions = entry(statement, "actions").as_array().unwrap().iter().map(expression_text);
    actions.flat_map(|action| resources.iter().map(move |on| (action.clone(), on.clone()))).collect()
}

/// The short name of a resource.
fn named(resource: &str) -> Vec<String> {
    let queues = ["ingest", "decisions", "steps"];
    let between = |before: &str, after: &str| resource.strip_prefix(before)?.strip_suffix(after);
    match resource {
        "var.table.arn" => vec!["table".to_owned()],
        "values(var.table.index_arns)" => vec!["every index".to_owned()],
        "local.queue_arns" => queues.map(str::to_owned).into(),
        "local.dead_arns" => queues.map(|queue| format!("{queue}-dead")).into(),
        _ => {
            let index = between("var.table.index_arns[\"", "\"]").map(|index| format!("index {index}"));
            let queue = between("var.queues.", ".arn").map(str::to_owned);
            let objects = between("${var.", ".arn}/*").map(|bucket| format!("{bucket}/*"));
            let bucket = between("var.", ".arn").filter(|name| !name.contains('.')).map(str::to_owned);
            let name = index.or(queue).or(objects).or(bucket);
            vec![name.unwrap_or_else(|| panic!("{PROGRAMS}: what is {resource}?"))]
        }
    }
}

fn entry<'o>(object: &'o Object, name: &str) -> &'o Expression {
    let found = object.iter().find(|(key, _)| key.as_ident().is_some_and(|ident| ident.as_str() == name));
    found.unwrap_or_else(|| panic!("{PROGRAMS}: no {name}")).1.expr()
}

/// The text of an expression; a string without its quotes.
fn expression_text(expression: &Expression) -> String {
    let written = expression.to_string();
    let written = written.trim();
    let text = written.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    text.unwrap_or(written).to_owned()
}
