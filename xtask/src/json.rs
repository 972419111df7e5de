//! Reads single fields of a JSON document without a parser.
//!
//! Only fields of the outermost object are found, so that nested objects may use the same names.

/// The text of the field `name`, if its value is a number.
pub(crate) fn number<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let value = value(json, name)?;
    let end = value.find(|c: char| !(c.is_ascii_digit() || "+-.eE".contains(c))).unwrap_or(value.len());
    (end > 0).then(|| &value[..end])
}

/// The value of the field `name`, if it is a string without escapes other than `\\`.
pub(crate) fn text(json: &str, name: &str) -> Option<String> {
    let inner = value(json, name)?.strip_prefix('"')?;
    Some(inner[..end_of_string(inner)?].replace("\\\\", "\\"))
}

/// The rest of the document, starting at the value of the field `name` of the outermost object.
fn value<'a>(json: &'a str, name: &str) -> Option<&'a str> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(c) = json.as_bytes().get(at) {
        at += 1;
        match c {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.saturating_sub(1),
            b'"' => {
                let inner = json.get(at..)?;
                let end = end_of_string(inner)?;
                at += end + 1;
                let after = json.get(at..)?.trim_start();
                if depth == 1 && &inner[..end] == name && after.starts_with(':') {
                    return Some(after[1..].trim_start());
                }
            }
            _ => {}
        }
    }
    None
}

/// The position of the quotation mark that closes a string.
fn end_of_string(inner: &str) -> Option<usize> {
    let mut escaped = false;
    inner.bytes().position(|c| {
        let ends = c == b'"' && !escaped;
        escaped = c == b'\\' && !escaped;
        ends
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"{"first": [{"violations": 7, "why": "a \"}\" in text"}],
        "violations" : 0, "rate":1.5e3,"target_directory":"C:\\target"}"#;

    #[test]
    fn number_is_read_from_the_outermost_object() {
        assert_eq!(number(REPORT, "violations"), Some("0"));
        assert_eq!(number(REPORT, "rate"), Some("1.5e3"));
        assert_eq!(number(REPORT, "why"), None);
    }

    #[test]
    fn value_is_not_mistaken_for_a_field_name() {
        assert_eq!(number(r#"{"a": "b", "b": 2}"#, "b"), Some("2"));
    }

    #[test]
    fn text_keeps_its_backslashes() {
        assert_eq!(text(REPORT, "target_directory").as_deref(), Some("C:\\target"));
        assert_eq!(text(REPORT, "rate"), None);
    }

    #[test]
    fn broken_document_has_no_fields() {
        for broken in
            ["", "{", r#"{"violations"#, r#"{"violations""#, r#"{"violations":"#, r#""violations": 1"#]
        {
            assert_eq!(number(broken, "violations"), None, "{broken}");
        }
    }
}
