//! `workflow check`: the place, the line and the way out.

use crate::shell::Shell;

const GOOD: &str = "\
workflow: good
version: 2
steps:
  - { id: shape, tool: transform, with: { value: \"${ trigger.a }\" } }
  - { id: post, tool: http.request, with: { method: POST, url: \"https://example.com/${ steps.shape }\" } }
";

const BAD: &str = "\
workflow: bad
version: 1
steps:
  - id: shape
    tol: transform
";

#[test]
fn a_good_workflow_is_summed_up() {
    let shell = Shell::new();
    shell.write("good.yaml", GOOD);
    let answer =
        shell.run("workflow check good.yaml").expect(0).says("good.yaml: workflow good, version 2, 2 steps");
    let rows: Vec<Vec<&str>> = answer.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["1", "shape", "transform", "read_only", "trigger"]), "{rows:?}");
    assert!(rows.contains(&vec!["2", "post", "http.request", "opaque", "shape"]), "{rows:?}");
}

#[test]
fn a_bad_workflow_is_told_with_line_column_and_caret() {
    let shell = Shell::new();
    shell.write("bad.yaml", BAD);
    let answer = shell.run("workflow check bad.yaml").expect(2);
    assert_eq!(
        answer.err,
        "error: bad.yaml, line 5, column 5: unknown field `tol` in a step; expected one of `id`, `tool`, `with`, \
         `retry`, `blast_radius`, `critical`, `phase`, `on_reject`, `confidence`, `rollback`\n  |\n5 |     tol: transform\n  |     ^\n"
    );
    let error = shell.run("workflow check bad.yaml --json").expect(2).error();
    assert_eq!(error["place"], serde_json::json!({ "file": "bad.yaml", "line": 5, "column": 5 }));
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let shell = Shell::new();
    shell.write("good.yaml", GOOD);
    shell.write("bad.yaml", BAD);
    let answer = shell.run("workflow check bad.yaml good.yaml missing.yaml").expect(2);
    answer
        .says("workflow good")
        .says("line 5, column 5")
        .says("missing.yaml cannot be read")
        .says("2 of 3 files");
}

#[test]
fn a_file_that_is_no_text_or_too_large_is_refused() {
    let shell = Shell::new();
    shell.write("binary.yaml", b"workflow: \xff\xfe");
    shell.run("workflow check binary.yaml").expect(2).says("binary.yaml is not UTF-8 text");
    shell.write("large.yaml", vec![b'#'; 4 * 1024 * 1024]);
    shell.run("workflow check large.yaml").expect(2).says("large.yaml has more than");
    shell.run("workflow check .").expect(2).says("caused by: ");
}

#[test]
fn a_bad_workflow_starts_nothing() {
    let shell = Shell::new();
    shell.write("bad.yaml", BAD);
    shell.run("run start bad.yaml").expect(2).says("line 5, column 5");
    shell.run("run list").expect(3).says("there is no store countersign.db");
}
