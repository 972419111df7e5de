use std::collections::BTreeSet;

use serde_json::{Value, json};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub title: String,
    pub labels: BTreeSet<String>,
    /// Oldest first.
    pub comments: Vec<Comment>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Never reused.
    pub id: u64,
    pub body: String,
}

impl Issue {
    pub(super) fn new(title: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self { title: title.to_owned(), labels, comments: Vec::new() }
    }

    pub(super) fn to_json(&self, number: u64) -> Value {
        json!({
            "number": number,
            "title": self.title,
            "body": null,
            "state": "open",
            "user": { "login": "mona" },
            "assignees": [],
            "labels": self.labels_json(),
            "comments": self.comments.len(),
            "html_url": format!("https://github.example/{}/issues/{number}", super::REPO),
        })
    }

    pub(super) fn labels_json(&self) -> Value {
        self.labels.iter().map(|name| json!({ "name": name, "color": "ededed" })).collect()
    }
}

impl Comment {
    pub(super) fn to_json(&self) -> Value {
        let url = format!("https://github.example/{}/issues/comments/{}", super::REPO, self.id);
        json!({ "id": self.id, "body": self.body, "user": { "login": "countersign[bot]" }, "html_url": url })
    }
}
