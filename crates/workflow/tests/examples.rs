//! The files in `examples/workflows` are valid workflows.
#![expect(clippy::unwrap_used, reason = "test code")]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use countersign_workflow::{CompiledPlan, CompiledWork, Scope, parse};
use domain::{Plan, StepSeq, ToolName};
use serde_json::json;

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/workflows");
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

fn plan(path: &Path) -> Plan {
    let tools: BTreeSet<ToolName> = [
        "transform",
        "http.request",
        "servicenow.get",
        "servicenow.update",
        "servicenow.work_note",
        "model.converse",
    ]
    .map(|tool| tool.parse().unwrap())
    .into();
    let source = std::fs::read_to_string(path).unwrap();
    let plan = parse(&source, &tools);
    plan.map_err(|error| format!("{}\n{}", path.display(), error.render(&source))).unwrap()
}

#[test]
fn examples_are_workflows_named_like_their_files() {
    assert!(files().len() >= 3);
    for path in files() {
        let plan = plan(&path);
        assert_eq!(Some(plan.workflow.as_str()), path.file_stem().and_then(|stem| stem.to_str()));
        assert!(CompiledPlan::compile(plan).is_ok());
    }
}

#[test]
fn five_steps_bind_to_earlier_outputs() {
    let path = files().into_iter().find(|path| path.ends_with("five-steps.yaml")).unwrap();
    let compiled = CompiledPlan::compile(plan(&path)).unwrap();
    let scope = Scope {
        trigger: Some(Arc::new(json!({"service": "orders", "limit_ms": 250}))),
        steps: [
            ("target".parse().unwrap(), Arc::new(json!({"name": "orders", "base": "https://httpbin.org"}))),
            ("probe".parse().unwrap(), Arc::new(json!({"status": 200, "body": {"url": "u"}, "headers": {}}))),
            ("verdict".parse().unwrap(), Arc::new(json!({"healthy": true, "text": "ok"}))),
            ("report".parse().unwrap(), Arc::new(json!({"status": 200, "body": {"json": {}}}))),
        ]
        .into(),
        run: Arc::new(json!({"id": "run-1", "workflow": "five-steps", "version": 1})),
    };
    for seq in 0..compiled.plan().steps.len() {
        let step = compiled.step(StepSeq(u16::try_from(seq).unwrap())).unwrap();
        let CompiledWork::Call(template) = &step.work else { unreachable!("every step is a call") };
        template.bind(&scope).unwrap_or_else(|e| unreachable!("step {seq}: {e}"));
    }
}
