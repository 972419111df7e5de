//! No bundle exhausts the stack of the thread that parses or asks it: that would end the process, and with it
//! everybody's runs.

use std::thread;

use countersign_policy::Bundle;
use domain::Ruling;

use crate::case::Case;
use crate::files::files;

/// The stack that a thread gets unless somebody asks for another.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// A chain of rules, each needed by the one before it, each with an expression nested so deep.
fn chain(rules: usize, nesting: usize) -> String {
    let nested = |inner: String| format!("{}{inner}{}", "[".repeat(nesting), "][0]".repeat(nesting));
    let functions: Vec<String> = (0..rules)
        .map(|i| format!("f{i}(x) := y if {{ y := {} }}", nested(format!("f{}(x)", i + 1))))
        .collect();
    let rules_text: Vec<String> =
        (0..rules).map(|i| format!("r{i} := y if {{ y := {} }}", nested(format!("r{}", i + 1)))).collect();
    format!(
        "package countersign\n{}\nf{rules}(x) := x\n{}\nr{rules} := 1\n\
         allow contains {{\"rule\": \"r\", \"says\": \"s\"}} if {{ f0(1) == 1; r0 == 1 }}\n",
        functions.join("\n"),
        rules_text.join("\n")
    )
}

fn parsed(rules: usize, nesting: usize) -> Option<Bundle> {
    Bundle::parse(files(&[("p.rego", &chain(rules, nesting))])).ok()
}

/// The longest chain that is taken, for expressions nested so deep.
fn deepest(nesting: usize) -> (usize, Bundle) {
    (1..200).map_while(|rules| Some((rules, parsed(rules, nesting)?))).last().unwrap()
}

#[test]
fn the_deepest_bundles_are_judged_on_the_stack_of_a_thread() {
    for nesting in [0, 1, 4, 12] {
        let (rules, bundle) = deepest(nesting);
        assert!(rules < 199, "somewhere there is an end");
        assert_eq!(judged(bundle), Ruling::Allow, "{rules} rules nested {nesting} deep");
    }
}

fn judged(bundle: Bundle) -> Ruling {
    let judging = move || bundle.judge(&Case::default().facts()).ruling;
    thread::Builder::new().stack_size(STACK_BYTES).spawn(judging).unwrap().join().unwrap()
}

#[test]
fn as_many_loops_as_are_taken_are_run_on_the_stack_of_a_thread() {
    let loops = |count: usize| {
        let loops: Vec<String> = (0..count).map(|i| format!("some a{i} in [1]")).collect();
        let rule = "allow contains {\"rule\": \"r\", \"says\": \"s\"} if";
        Bundle::parse(files(&[(
            "p.rego",
            &format!("package countersign\n{rule} {{\n{}\n}}\n", loops.join("\n")),
        )]))
        .ok()
    };
    let bundle = (1..200).map_while(loops).last().unwrap();
    assert_eq!(judged(bundle), Ruling::Allow);
    assert!(loops(200).is_none());
}

#[test]
fn a_text_that_would_exhaust_the_parser_is_refused() {
    for (link, closed) in
        [("- ", ""), ("1 +\n", ""), ("{1} |\n", ""), ("1 in\n", ""), ("abs(", ")"), ("[", "]"), ("{", "}")]
    {
        for links in [200, 5000] {
            let chain = format!("{}1{}", link.repeat(links), closed.repeat(links));
            // Lines have a bound of their own, which is not the one that is tried here.
            let text =
                format!("package countersign\nx := {}\n", chain.replace('(', "(\n").replace("- ", "-\n"));
            assert!(Bundle::parse(files(&[("p.rego", &text)])).is_err(), "{link:?}");
        }
    }
    for link in [".a", "[0]", "[\n0\n]"] {
        let text = format!("package countersign\ny := [1]\nx := y{}\n", link.repeat(300));
        assert!(Bundle::parse(files(&[("p.rego", &text)])).is_err(), "{link:?}");
    }
}
