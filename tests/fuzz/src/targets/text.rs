//! What administrators and authors write: workflows, expressions and policies.

use std::collections::BTreeMap;
use std::sync::Arc;

use domain::json;
use domain::plan::{Environment, Phase};
use domain::{
    Action, ActionOrigin, BlastRadius, EffectClass, IdempotencyKey, Plan, Reversibility, StepId, ToolName,
    WorkflowName, WorkspaceId,
};
use policy::{CapUsage, PolicyBundle, PolicyRequest, RunContext, StepContext};
use serde_json::{Value, json};
use workflow::{BindError, CompiledPlan, InvalidTemplate, Scope, Template, parse_for};

use super::{Execute, FuzzTarget, ensure, files};

pub(super) const WORKFLOW: FuzzTarget = FuzzTarget {
    name: "workflow",
    corpus: || files("examples/workflows", "yaml"),
    words: &[
        "workflow: ",
        "version: 1\n",
        "trigger: ",
        "steps:\n",
        "  - id: ",
        "    tool: ",
        "    with:\n",
        "    when: ",
        "${ trigger.body.text }",
        "${ steps.a.b }",
        "approval.gate",
        "wait.event",
        "http.request",
        "servicenow.update",
        "rollback:\n",
        "retry: ",
        "validation: ",
        "blast_radius: high\n",
        "environment: prod\n",
        "concurrency: ",
        "&a ",
        "*a",
        "<<: *a",
        "!!str ",
        "|\n",
        ">-\n",
        "---\n",
        "? ",
        "{a: b}",
        "# ",
        "\t",
        "cron: \"* * * * *\"",
    ],
    open: workflow,
    executions: 5_000,
};

/// A workflow that is accepted compiles, and its plan survives the store.
fn workflow() -> Execute {
    let engine = testkit::engine().standard_tools().build();
    let tools = engine.tenant_handle(&testkit::acme(), &testkit::ada()).tools();
    Box::new(move |input| {
        let source = String::from_utf8_lossy(input);
        let parsed = parse_for(&source, &tools);
        ensure(parse_for(&source, &tools) == parsed, "a second parse differs")?;
        let plan = match parsed {
            Ok(plan) => plan,
            Err(error) => {
                let rendered = error.render(&source);
                ensure(!rendered.is_empty(), "an error has no text")?;
                return Ok(error.kind.to_string());
            }
        };
        let stored = serde_json::to_vec(&plan).map_err(|error| error.to_string())?;
        let loaded: Plan = serde_json::from_slice(&stored).map_err(|error| error.to_string())?;
        ensure(loaded == plan, "the stored plan differs")?;
        ensure(loaded.hash() == plan.hash(), "the stored plan has another hash")?;
        CompiledPlan::compile(plan).map_err(|error| format!("an accepted plan does not compile: {error}"))?;
        Ok("accepted".to_owned())
    })
}

pub(super) const TEMPLATE: FuzzTarget = FuzzTarget {
    name: "template",
    corpus: Vec::new,
    words: &[
        "${ ",
        " }",
        "trigger.",
        "steps.read.",
        "run.id",
        "size(",
        ".map(x, ",
        ".filter(x, ",
        ".all(x, ",
        ".exists(x, ",
        "has(",
        ".matches('",
        "\\w",
        "[^",
        "{1,1000}",
        "(?i)",
        " in ",
        " ? ",
        " : ",
        " && ",
        " || ",
        "!",
        "-",
        "[0]",
        "int(",
        "string(",
        "double(",
        "uint(",
        "bytes(",
        "type(",
        "dyn(",
        "1u",
        "0x7fffffffffffffff",
        "b'a'",
        "r'",
        "'''",
    ],
    open: template,
    executions: 30_000,
};

