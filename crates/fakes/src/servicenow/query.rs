//! Encoded queries, as far as the tools use them: `a=b^cLIKEd^ORDERBYDESCe`.

use super::table::Record;

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Condition {
    Is(String, String),
    Contains(String, String),
    /// An ORDERBY, or an unsupported condition.
    Other,
}

impl Condition {
    pub(super) fn holds(&self, record: &Record) -> bool {
        let value = |field: &String| record.get(field).map_or("", String::as_str);
        match self {
            Self::Is(field, expected) => value(field) == expected,
            Self::Contains(field, expected) => value(field).contains(expected.as_str()),
            Self::Other => true,
        }
    }
}

pub(super) fn read(query: &str) -> Vec<Condition> {
    query.split('^').map(condition).collect()
}

fn condition(part: &str) -> Condition {
    let pair = |(field, value): (&str, &str)| (field.to_owned(), value.to_owned());
    if part.starts_with("ORDERBY") {
        return Condition::Other;
    }
    if let Some((field, value)) = part.split_once("LIKE").map(pair) {
        return Condition::Contains(field, value);
    }
    part.split_once('=').map(pair).map_or(Condition::Other, |(field, value)| Condition::Is(field, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn query_is_the_conjunction_of_its_parts() {
        let record: Record = [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "xyz".to_owned())].into();
        let holds = |query: &str| read(query).iter().all(|condition| condition.holds(&record));
        assert!(holds("a=1^bLIKEy^ORDERBYDESCa"));
        assert!(holds(""));
        assert!(!holds("a=1^bLIKEq"));
        assert!(!holds("a=2"));
    }
}
