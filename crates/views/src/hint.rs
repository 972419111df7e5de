//! Commands to type: the exact line, with the store and the tenant that this one was given.

use std::path::Path;

use domain::{RunKey, TenantId};

/// The store's file if nobody says otherwise.
pub const STORE_DEFAULT: &str = "countersign.db";

/// The tenant if nobody says otherwise.
pub const TENANT_DEFAULT: &str = "default";

/// What stands before the verb in every command that is suggested.
#[derive(Debug, Clone)]
pub struct Hints {
    beginning: String,
    /// Whether nothing but the command line tells who answers; else their key does.
    by_name: bool,
}

impl Hints {
    /// Hints for the store at `store`.
    pub fn new(store: &Path, tenant: &TenantId) -> Self {
        let store = Some(store).filter(|store| *store != Path::new(STORE_DEFAULT));
        let store = store.map(|store| format!("--store {}", quoted(&store.to_string_lossy())));
        Self::of_store(store, tenant)
    }

    /// Hints for the store on AWS that the environment names.
    pub fn of_aws(tenant: &TenantId) -> Self {
        Self::of_store(Some("--aws".to_owned()), tenant)
    }

    fn of_store(option: Option<String>, tenant: &TenantId) -> Self {
        let tenant = Some(tenant).filter(|tenant| tenant.as_str() != TENANT_DEFAULT);
        let tenant = tenant.map(|tenant| format!("--tenant {tenant}"));
        let words = ["countersign".to_owned()].into_iter().chain(option).chain(tenant);
        Self { beginning: words.collect::<Vec<_>>().join(" "), by_name: true }
    }

    /// Hints for the server that `option` names on a command line.
    pub fn of_server(option: &str) -> Self {
        Self { beginning: format!("countersign {option}"), by_name: false }
    }

    /// A command that was suggested to whoever has said elsewhere what is meant, with that said again.
    pub fn spelled_out(&self, plain: &str) -> String {
        plain.strip_prefix("countersign ").map_or_else(|| plain.to_owned(), |rest| self.line(rest))
    }

    /// Hints for whoever has said elsewhere which server and tenant are meant.
    pub fn plain() -> Self {
        Self { beginning: "countersign".to_owned(), by_name: false }
    }

    /// The same for whoever opens the store themselves, and so needs no key.
    pub fn local() -> Self {
        Self { by_name: true, ..Self::plain() }
    }

    /// What a command says of who answers, where that must be said.
    pub(crate) fn answering(&self) -> &'static str {
        if self.by_name { " --by NAME" } else { "" }
    }

    /// `countersign … rest`.
    pub fn line(&self, rest: &str) -> String {
        format!("{} {rest}", self.beginning)
    }

    /// `countersign … run VERB RUN`.
    pub fn run(&self, verb: &str, run: &RunKey) -> String {
        self.line(&format!("run {verb} {}", run.run))
    }
}

/// `text` as one word of a shell.
pub fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(store: &str, tenant: &str) -> String {
        Hints::new(Path::new(store), &tenant.parse().unwrap()).line("run list")
    }

    #[test]
    fn a_hint_names_only_what_is_not_the_default() {
        assert_eq!(line(STORE_DEFAULT, "default"), "countersign run list");
        assert_eq!(line("/tmp/a.db", "acme"), "countersign --store /tmp/a.db --tenant acme run list");
        let aws = Hints::of_aws(&"acme".parse().unwrap());
        assert_eq!(aws.line("run list"), "countersign --aws --tenant acme run list");
    }

    #[test]
    fn a_plain_hint_is_spelled_out() {
        let hints = Hints::of_server("--profile work");
        assert_eq!(hints.spelled_out("countersign run list"), "countersign --profile work run list");
    }

    #[test]
    fn a_hint_can_be_pasted_into_a_shell() {
        assert_eq!(line("my db", "default"), "countersign --store 'my db' run list");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
