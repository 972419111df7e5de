//! What a person typed after `/countersign`, read from a request whose [`signature`](crate::signature) was
//! verified before. Slack posts a form; of its fields only who it was and what they typed are used.

use std::borrow::Cow;

use crate::interaction::is_slack_id;

/// Slack's own fields have some hundred bytes, and nobody types a page.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What Slack calls one use of a command has some fifty characters.
const TRIGGER_BYTES_MAX: usize = 128;

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The workspace they belong to.
    pub team: String,
    /// Who they are in it.
    pub user: String,
    /// What they typed.
    pub text: String,
    /// What Slack calls this use of the command, if it says so in plain letters.
    pub trigger: Option<String>,
}

/// Reads the body of a verified request; nothing, if it is not as Slack sends it.
pub fn parse(body: &[u8]) -> Option<Typed> {
    if body.len() > BODY_BYTES_MAX {
        return None;
    }
    let fields: Vec<_> = url::form_urlencoded::parse(body).collect();
    let team = only(&fields, "team_id").filter(|team| is_slack_id(team, &['T', 'E']))?;
    let user = only(&fields, "user_id").filter(|user| is_slack_id(user, &['U', 'W']))?;
    let text = only(&fields, "text")?;
    let trigger = only(&fields, "trigger_id").filter(|trigger| is_plain(trigger)).map(str::to_owned);
    Some(Typed { team: team.to_owned(), user: user.to_owned(), text: text.to_owned(), trigger })
}

/// Whether `text` is one word without anything that joins the parts of a key.
fn is_plain(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-');
    (1..=TRIGGER_BYTES_MAX).contains(&text.len()) && text.chars().all(plain)
}

/// The field `name`; a second one would leave it to the reader which one counts.
fn only<'a>(fields: &'a [(Cow<'_, str>, Cow<'_, str>)], name: &str) -> Option<&'a str> {
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
    fn a_command_is_read_with_who_typed_it() {
        let body = b"team_id=T0SIM&user_id=U0BEN&command=%2Fcountersign&text=run+r-1&trigger_id=1.2.a";
        let typed = Typed {
            team: "T0SIM".into(),
            user: "U0BEN".into(),
            text: "run r-1".into(),
            trigger: Some("1.2.a".into()),
        };
        assert_eq!(parse(body), Some(typed));
    }

    #[test]
    fn a_use_of_a_command_that_has_no_plain_name_has_none() {
        for trigger in ["", "&trigger_id=", "&trigger_id=a%3Ab", "&trigger_id=a&trigger_id=b"] {
            let body = format!("team_id=T0SIM&user_id=U0BEN&text=run{trigger}");
            assert_eq!(parse(body.as_bytes()).unwrap().trigger, None, "{trigger}");
        }
    }

    #[test]
    fn whatever_leaves_a_doubt_about_who_it_was_is_no_command() {
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
