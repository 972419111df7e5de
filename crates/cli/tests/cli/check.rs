//! `workflow check`: the location, the excerpt and the fix.

use crate::env::CliEnv;

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
    let env = CliEnv::new();
    env.write("good.yaml", GOOD);
    let answer =
        env.run("workflow check good.yaml").expect(0).prints("good.yaml: workflow good, version 2, 2 steps");
    let rows: Vec<Vec<&str>> = answer.out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert!(rows.contains(&vec!["1", "shape", "transform", "pure", "trigger"]), "{rows:?}");
    assert!(rows.contains(&vec!["2", "post", "http.request", "opaque", "shape"]), "{rows:?}");
}

#[test]
fn tab_is_reported_where_it_is() {
    let env = CliEnv::new();
    for (text, line) in [
        ("workflow: w\nversion: 1\nsteps:\n  - id: a\n\ttool: transform\n", 5),
        ("workflow: w\nversion: 1\nsteps:\n  - id: a\n    tool: transform\n    with:\n\t  value: 1\n", 7),
    ] {
        env.write("w.yaml", text);
        let refused = env.run("workflow check w.yaml").expect(2);
        refused.prints(&format!("line {line}, column 1: the indentation contains a tab; use spaces"));
    }
}

#[test]
fn misspelled_tool_field_is_refused() {
    let env = CliEnv::new();
    let misspelled = |with: &str| {
        format!(
            "workflow: w\nversion: 1\nsteps:\n  - id: post\n    tool: http.request\n    with:\n      url: 'https://example.com/'\n      {with}\n"
        )
    };
    env.write("w.yaml", misspelled("metod: POST"));
    let answer = env.run("workflow check w.yaml").expect(2);
    answer
        .prints("line 8, column 7")
        .prints("unknown field `metod` in `with` of `http.request`; did you mean `method`?");
    env.write("w.yaml", misspelled("method: POST"));
    env.run("workflow check w.yaml").expect(0).prints("opaque");
    let rollback = "    rollback: { tool: http.request, with: { uri: 'https://example.com/' } }";
    env.write("w.yaml", format!("{}{rollback}\n", misspelled("method: POST")));
    env.run("workflow check w.yaml").expect(2).prints("did you mean `url`?");
}

#[test]
fn invalid_workflow_shows_line_column_and_caret() {
    let env = CliEnv::new();
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
    let env = CliEnv::new();
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
    let env = CliEnv::new();
    env.write("binary.yaml", b"workflow: \xff\xfe");
    env.run("workflow check binary.yaml").expect(2).prints("binary.yaml is not UTF-8 text");
    env.write("large.yaml", vec![b'#'; 4 * 1024 * 1024]);
    env.run("workflow check large.yaml").expect(2).prints("large.yaml is larger than");
    env.run("workflow check .").expect(2).prints("caused by: ");
}

#[test]
fn invalid_workflow_starts_no_run() {
    let env = CliEnv::new();
    env.write("bad.yaml", BAD);
    env.run("run start bad.yaml").expect(2).prints("line 5, column 5");
    env.run("run list").expect(3).prints("the store countersign.db does not exist");
}
