//! The lock files in `localstack/`.
//!
//! A line is `name==version` without options or URLs. The machine's pip configuration decides where packages come from.

/// All names with their versions.
pub(crate) fn pins(text: &str) -> Result<Vec<(&str, &str)>, String> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| pin(line).ok_or_else(|| format!("`{line}` is not `name==version`"))).collect()
}

/// The pinned version of `name`.
pub(crate) fn version<'a>(text: &'a str, name: &str) -> Result<&'a str, String> {
    let found = pins(text)?.into_iter().find(|(pinned, _)| *pinned == name);
    found.map(|(_, version)| version).ok_or_else(|| format!("`{name}` is not pinned"))
}

fn pin(line: &str) -> Option<(&str, &str)> {
    let (name, version) = line.split_once("==")?;
    let plain = |text: &str, also: &[char]| {
        !text.is_empty()
            && !text.starts_with('-')
            && text.chars().all(|c| c.is_ascii_alphanumeric() || also.contains(&c))
    };
    (plain(name, &['-', '_', '.']) && plain(version, &['.', '+'])).then_some((name, version))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINISTACK: &str = include_str!("../../../localstack/ministack.lock");
    const LOCALSTACK: &str = include_str!("../../../localstack/localstack-4.14.0.lock");

    #[test]
    fn lock_files_pin_the_emulators() {
        assert_eq!(version(MINISTACK, "ministack"), Ok("1.5.33"));
        assert_eq!(version(LOCALSTACK, "localstack-core"), Ok("4.14.0"));
    }

    #[test]
    fn options_urls_and_version_ranges_are_rejected() {
        for line in [
            "--index-url==1",
            "-r other.lock",
            "ministack",
            "ministack>=1.5",
            "ministack @ file:///here",
            "ministack==1.5.33 --hash=sha256:00",
            "==1",
            "ministack==",
        ] {
            assert!(pins(line).is_err(), "{line}");
        }
    }

    #[test]
    fn comments_and_empty_lines_are_ignored() {
        assert_eq!(pins("# why\n\n  six==1.17.0\n"), Ok(vec![("six", "1.17.0")]));
        assert!(version("six==1.17.0", "seven").is_err());
    }
}