/// A template has one value for a scope.
fn template() -> Execute {
    let rows: Vec<Value> = (0..20).map(|n| json!({"n": n, "text": "é".repeat(n)})).collect();
    let scope = Scope {
        trigger: Some(Arc::new(
            json!({"text": "the disk is full", "items": rows, "deep": {"a": {"b": [1, 2.5, null]}}}),
        )),
        steps: BTreeMap::from([(StepId::new("read").unwrap(), Arc::new(json!({"rows": rows, "count": 20})))]),
        run: Arc::new(
            json!({"id": "r", "tenant": "acme", "version": 1, "created_at_ms": 1_700_000_000_000_u64}),
        ),
    };
    Box::new(move |input| {
        let text = String::from_utf8_lossy(input);
        let value = serde_json::from_str(&text).unwrap_or_else(|_| Value::from(text));
        let template = match Template::compile(&value) {
            Ok(template) => template,
            Err(InvalidTemplate::Expression { error, .. }) => return Ok(error.to_string()),
            Err(error) => return Ok(error.to_string()),
        };
        let bound = template.bind(&scope);
        ensure(template.bind(&scope) == bound, "a second binding differs")?;
        match bound {
            Ok(value) => {
                let text = json::canonical(&value);
                let again: Value = serde_json::from_slice(&text).map_err(|error| error.to_string())?;
                ensure(json::canonical(&again) == text, "the canonical form is not stable")?;
                Ok(format!("bound {}", kind(&value)))
            }
            Err(BindError::Expression { error, .. }) => Ok(error.to_string()),
            Err(error) => Ok(error.to_string()),
        }
    })
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "list",
        Value::Object(_) => "map",
    }
}

pub(super) const POLICY: FuzzTarget = FuzzTarget {
    name: "policy",
    corpus: || files("examples/policies", "rego"),
    words: &[
        "package countersign\n",
        "import data.",
        "deny contains ",
        "allow contains ",
        "needs_approval contains ",
        "{\"rule\": \"a\", \"message\": \"m\"}",
        " if ",
        " if {\n",
        "}\n",
        "not ",
        "some x in ",
        "every x in ",
        " with input as ",
        "input.action.tool",
        "input.action.values.a",
        "reads := [\"a\"]\n",
        "else := ",
        "default a := 1\n",
        ":= ",
        " = ",
        " == ",
        "regex.match(`\\w`, ",
        "net.cidr_contains(\"10.0.0.0/8\", ",
        "sprintf(\"%v\", [",
        "glob.match(\"*\", [], ",
        "count(",
        "strings.count(\"a\", \"\")",
        "object.get(",
        "{x | ",
        "[x | ",
        "| ",
        "& ",
        "- ",
        "[_]",
        "f(x) := ",
    ],
    open: policy,
    executions: 6_000,
};

/// A bundle that is accepted gives the same verdict each time.
fn policy() -> Execute {
    let action = Action {
        tool: ToolName::new("servicenow.update").unwrap(),
        contract: 1,
        class: EffectClass::CompareAndSet,
        reversibility: Reversibility::Inverse,
        target: "incident/9d38".to_owned(),
        key: IdempotencyKey::new("sn:incident:update:9d38").unwrap(),
        key_retention: None,
        fields: json!({"table": "incident", "a": "é", "fields": {"urgency": 1}}),
        changes: Vec::new(),
        destructive: false,
        estimate_microusd: None,
        connection: None,
    };
    let (step, tenant) = (StepId::new("assign").unwrap(), testkit::acme());
    let (workspace, name) = (WorkspaceId::new("default").unwrap(), WorkflowName::new("triage").unwrap());
    Box::new(move |input| {
        let text = String::from_utf8_lossy(input).into_owned();
        let files = BTreeMap::from([("policy.rego".to_owned(), text)]);
        let bundle = match PolicyBundle::parse(files.clone()) {
            Ok(bundle) => bundle,
            Err(error) => {
                ensure(!error.render(&files).is_empty(), "an error has no text")?;
                return Ok(error.kind.to_string());
            }
        };
        let request = PolicyRequest {
            action: &action,
            step: StepContext {
                id: &step,
                blast_radius: BlastRadius::Low,
                critical: false,
                phase: Phase::Main,
                rollback: false,
                origin: ActionOrigin::Forward,
                attempt: 1,
            },
            run: RunContext {
                tenant: &tenant,
                workspace: &workspace,
                workflow: &name,
                version: 1,
                environment: Environment::Prod,
                trigger: "cli",
                requester: None,
            },
            caps: CapUsage { writes_done: 0, writes_max: 64 },
        };
        let verdict = bundle.evaluate(&request);
        let reason = verdict.reasons.first().map(|reason| reason.message.clone()).unwrap_or_default();
        // A busy machine may pass the time limit once.
        if !reason.contains("timed out") {
            ensure(bundle.explain(&request).verdict == verdict, "the explained verdict differs")?;
        }
        Ok(format!("{:?} {reason}", std::mem::discriminant(&verdict.ruling)))
    })
}
