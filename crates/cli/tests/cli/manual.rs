//! What comes with the program: completions for shells, and a manual.

use crate::shell::Shell;

#[test]
fn every_shell_gets_completions_of_its_own() {
    let shell = Shell::new();
    for (name, words) in [
        ("bash", "complete -F _countersign"),
        ("zsh", "#compdef countersign"),
        ("fish", "complete -c countersign"),
        ("powershell", "Register-ArgumentCompleter"),
    ] {
        shell.run(&format!("completions {name}")).expect(0).says(words).says("timeline");
    }
    let script = shell.run("completions zsh --json").expect(0).json();
    assert!(script["script"].as_str().unwrap().starts_with("#compdef countersign"));
    shell.run("completions cmd").expect(2).says("possible values");
}

#[test]
fn every_command_has_a_page_in_the_manual() {
    let shell = Shell::new();
    shell.run("man").expect(0).says(".TH countersign 1");
    let written = shell.run("man --out pages --json").expect(0).json();
    let pages = written["pages"].as_array().unwrap();
    for name in ["countersign.1", "countersign-run-timeline.1", "countersign-approval-approve.1"] {
        assert!(pages.contains(&name.into()), "{name} is not in {pages:?}");
        let page = std::fs::read_to_string(shell.path("pages").join(name)).unwrap();
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
    }
    shell.run("man --out pages").expect(0).says("pages in pages");
}

#[test]
fn the_exit_codes_in_the_document_are_those_of_the_help() {
    let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/cli.md");
    let document = std::fs::read_to_string(document).unwrap();
    let rows: Vec<String> = document
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.strip_suffix(" |"))
        .filter(|row| row.starts_with(|c: char| c.is_ascii_digit()))
        .map(|row| row.replacen(" |", "", 1))
        .collect();
    assert_eq!(rows.len(), 5);
    let help = Shell::new().run("--help").expect(0).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for row in rows {
        assert!(help.contains(&row), "{row:?} is not in {help}");
    }
}
