//! The server's command, files, port and timeouts match the program.

use hcl_edit::expr::Expression;
use hcl_edit::structure::Block;

use crate::module::{Module, infra, label, source, text, text_of, value, value_in};

const SERVE: &str = "crates/cli/src/verb/serve/mod.rs";

#[test]
fn server_command_has_only_known_options() {
    let known =
        options_in(&source(SERVE)).chain(options_in(&source("crates/cli/src/common.rs"))).collect::<Vec<_>>();
    let given: Vec<String> = command().into_iter().filter(|word| word.starts_with("--")).collect();
    let unknown: Vec<_> = given.iter().filter(|option| !known.contains(option)).collect();
    assert_eq!(unknown, [""; 0], "`countersign serve` does not have these options");
    for option in ["--aws", "--behind-tls"] {
        assert!(given.iter().any(|given| given == option), "{option} is not among {given:?}");
    }
}

#[test]
fn option_is_recognized_in_the_code() {
    let code = "    #[arg(long, value_name = \"X\")]\n    behind_tls: bool,\n    pub(crate) json: bool,\n    let x = 1;";
    assert_eq!(options_in(code).collect::<Vec<_>>(), ["--behind-tls", "--json"]);
}

#[test]
fn server_files_are_in_the_image() {
    let image = source("crates/cli/Dockerfile");
    for option in ["--config", "--key"] {
        let path = after(option);
        let (directory, file) = path.rsplit_once('/').unwrap();
        let copies = |line: &str| {
            let mut words = line.split_whitespace();
            words.next() == Some("COPY")
                && words.next_back() == Some(&format!("{directory}/"))
                && words.any(|word| word == file)
        };
        let line = image.lines().find(|line| copies(line));
        let line = line.unwrap_or_else(|| panic!("crates/cli/Dockerfile does not copy {path}"));
        // The directory gets the mode of the copied file, and the program must be able to enter it.
        assert!(
            line.contains("--chmod=0555"),
            "the program cannot enter the directory made by `{line}`; add --chmod=0555"
        );
    }
    assert!(image.contains("USER nonroot"), "crates/cli/Dockerfile and the module use different users");
}

#[test]
fn health_check_uses_the_servers_port_and_path() {
    let module = server();
    let port = text(module.local("port").unwrap());
    assert_eq!(after("--listen"), "0.0.0.0:${local.port}");
    assert!(
        source("crates/cli/Dockerfile").contains(&format!("EXPOSE {port}\n")),
        "crates/cli/Dockerfile exposes another port"
    );
    let group = module.resources("aws_lb_target_group").next().unwrap();
    assert_eq!(text_of(&group.body, "port"), "local.port");
    assert_eq!(text_of(&service(&module).body, "port"), "local.port");
    let path = value_in(&group.body, "health_check", "path").map(text).unwrap();
    let health = source("crates/cli/src/http_server/health.rs");
    assert!(
        health.contains(&format!(".route(\"{path}\", get(is_healthy")),
        "{path} is not the path of the health endpoint"
    );
    let timeout = number(value_in(&group.body, "health_check", "timeout"));
    assert!(
        timeout > seconds(&health, "RESPONSE_MAX: Duration = "),
        "the health check times out before the server answers"
    );
}

#[test]
fn idle_timeout_exceeds_the_stream_heartbeat() {
    let beat = seconds(&source("crates/api/src/stream/mod.rs"), "beat_every: ");
    let module = server();
    let idle = module.blocks("variable").find(|block| label(block, 0) == "idle_timeout_seconds").unwrap();
    let default = number(value(&idle.body, "default"));
    assert!(
        default >= 4 * beat,
        "a stream sends a heartbeat every {beat} s, but the idle timeout is {default} s"
    );
}

#[test]
fn server_drains_before_the_stop_timeout() {
    let drain: u64 = after("--drain").strip_suffix('s').unwrap().parse().unwrap();
    let stop = number(value(&service(&server()).body, "stop_timeout_seconds"));
    assert!(drain < stop, "the stop timeout is {stop} s, but the drain takes up to {drain} s");
}

fn server() -> Module {
    infra().into_iter().find(|module| module.path == "modules/server").unwrap()
}

/// The call of `ecs-service`.
fn service(module: &Module) -> &Block {
    module.blocks("module").find(|call| label(call, 0) == "service").unwrap()
}

/// The arguments of the container command.
fn command() -> Vec<String> {
    let module = server();
    let words = value(&service(&module).body, "command").and_then(Expression::as_array).unwrap();
    words.iter().map(text).collect()
}

/// The argument after `option`.
fn after(option: &str) -> String {
    let words = command();
    let place = words.iter().position(|word| word == option).unwrap();
    words[place + 1].clone()
}

/// The fields of a struct of options, as command-line options.
fn options_in(code: &str) -> impl Iterator<Item = String> {
    let fields = code.lines().filter_map(|line| {
        let field = line.strip_prefix("    ")?.trim_start_matches("pub(crate) ");
        let (name, kind) = field.split_once(": ")?;
        let is_field = kind.ends_with(',') && name.chars().all(|c| c.is_ascii_lowercase() || c == '_');
        is_field.then(|| format!("--{}", name.replace('_', "-")))
    });
    fields.collect::<Vec<_>>().into_iter()
}

fn number(expression: Option<&Expression>) -> u64 {
    text(expression.unwrap()).parse().unwrap()
}

/// The number of seconds in the code after `words`.
fn seconds(code: &str, words: &str) -> u64 {
    let from = format!("{words}Duration::from_secs(");
    code.split_once(&from).unwrap().1.split_once(')').unwrap().0.parse().unwrap()
}
