//! The file of profiles. It is replaced atomically, and only its owner can read it.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use serde_json::Value;

use super::{Profile, Profiles};
use crate::error::CliError;
use crate::input::read_file;
use crate::new_file::replace;

/// The maximum size of the file: enough for several hundred profiles.
const BYTES_MAX: usize = 64 * 1024;

/// Reads the profiles; a missing file has none.
pub(crate) fn read(path: &Path) -> Result<Profiles, CliError> {
    let bytes = match read_file(path, &path.display().to_string(), BYTES_MAX) {
        Err(CliError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
            return Ok(Profiles::default());
        }
        read => read?,
    };
    let text = String::from_utf8(bytes).map_err(|_| CliError::NotText { path: path.into() })?;
    if text.trim().is_empty() {
        return Ok(Profiles::default());
    }
    let wrong = |why: String| CliError::Usage(format!("{} is invalid: {why}", path.display()));
    let profiles: Profiles = serde_saphyr::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match profiles
        .profiles
        .iter()
        .find(|(_, profile)| profile.key_env.is_some() && profile.key_file.is_some())
    {
        Some((name, _)) => {
            Err(wrong(format!("profile {} has both `key_env` and `key_file`; remove one", name.as_str())))
        }
        None => Ok(profiles),
    }
}

pub(crate) fn write(path: &Path, profiles: &Profiles) -> Result<(), CliError> {
    let failed = |source| CliError::Write { path: path.into(), source };
    if let Some(directory) = path.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    }
    replace(path, text(profiles).as_bytes(), 0o600)
}

/// Renders the file. Values are JSON strings, which are valid YAML.
fn text(profiles: &Profiles) -> String {
    let quoted = |text: &str| Value::from(text).to_string();
    let line = |name: &str, value: Option<String>| {
        value.map(|value| format!("    {name}: {}\n", quoted(&value))).unwrap_or_default()
    };
    let entry = |profile: &Profile| {
        [
            line("url", Some(profile.url.to_string())),
            line("tenant", profile.tenant.as_ref().map(ToString::to_string)),
            line("key_env", profile.key_env.clone()),
            line("key_file", profile.key_file.as_ref().map(|path| path.to_string_lossy().into_owned())),
        ]
        .concat()
    };
    let used = profiles.used.as_ref().map(|name| format!("use: {}\n", quoted(name.as_str())));
    let entries: Vec<String> = profiles
        .profiles
        .iter()
        .map(|(name, profile)| format!("  {}:\n{}", quoted(name.as_str()), entry(profile)))
        .collect();
    let entries = if entries.is_empty() {
        "profiles: {}\n".to_owned()
    } else {
        format!("profiles:\n{}", entries.concat())
    };
    format!(
        "# Server profiles; see `countersign profile --help`. Keys are stored elsewhere.\n{}{entries}",
        used.unwrap_or_default()
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn profiles_round_trip_and_are_private() {
        use std::os::unix::fs::PermissionsExt as _;
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("countersign/config.yaml");
        assert_eq!(read(&path).unwrap(), Profiles::default());
        let profile = Profile {
            url: "https://countersign.example/".parse().unwrap(),
            tenant: Some("acme".parse().unwrap()),
            key_env: None,
            key_file: Some("/keys/it's: # \"mine\"".into()),
        };
        let name: super::super::ProfileName = "work".parse().unwrap();
        let profiles = Profiles { used: Some(name.clone()), profiles: [(name, profile)].into() };
        write(&path, &profiles).unwrap();
        assert_eq!(read(&path).unwrap(), profiles);
        write(&path, &Profiles::default()).unwrap();
        assert_eq!(read(&path).unwrap(), Profiles::default());
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn ambiguous_or_unknown_fields_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        for (text, words) in [
            ("profiles: {a: {url: 'https://a.example', key_env: A, key_file: b}}", "has both"),
            ("profiles: {a: {url: 'https://a.example', key: csk_a}}", "key"),
            ("profiles: {a: {url: nowhere}}", "url"),
            ("profiles: {'a b': {url: 'https://a.example'}}", "profile name"),
        ] {
            fs::write(&path, text).unwrap();
            let error = read(&path).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }
}
