//! An issue, its labels and its comments.

use std::collections::BTreeSet;

use serde_json::{Value, json};

/// An issue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    /// Its title.
    pub title: String,
    /// Its labels.
    pub labels: BTreeSet<String>,
    /// Its comments, oldest first.
    pub comments: Vec<Comment>,
}

/// A comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comment {
    /// Its id, never used for another one.
    pub id: u64,
    /// What it says.
    pub body: String,
}

impl Issue {
    pub(super) fn new(title: &str, labels: &[&str]) -> Self {
        let labels = labels.iter().map(|label| (*label).to_owned()).collect();
        Self { title: title.to_owned(), labels, comments: Vec::new() }
    }

    pub(super) fn show(&self, number: u64) -> Value {
        json!({
            "number": number,
            "title": self.title,
            "body": null,
            "state": "open",
            "user": { "login": "mona" },
            "assignees": [],
            "labels": self.show_labels(),
            "comments": self.comments.len(),
            "html_url": format!("https://github.example/{}/issues/{number}", super::REPO),
        })
    }

    pub(super) fn show_labels(&self) -> Value {
        self.labels.iter().map(|name| json!({ "name": name, "color": "ededed" })).collect()
    }
}

impl Comment {
    pub(super) fn show(&self) -> Value {
        let url = format!("https://github.example/{}/issues/comments/{}", super::REPO, self.id);
        json!({ "id": self.id, "body": self.body, "user": { "login": "countersign[bot]" }, "html_url": url })
    }
}
