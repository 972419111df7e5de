//! The state of the workspace.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use super::callback::{self, ButtonPress, Callback, ShortcutUse, Submission};
use super::{FakeMessage, FakeSlackFault, FakeSlackSettings, View};

/// The timestamp of the first message; each further message is one second later.
const FIRST_MESSAGE_SECS: u64 = 1_700_000_000;

#[derive(Debug)]
pub(super) struct State {
    pub(super) settings: FakeSlackSettings,
    pub(super) url: String,
    pub(super) messages: Vec<FakeMessage>,
    pub(super) views: Vec<View>,
    pub(super) answers: Vec<Value>,
    pub(super) faults: VecDeque<FakeSlackFault>,
    pub(super) calls: usize,
    /// The result of the last press on the page.
    pub(super) note: Option<String>,
    /// The user of each trigger id; `None` once it was used.
    triggers: BTreeMap<String, Option<String>>,
    numbers: u64,
}

impl State {
    pub(super) fn new(settings: FakeSlackSettings, url: String) -> Self {
        Self {
            settings,
            url,
            messages: Vec::new(),
            views: Vec::new(),
            answers: Vec::new(),
            faults: VecDeque::new(),
            calls: 0,
            note: None,
            triggers: BTreeMap::new(),
            numbers: 0,
        }
    }

    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn message(&self, place: &str) -> Option<&FakeMessage> {
        self.messages.iter().find(|message| message.place() == place)
    }

    pub(super) fn next_ts(&mut self) -> String {
        let number = self.number();
        format!("{}.{number:06}", FIRST_MESSAGE_SECS + number)
    }

    /// Opens `view` for the user of `trigger`.
    pub(super) fn open(&mut self, trigger: &str, view: Value) -> Result<String, &'static str> {
        let owner = self.triggers.get_mut(trigger).ok_or("invalid_trigger_id")?;
        let user = owner.take().ok_or("exchanged_trigger_id")?;
        let id = format!("V{:06}", self.number());
        self.views.push(View { id: id.clone(), user, view });
        Ok(id)
    }

    fn trigger_for(&mut self, user: &str) -> String {
        let trigger = format!("{}.1.fake", self.number());
        self.triggers.insert(trigger.clone(), Some(user.to_owned()));
        trigger
    }

    pub(super) fn press(&mut self, press: &ButtonPress<'_>) -> Option<Callback> {
        let message = self.message(press.place)?.clone();
        let value = message.button(press.action_id)?.to_owned();
        let (trigger, number) = (self.trigger_for(press.user), self.number());
        let payload = json!({
            "type": "block_actions",
            "user": callback::user(press.user, press.team),
            "api_app_id": "A0SIM",
            "container": { "type": "message", "message_ts": message.ts, "channel_id": message.channel },
            "trigger_id": trigger,
            "team": { "id": press.team, "domain": "fake" },
            "enterprise": null,
            "channel": { "id": message.channel, "name": "approvals" },
            "message": { "ts": message.ts, "text": message.text, "blocks": message.blocks },
            "response_url": format!("{}/response/{number}", self.url),
            "actions": [{ "type": "button", "action_id": press.action_id, "value": value }],
        });
        Some(Callback::signed(&payload, &self.settings.signing_secret, press.at_secs))
    }

    pub(super) fn use_shortcut(&mut self, used: &ShortcutUse<'_>) -> Option<Callback> {
        let message = match used.place {
            Some(place) => Some(self.message(place)?.clone()),
            None => None,
        };
        let mut payload = json!({
            "type": "shortcut",
            "callback_id": used.callback_id,
            "user": callback::user(used.user, used.team),
            "trigger_id": self.trigger_for(used.user),
            "team": { "id": used.team, "domain": "fake" },
            "enterprise": null,
            "is_enterprise_install": false,
        });
        if let Some(message) = message {
            payload["type"] = json!("message_action");
            payload["channel"] = json!({ "id": message.channel, "name": "approvals" });
            payload["message_ts"] = json!(message.ts);
            payload["message"] = json!({ "type": "message", "ts": message.ts, "text": message.text });
            let number = self.number();
            payload["response_url"] = json!(format!("{}/response/{number}", self.url));
        }
        Some(Callback::signed(&payload, &self.settings.signing_secret, used.at_secs))
    }

    pub(super) fn submit(&mut self, submission: &Submission<'_>) -> Option<Callback> {
        let open = |view: &View| view.id == submission.view && view.user == submission.user;
        let at = self.views.iter().position(open)?;
        let mut view = self.views.remove(at).view;
        view["id"] = json!(submission.view);
        view["state"] = json!({ "values": values(&view, submission) });
        let payload = json!({
            "type": "view_submission",
            "user": callback::user(submission.user, submission.team),
            "api_app_id": "A0SIM",
            "trigger_id": self.trigger_for(submission.user),
            "team": { "id": submission.team, "domain": "fake" },
            "enterprise": null,
            "view": view,
            "response_urls": [],
        });
        Some(Callback::signed(&payload, &self.settings.signing_secret, submission.at_secs))
    }
}

/// The value of every input of the modal.
fn values(view: &Value, submission: &Submission<'_>) -> Value {
    let mut values = json!({});
    for block in view["blocks"].as_array().into_iter().flatten().filter(|block| block["type"] == "input") {
        let element = &block["element"];
        let (Some(block_id), Some(input)) = (block["block_id"].as_str(), element["action_id"].as_str())
        else {
            continue;
        };
        values[block_id] = json!({ input: entered(element, submission) });
    }
    values
}

/// The text, or the selected option.
fn entered(element: &Value, submission: &Submission<'_>) -> Value {
    if element["type"] == "static_select" {
        let first = element["options"][0]["value"].as_str();
        let value = submission.choice.or(first);
        return json!({ "type": "static_select", "selected_option": { "value": value } });
    }
    json!({ "type": "plain_text_input", "value": submission.text })
}
