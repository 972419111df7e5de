//! Shell completions and manual pages.

use crate::env::CliEnv;

#[test]
fn completions_exist_for_every_shell() {
    let env = CliEnv::new();
    for (name, words) in [
        ("bash", "complete -F _countersign"),
        ("zsh", "#compdef countersign"),
        ("fish", "complete -c countersign"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        env.run(&format!("completions {name}")).expect(0).prints(words).prints("timeline");
    }
    let script = env.run("completions zsh --json").expect(0).json();
    assert!(script["script"].as_str().unwrap().starts_with("#compdef countersign"));
    env.run("completions cmd").expect(2).prints("possible values");
}

#[test]
fn every_command_has_a_manual_page() {
    let env = CliEnv::new();
    env.run("man").expect(0).prints(".TH countersign 1");
    let written = env.run("man --out pages --json").expect(0).json();
    let pages = written["pages"].as_array().unwrap();
    for name in ["countersign.1", "countersign-run-timeline.1", "countersign-approval-approve.1"] {
        assert!(pages.contains(&name.into()), "{name} is not in {pages:?}");
        let page = std::fs::read_to_string(env.path("pages").join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    env.run("man --out pages").expect(0).prints("pages in pages");
}

#[test]
fn documented_exit_codes_match_help() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let document = std::fs::read_to_string(document).unwrap();
    let rows: Vec<String> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
        .map(|row| row.replacen(" |", "", 1))
        .collect();
    assert_eq!(rows.len(), 5);
    let help = CliEnv::new().run("--help").expect(0).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in rows {
        assert!(help.contains(&row), "{row:?} is not in {help}");
    }
}
