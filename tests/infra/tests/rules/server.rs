//! The server is started as its program wants to be, and asked where it answers.

use hcl_edit::expr::{Expression, Object};

use crate::module::{Module, entry, infra, label, source, text, text_of, value, value_in};

const SERVE: &str = "crates/cli/src/verb/serve/mod.rs";

#[test]
fn the_server_is_given_options_that_it_has() {
    let known =
        options_in(&source(SERVE)).chain(options_in(&source("crates/cli/src/args.rs"))).collect::<Vec<_>>();
    let given: Vec<String> = command().into_iter().filter(|word| word.starts_with("--")).collect();
    let unknown: Vec<_> = given.iter().filter(|option| !known.contains(option)).collect();
    assert_eq!(unknown, [""; 0], "`countersign serve` has no such options");
    for option in ["--aws", "--behind-tls"] {
        assert!(given.iter().any(|given| given == option), "{option} is not among {given:?}");
    }
}

#[test]
fn an_option_is_recognised_in_the_code() {
    let code = "    #[arg(long, value_name = \"X\")]\n    behind_tls: bool,\n    pub(crate) json: bool,\n    let x = 1;";
    assert_eq!(options_in(code).collect::<Vec<_>>(), ["--behind-tls", "--json"]);
}

#[test]
fn the_server_finds_its_files_in_its_image() {
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
        let line = line.unwrap_or_else(|| panic!("crates/cli/Dockerfile does not put {path} there"));
        // The directory is made with the mode of what is put into it, and the program must get in.
        assert!(line.contains("--chmod=0555"), "nobody can enter the directory that is made by `{line}`");
    }
    assert!(
        image.contains("USER nonroot"),
        "crates/cli/Dockerfile runs it as somebody else than the module does"
    );
}

#[test]
fn the_balancer_asks_where_the_server_listens() {
    let module = server();
    let port = text(module.local("port").unwrap());
    assert_eq!(after("--listen"), "0.0.0.0:${local.port}");
    assert!(
        source("crates/cli/Dockerfile").contains(&format!("EXPOSE {port}\n")),
        "the image exposes another port"
    );
    let group = module.resources("aws_lb_target_group").next().unwrap();
    assert_eq!(text_of(&group.body, "port"), "local.port");
    let service = module.resources("aws_ecs_service").next().unwrap();
    assert_eq!(value_in(&service.body, "load_balancer", "container_port").map(text).unwrap(), "local.port");
    let asked = value_in(&group.body, "health_check", "path").map(text).unwrap();
    let health = source("crates/cli/src/front/health.rs");
    assert!(health.contains(&format!("const PATH: &str = \"{asked}\";")), "{asked} is not where it answers");
    let patience = number(value_in(&group.body, "health_check", "timeout"));
    assert!(patience > seconds(&health, "ANSWER_MAX: Duration = "), "nobody waits for its answer");
}

#[test]
fn a_stream_that_is_alive_is_not_cut_off() {
    let beat = seconds(&source("crates/api/src/stream/mod.rs"), "beat_every: ");
    let module = server();
    let idle = module.blocks("variable").find(|block| label(block, 0) == "idle_timeout_seconds").unwrap();
    let default = number(value(&idle.body, "default"));
    assert!(default >= 4 * beat, "a stream beats every {beat} s, and is cut off after {default} s");
}

#[test]
fn the_program_ends_its_drain_before_it_is_ended() {
    let drain: u64 = after("--drain").strip_suffix('s').unwrap().parse().unwrap();
    let stop = number(entry(&container(&server()), "stopTimeout"));
    assert!(drain < stop, "it is ended after {stop} s, and lets requests finish for {drain} s");
}

#[test]
fn no_secret_of_the_server_stands_in_its_environment() {
    let module = server();
    let container = container(&module);
    let secrets = text(entry(&container, "secrets").unwrap());
    assert!(
        secrets.contains("var.secret_names") && secrets.contains("${var.secret_arn}:${name}::"),
        "{secrets}"
    );
    assert!(!text(entry(&container, "environment").unwrap()).contains("secret"));
}

fn server() -> Module {
    infra().into_iter().find(|module| module.path == "modules/server").unwrap()
}

fn container(module: &Module) -> Object {
    module.local("container").and_then(Expression::as_object).unwrap().clone()
}

/// The words that the program is started with.
fn command() -> Vec<String> {
    let container = container(&server());
    let words = entry(&container, "command").and_then(Expression::as_array).unwrap();
    words.iter().map(text).collect()
}

/// The word after this one.
fn after(option: &str) -> String {
    let words = command();
    let place = words.iter().position(|word| word == option).unwrap();
    words[place + 1].clone()
}

/// The fields of a struct of options, as they are typed.
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

/// The seconds that the code says behind these words.
fn seconds(code: &str, words: &str) -> u64 {
    let from = format!("{words}Duration::from_secs(");
    code.split_once(&from).unwrap().1.split_once(')').unwrap().0.parse().unwrap()
}
