//! What may be said to `cargo xtask local`.

use crate::Misuse;

use super::stand_in::StandIn;

/// Which of them plays AWS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Aws {
    /// MiniStack.
    #[default]
    Usual,
    /// LocalStack.
    LocalStack,
}

impl Aws {
    /// That one.
    pub(crate) fn stand_in(self) -> StandIn {
        match self {
            Self::Usual => StandIn::MiniStack,
            Self::LocalStack => StandIn::LocalStack,
        }
    }
}

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// Start.
    Up { aws: Aws, aws_port: Option<u16>, dynamodb_port: Option<u16> },
    /// End.
    Down,
    /// Tell.
    Status,
}

/// Reads the options.
pub(crate) fn options(args: &[String]) -> Result<Wanted, Misuse> {
    let Some((verb, rest)) = args.split_first() else { return Err(Misuse::Help) };
    match verb.as_str() {
        "up" => up_options(rest),
        "down" => no_options(rest, Wanted::Down),
        "status" => no_options(rest, Wanted::Status),
        "--help" | "-h" => Err(Misuse::Help),
        other => Err(Misuse::Unknown(other.to_owned())),
    }
}

fn no_options(args: &[String], wanted: Wanted) -> Result<Wanted, Misuse> {
    match args.first().map(String::as_str) {
        // The second says nothing here, and is likely to be typed with the rest of the line.
        None | Some("--localstack") => Ok(wanted),
        Some("--help" | "-h") => Err(Misuse::Help),
        Some(other) => Err(Misuse::Unknown(other.to_owned())),
    }
}

fn up_options(args: &[String]) -> Result<Wanted, Misuse> {
    let (mut aws, mut aws_port, mut dynamodb_port) = (Aws::Usual, None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--localstack" => aws = Aws::LocalStack,
            "--aws-port" => aws_port = Some(port(arg, args.next())?),
            "--dynamodb-port" => dynamodb_port = Some(port(arg, args.next())?),
            "--help" | "-h" => return Err(Misuse::Help),
            other => return Err(Misuse::Unknown(other.to_owned())),
        }
    }
    Ok(Wanted::Up { aws, aws_port, dynamodb_port })
}

fn port(option: &str, value: Option<&String>) -> Result<u16, Misuse> {
    let value = value.map_or("", String::as_str);
    let port = value.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| Misuse::Unknown(format!("{option} {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(line: &str) -> Result<Wanted, Misuse> {
        options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn the_verbs_are_understood() {
        assert!(matches!(given("down"), Ok(Wanted::Down)));
        assert!(matches!(given("status --localstack"), Ok(Wanted::Status)));
        let up = Wanted::Up { aws: Aws::LocalStack, aws_port: Some(5000), dynamodb_port: None };
        assert!(given("up --localstack --aws-port 5000").is_ok_and(|wanted| wanted == up));
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (line, named) in [
            ("start", "start"),
            ("up --docker", "--docker"),
            ("up --aws-port", "--aws-port "),
            ("up --aws-port 70000", "--aws-port 70000"),
            ("up --dynamodb-port 0", "--dynamodb-port 0"),
            ("down --now", "--now"),
        ] {
            assert!(matches!(given(line), Err(Misuse::Unknown(option)) if option == named), "{line}");
        }
        for line in ["", "--help", "up -h", "status --help"] {
            assert!(matches!(given(line), Err(Misuse::Help)), "{line}");
        }
    }
}
