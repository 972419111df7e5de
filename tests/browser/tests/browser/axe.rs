//! Accessibility checks with axe-core.

use countersign_browser::Browser;
use countersign_browser::browser::target;
use serde_json::Value;

/// Installed by `cargo xtask test`.
const FILE: &str = "tools/axe/node_modules/axe-core/axe.min.js";

/// The serious and critical findings of axe-core.
pub(crate) fn findings(browser: &Browser) -> Vec<String> {
    let file = target().join(FILE);
    let axe = std::fs::read_to_string(&file).unwrap_or_else(|error| {
        panic!("read axe-core at {} (`cargo xtask test` installs it): {error}", file.display())
    });
    browser.run(&axe);
    let found = browser.run_async("axe.run().then(arguments[0], (error) => arguments[0](String(error)))");
    let violations =
        found["violations"].as_array().unwrap_or_else(|| panic!("axe-core did not run: {found}"));
    let serious = |finding: &&Value| matches!(finding["impact"].as_str(), Some("serious" | "critical"));
    violations.iter().filter(serious).map(describe).collect()
}

fn describe(finding: &Value) -> String {
    let nodes = finding["nodes"].as_array().map(Vec::as_slice).unwrap_or_default();
    let nodes: Vec<String> = nodes.iter().map(|node| node["html"].to_string()).collect();
    format!("{}: {}: {}", finding["id"], finding["help"], nodes.join(" "))
}
