//! The options of `cargo xtask local`.

use crate::UsageError;

use super::emulator::Emulator;

/// The emulator that replaces AWS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Aws {
    #[default]
    MiniStack,
    LocalStack,
}

impl Aws {
    pub(crate) fn emulator(self) -> Emulator {
        match self {
            Self::MiniStack => Emulator::MiniStack,
            Self::LocalStack => Emulator::LocalStack,
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LocalCommand {
    Up { aws: Aws, aws_port: Option<u16>, dynamodb_port: Option<u16> },
    Down,
    Status,
}

pub(crate) fn options(args: &[String]) -> Result<LocalCommand, UsageError> {
    let Some((command, rest)) = args.split_first() else { return Err(UsageError::Help) };
    match command.as_str() {
        "up" => up_options(rest),
        "down" => no_options(rest, LocalCommand::Down),
        "status" => no_options(rest, LocalCommand::Status),
        "--help" | "-h" => Err(UsageError::Help),
        other => Err(UsageError::Invalid(other.to_owned())),
    }
}

fn no_options(args: &[String], command: LocalCommand) -> Result<LocalCommand, UsageError> {
    match args.first().map(String::as_str) {
        // --localstack has no effect here. It is accepted because users repeat the options of `up`.
        None | Some("--localstack") => Ok(command),
        Some("--help" | "-h") => Err(UsageError::Help),
        Some(other) => Err(UsageError::Invalid(other.to_owned())),
    }
}

fn up_options(args: &[String]) -> Result<LocalCommand, UsageError> {
    let (mut aws, mut aws_port, mut dynamodb_port) = (Aws::MiniStack, None, None);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--localstack" => aws = Aws::LocalStack,
            "--aws-port" => aws_port = Some(port(arg, args.next())?),
            "--dynamodb-port" => dynamodb_port = Some(port(arg, args.next())?),
            "--help" | "-h" => return Err(UsageError::Help),
            other => return Err(UsageError::Invalid(other.to_owned())),
        }
    }
    Ok(LocalCommand::Up { aws, aws_port, dynamodb_port })
}

fn port(option: &str, value: Option<&String>) -> Result<u16, UsageError> {
    let value = value.map_or("", String::as_str);
    let port = value.parse().ok().filter(|port| *port > 0);
    port.ok_or_else(|| UsageError::Invalid(format!("{option} {value}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<LocalCommand, UsageError> {
        options(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn commands_are_parsed() {
        assert!(matches!(parse("down"), Ok(LocalCommand::Down)));
        assert!(matches!(parse("status --localstack"), Ok(LocalCommand::Status)));
        let up = LocalCommand::Up { aws: Aws::LocalStack, aws_port: Some(5000), dynamodb_port: None };
        assert!(parse("up --localstack --aws-port 5000").is_ok_and(|command| command == up));
    }

    #[test]
    fn invalid_option_is_rejected_by_name() {
        for (line, named) in [
            ("start", "start"),
            ("up --docker", "--docker"),
            ("up --aws-port", "--aws-port "),
            ("up --aws-port 70000", "--aws-port 70000"),
            ("up --dynamodb-port 0", "--dynamodb-port 0"),
            ("down --now", "--now"),
        ] {
            assert!(matches!(parse(line), Err(UsageError::Invalid(option)) if option == named), "{line}");
        }
        for line in ["", "--help", "up -h", "status --help"] {
            assert!(matches!(parse(line), Err(UsageError::Help)), "{line}");
        }
    }
}
