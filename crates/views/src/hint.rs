//! Renders the commands that the user can run next, with the same store and tenant options.

use std::path::Path;

use domain::{RunKey, TenantId};

/// The default file of the store.
pub const STORE_DEFAULT: &str = "countersign.db";

/// The default tenant.
pub const TENANT_DEFAULT: &str = "default";

/// The part of a suggested command before the verb.
#[derive(Debug, Clone)]
pub struct CommandHints {
    prefix: String,
    /// Whether the command names the user with `--by`. Otherwise the credential does.
    by_name: bool,
}

impl CommandHints {
    /// Hints for the store file at `store`.
    pub fn new(store: &Path, tenant: &TenantId) -> Self {
        let store = Some(store).filter(|store| *store != Path::new(STORE_DEFAULT));
        let store = store.map(|store| format!("--store {}", quoted(&store.to_string_lossy())));
        Self::for_store(store, tenant)
    }

    /// Hints for the store on AWS.
    pub fn for_aws(tenant: &TenantId) -> Self {
        Self::for_store(Some("--aws".to_owned()), tenant)
    }

    fn for_store(option: Option<String>, tenant: &TenantId) -> Self {
        let tenant = Some(tenant).filter(|tenant| tenant.as_str() != TENANT_DEFAULT);
        let tenant = tenant.map(|tenant| format!("--tenant {tenant}"));
        let words = ["countersign".to_owned()].into_iter().chain(option).chain(tenant);
        Self { prefix: words.collect::<Vec<_>>().join(" "), by_name: true }
    }

    /// Hints for a server; `option` selects it on the command line.
    pub fn for_server(option: &str) -> Self {
        Self { prefix: format!("countersign {option}"), by_name: false }
    }

    /// A command of [`CommandHints::plain`] with the prefix of these hints.
    pub fn spelled_out(&self, plain: &str) -> String {
        plain.strip_prefix("countersign ").map_or_else(|| plain.to_owned(), |rest| self.line(rest))
    }

    /// Hints without options for the server and the tenant.
    pub fn plain() -> Self {
        Self { prefix: "countersign".to_owned(), by_name: false }
    }

    /// Hints without options, for a user who opens the store directly and needs no API key.
    pub fn local() -> Self {
        Self { by_name: true, ..Self::plain() }
    }

    /// The `--by` option, where the command needs one.
    pub(crate) fn by_option(&self) -> &'static str {
        if self.by_name { " --by NAME" } else { "" }
    }

    /// `countersign … rest`.
    pub fn line(&self, rest: &str) -> String {
        format!("{} {rest}", self.prefix)
    }

    /// `countersign … run VERB RUN`.
    pub fn run(&self, verb: &str, run: &RunKey) -> String {
        self.line(&format!("run {verb} {}", run.run))
    }
}

/// `text` quoted as one shell word.
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
        CommandHints::new(Path::new(store), &tenant.parse().unwrap()).line("run list")
    }

    #[test]
    fn hint_omits_default_options() {
        assert_eq!(line(STORE_DEFAULT, "default"), "countersign run list");
        assert_eq!(line("/tmp/a.db", "acme"), "countersign --store /tmp/a.db --tenant acme run list");
        let aws = CommandHints::for_aws(&"acme".parse().unwrap());
        assert_eq!(aws.line("run list"), "countersign --aws --tenant acme run list");
    }

    #[test]
    fn plain_hint_gets_the_prefix() {
        let hints = CommandHints::for_server("--profile work");
        assert_eq!(hints.spelled_out("countersign run list"), "countersign --profile work run list");
    }

    #[test]
    fn hint_is_quoted_for_the_shell() {
        assert_eq!(line("my db", "default"), "countersign --store 'my db' run list");
        assert_eq!(quoted("it's"), r"'it'\''s'");
        assert_eq!(quoted(""), "''");
    }
}
