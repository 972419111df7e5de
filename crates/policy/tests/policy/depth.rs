//! No bundle overflows the stack of the thread that parses or evaluates it: a stack overflow aborts the process with the
//! runs of all tenants.

use std::thread;

use countersign_policy::PolicyBundle;
use domain::Ruling;

use crate::case::Case;
use crate::files::files;

/// The default stack size of a thread.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// A chain of rules, each used by the previous one, each with an expression of depth `nesting`.
fn chain(rules: usize, nesting: usize) -> String {
    let nested = |inner: String| format!("{}{inner}{}", "[".repeat(nesting), "][0]".repeat(nesting));
    let functions: Vec<String> = (0..rules)
        .map(|i| format!("f{i}(x) := y if {{ y := {} }}", nested(format!("f{}(x)", i + 1))))
        .collect();
    let rules_text: Vec<String> =
        (0..rules).map(|i| format!("r{i} := y if {{ y := {} }}", nested(format!("r{}", i + 1)))).collect();
    format!(
        "package countersign\n{}\nf{rules}(x) := x\n{}\nr{rules} := 1\n\
         allow contains {{\"rule\": \"r\", \"message\": \"s\"}} if {{ f0(1) == 1; r0 == 1 }}\n",
        functions.join("\n"),
        rules_text.join("\n")
    )
}

fn parsed(rules: usize, nesting: usize) -> Option<PolicyBundle> {
    PolicyBundle::parse(files(&[("p.rego", &chain(rules, nesting))])).ok()
}

/// The longest accepted chain for expressions of depth `nesting`.
fn deepest(nesting: usize) -> (usize, PolicyBundle) {
    (1..200).map_while(|rules| Some((rules, parsed(rules, nesting)?))).last().unwrap()
}

#[test]
fn deepest_bundles_fit_on_a_thread_stack() {
    for nesting in [0, 1, 4, 12] {
        let (rules, bundle) = deepest(nesting);
        assert!(rules < 199, "the depth is limited");
        assert_eq!(evaluated(bundle), Ruling::Allow, "{rules} rules nested {nesting} deep");
    }
}

fn evaluated(bundle: PolicyBundle) -> Ruling {
    let evaluation = move || bundle.evaluate(&Case::default().request()).ruling;
    thread::Builder::new().stack_size(STACK_BYTES).spawn(evaluation).unwrap().join().unwrap()
}

#[test]
fn maximum_loops_fit_on_a_thread_stack() {
    let loops = |count: usize| {
        let loops: Vec<String> = (0..count).map(|i| format!("some a{i} in [1]")).collect();
        let rule = "allow contains {\"rule\": \"r\", \"message\": \"s\"} if";
        PolicyBundle::parse(files(&[(
            "p.rego",
            &format!("package countersign\n{rule} {{\n{}\n}}\n", loops.join("\n")),
        )]))
        .ok()
    };
    let bundle = (1..200).map_while(loops).last().unwrap();
    assert_eq!(evaluated(bundle), Ruling::Allow);
    assert!(loops(200).is_none());
}

#[test]
fn text_that_would_overflow_the_parser_is_refused() {
    for (link, closed) in
        [("- ", ""), ("1 +\n", ""), ("{1} |\n", ""), ("1 in\n", ""), ("abs(", ")"), ("[", "]"), ("{", "}")]
    {
        for links in [200, 5000] {
            let chain = format!("{}1{}", link.repeat(links), closed.repeat(links));
            // Line breaks keep each line below the parser's limit on line length.
            let text =
                format!("package countersign\nx := {}\n", chain.replace('(', "(\n").replace("- ", "-\n"));
            assert!(PolicyBundle::parse(files(&[("p.rego", &text)])).is_err(), "{link:?}");
        }
    }
    for link in [".a", "[0]", "[\n0\n]"] {
        let text = format!("package countersign\ny := [1]\nx := y{}\n", link.repeat(300));
        assert!(PolicyBundle::parse(files(&[("p.rego", &text)])).is_err(), "{link:?}");
    }
}
