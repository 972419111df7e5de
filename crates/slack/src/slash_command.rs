//! Parses a `/countersign` command from a request whose [`signature`](crate::signature) was verified. Of Slack's form
//! only workspace, user, text and trigger are used.

use std::borrow::Cow;

use crate::interaction::is_slack_id;

/// Slack's fields have a few hundred bytes, and a command is one line.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Trigger ids have about fifty characters.
const TRIGGER_BYTES_MAX: usize = 128;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlashCommand {
    /// The workspace id.
    pub team: String,
    /// The user id.
    pub user: String,
    /// The text after `/countersign`.
    pub text: String,
    /// Slack's id of this use of the command. `None` if it is absent or has unexpected characters.
    pub trigger: Option<String>,
}

/// Whether Slack only checks the certificate of the endpoint. It expects an empty 200.
pub fn is_ssl_check(body: &[u8]) -> bool {
    let fields: Vec<_> = url::form_urlencoded::parse(body).collect();
    single_field(&fields, "ssl_check") == Some("1")
}

/// Parses the body of a verified request. `None` if it is not as Slack sends it.
pub fn parse(body: &[u8]) -> Option<SlashCommand> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let fields: Vec<_> = url::form_urlencoded::parse(body).collect();
    let team = single_field(&fields, "team_id").filter(|team| is_slack_id(team, &['T', 'E']))?;
    let user = single_field(&fields, "user_id").filter(|user| is_slack_id(user, &['U', 'W']))?;
    let text = single_field(&fields, "text")?;
    let trigger = single_field(&fields, "trigger_id").filter(|trigger| is_plain(trigger)).map(str::to_owned);
    Some(SlashCommand { team: team.to_owned(), user: user.to_owned(), text: text.to_owned(), trigger })
}

/// Whether `text` has no character that separates the parts of a key.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=TRIGGER_BYTES_MAX).contains(&text.len()) && text.chars().all(plain)
}

/// The field `name`. `None` if it occurs twice, because parsers would disagree about its value.
fn single_field<'a>(fields: &'a [(Cow<'_, str>, Cow<'_, str>)], name: &str) -> Option<&'a str> {
    let mut found = fields.iter().filter(|(field, _)| field == name);
    match (found.next(), found.next()) {
        (Some((_, value)), None) => Some(value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_is_parsed_with_its_user() {
        let body = b"team_id=T0SIM&user_id=U0BEN&command=%2Fcountersign&text=run+r-1&trigger_id=1.2.a";
        let typed = SlashCommand {
            team: "T0SIM".into(),
            user: "U0BEN".into(),
            text: "run r-1".into(),
            trigger: Some("1.2.a".into()),
        };
        assert_eq!(parse(body), Some(typed));
    }

    #[test]
    fn certificate_check_is_no_command() {
        assert!(is_ssl_check(b"ssl_check=1&token=abc"));
        for body in [&b"ssl_check=0"[..], b"ssl_check=1&ssl_check=1", b"team_id=T0SIM&text=ssl_check=1", b""]
        {
            assert!(!is_ssl_check(body));
        }
    }

    #[test]
    fn invalid_trigger_is_dropped() {
        for trigger in ["", "&trigger_id=", "&trigger_id=a%3Ab", "&trigger_id=a&trigger_id=b"] {
            let body = format!("team_id=T0SIM&user_id=U0BEN&text=run{trigger}");
            assert_eq!(parse(body.as_bytes()).unwrap().trigger, None, "{trigger}");
        }
    }

    #[test]
    fn ambiguous_user_is_rejected() {
        for body in [
            "user_id=U0BEN&text=run",
            "team_id=T0SIM&user_id=U0BEN&user_id=U0ANNA&text=run",
            "team_id=T0SIM&user_id=B0BOT&text=run",
            "team_id=T0SIM&user_id=u0ben&text=run",
            "",
        ] {
            assert_eq!(parse(body.as_bytes()), None, "{body}");
        }
    }
}
