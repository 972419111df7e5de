//! What a person typed after `/countersign`, read from a request whose [`signature`](crate::signature) was
//! verified before. Slack posts a form; of its fields only who it was and what they typed are used.

use std::borrow::Cow;

use crate::interaction::is_slack_id;

/// Slack's own fields have some hundred bytes, and nobody types a page.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// What a person typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Typed {
    /// The workspace they belong to.
    pub team: String,
    /// Who they are in it.
    pub user: String,
    /// What they typed.
    pub text: String,
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
    Some(Typed { team: team.to_owned(), user: user.to_owned(), text: text.to_owned() })
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
        let body = b"team_id=T0SIM&user_id=U0BEN&command=%2Fcountersign&text=run+r-1";
        let typed = Typed { team: "T0SIM".into(), user: "U0BEN".into(), text: "run r-1".into() };
        assert_eq!(parse(body), Some(typed));
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
