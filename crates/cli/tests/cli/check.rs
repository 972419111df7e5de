//! `workflow check`: the location, the excerpt and the fix.

use crate::test_env::TestEnv;

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
fn valid_workflow_is_summarized() {
    let env = TestEnv::new();
    env.write("good.yaml", GOOD);
    let answer =
        env.run("workflow check good.yaml").expect(0).prints("good.yaml: workflow good, version 2, 2 steps");
    let rows: Vec<Vec<&str>> = answer.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["1", "shape", "transform", "read_only", "trigger"]), "{rows:?}");
    assert!(rows.contains(&vec!["2", "post", "http.request", "opaque", "shape"]), "{rows:?}");
}

#[test]
fn invalid_workflow_shows_line_column_and_caret() {
    let env = TestEnv::new();
    env.write("bad.yaml", BAD);
    let answer = env.run("workflow check bad.yaml").expect(2);
    assert_eq!(
        answer.err,
        "error: bad.yaml, workflow `bad`, step `shape`, line 5, column 5: unknown field `tol` in a step; did you mean \
         `tool`?\n  |\n5 |     tol: transform\n  |     ^\n"
    );
    let error = env.run("workflow check bad.yaml --json").expect(2).error();
    assert_eq!(error["location"], serde_json::json!({ "file": "bad.yaml", "line": 5, "column": 5 }));
}

#[test]
fn invalid_file_does_not_hide_the_others() {
    let env = TestEnv::new();
    env.write("good.yaml", GOOD);
    env.write("bad.yaml", BAD);
    let answer = env.run("workflow check bad.yaml good.yaml missing.yaml").expect(2);
    answer
        .prints("workflow good")
        .prints("line 5, column 5")
        .prints("cannot read missing.yaml")
        .prints("2 of 3 files are invalid");
}

#[test]
fn binary_or_oversized_file_is_refused() {
    let env = TestEnv::new();
    env.write("binary.yaml", b"workflow: \xff\xfe");
    env.run("workflow check binary.yaml").expect(2).prints("binary.yaml is not UTF-8 text");
    env.write("large.yaml", vec![b'#'; 4 * 1024 * 1024]);
    env.run("workflow check large.yaml").expect(2).prints("large.yaml is larger than");
    env.run("workflow check .").expect(2).prints("caused by: ");
}

#[test]
fn invalid_workflow_starts_no_run() {
    let env = TestEnv::new();
    env.write("bad.yaml", BAD);
    env.run("run start bad.yaml").expect(2).prints("line 5, column 5");
    env.run("run list").expect(3).prints("the store countersign.db does not exist");
}
