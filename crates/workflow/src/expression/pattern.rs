//! The cost of a regular expression.
//!
//! A pattern is compiled for every match, and the time of a match is proportional to the length of the text times the
//! states of the pattern. Counted repetitions multiply states: `(.{0,100}){0,100}` has eighteen characters and takes
//! minutes for a megabyte. So the number of states is estimated from the pattern and limited, and both costs are charged
//! to the work budget.

/// Enough for a date, an address or a path of normal length, and for eight `\w`. Compiling this many states takes six
/// milliseconds.
pub(super) const STATES_MAX: u64 = 8_192;

/// The states of the parts of a pattern. A single character has one state.
struct Weights {
    /// `.` or `[a-z]`.
    set: u64,
    /// `\d`, `\s` and other escapes for a few characters.
    class: u64,
    /// `\w`, `\pL` and negated classes: most of Unicode.
    large_class: u64,
}

/// Compilation builds every range of a class.
const COMPILED: Weights = Weights { set: 16, class: 64, large_class: 1_024 };

/// A match is in one or two states of a class at a time.
const MATCHED: Weights = Weights { set: 4, class: 4, large_class: 4 };

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct PatternCost {
    /// The states that are built for each match.
    pub(super) compiled: u64,
    /// The states that are visited for each byte of the text.
    pub(super) matched: u64,
}

/// Estimates the cost of `pattern`.
pub(super) fn cost(pattern: &str) -> PatternCost {
    PatternCost { compiled: states(pattern, &COMPILED), matched: states(pattern, &MATCHED) }
}

/// Estimates the number of states of `pattern`. The estimate may be off by the size of a class, but not by the factor of a
/// repetition.
fn states(pattern: &str, weights: &Weights) -> u64 {
    let mut estimate = Estimate { groups: vec![0], last: 0 };
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        match c {
            '(' => estimate.open(),
            ')' => estimate.close(),
            '{' => estimate.repeat(largest_count(&until(&mut chars, '}'))),
            '[' => estimate.add(set(&until(&mut chars, ']'), weights)),
            '.' => estimate.add(weights.set),
            '\\' => estimate.add(escape(&mut chars, weights)),
            _ => estimate.add(1),
        }
    }
    estimate.groups.into_iter().fold(0, u64::saturating_add)
}

fn set(inside: &str, weights: &Weights) -> u64 {
    let is_large = ["\\w", "\\W", "\\D", "\\S", "\\p", "\\P"].iter().any(|class| inside.contains(class));
    if is_large { weights.large_class } else { weights.set }
}

/// The states of an escape sequence. Consumes the name of a class.
fn escape(chars: &mut std::str::Chars<'_>, weights: &Weights) -> u64 {
    match chars.next() {
        Some('p' | 'P') => {
            if chars.next() == Some('{') {
                until(chars, '}');
            }
            weights.large_class
        }
        Some('w' | 'W' | 'D' | 'S') => weights.large_class,
        Some(c) if c.is_alphabetic() => weights.class,
        Some(_) | None => 1,
    }
}

struct Estimate {
    /// The states of the open groups, outermost first.
    groups: Vec<u64>,
    /// The states of the last part, which a repetition multiplies.
    last: u64,
}

impl Estimate {
    fn add(&mut self, states: u64) {
        self.last = states;
        if let Some(group) = self.groups.last_mut() {
            *group = group.saturating_add(states);
        }
    }

    fn open(&mut self) {
        self.groups.push(0);
        self.last = 0;
    }

    fn close(&mut self) {
        if self.groups.len() > 1 {
            let group = self.groups.pop().unwrap_or(0);
            self.add(group);
        }
    }

    /// Multiplies the last part by `count`. The group already contains it once.
    fn repeat(&mut self, count: u64) {
        let repeated = self.last.saturating_mul(count);
        self.add(repeated.saturating_sub(self.last));
        self.last = repeated;
    }
}

fn until(chars: &mut std::str::Chars<'_>, end: char) -> String {
    chars.by_ref().take_while(|c| *c != end).collect()
}

/// The larger number of `{2,5}`. Other characters are skipped, because some regex modes ignore spaces.
fn largest_count(counts: &str) -> u64 {
    let number = |text: &str| text.chars().filter(char::is_ascii_digit).collect::<String>().parse().ok();
    counts.split(',').filter_map(number).max().unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(pattern: &str) -> u64 {
        cost(pattern).compiled
    }

    #[test]
    fn typical_patterns_are_small() {
        for pattern in [
            "^INC[0-9]{7}$",
            r"^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z$",
            r"^[a-z0-9._%+-]{1,64}@[a-z0-9.-]{1,64}\.[a-z]{2,10}$",
            r"(?i)error|warning|fatal",
            r"^\w+\.\w+@\w+\.\w+$",
        ] {
            assert!(compiled(pattern) <= STATES_MAX, "{pattern}: {}", compiled(pattern));
        }
    }

    #[test]
    fn repetitions_multiply_whole_groups() {
        for (pattern, states) in
            [("abc", 3), ("ab{10}", 11), ("(ab){10}", 20), ("((ab){10}c){2,3}", 63), ("a{2}{3}", 6)]
        {
            assert_eq!(cost(pattern), PatternCost { compiled: states, matched: states }, "{pattern}");
        }
        assert_eq!(compiled("(?x) a{ 1 0 0 }"), 103);
        assert_eq!(cost("(.{0,100}){0,100}").matched, 40_000);
        assert!(compiled("((((((a{999}){999}){999}){999}){999}){999}){999}") > STATES_MAX);
    }

    #[test]
    fn unicode_classes_are_large() {
        for pattern in [r"\w{60}", r"\pL{60}", r"\p{Greek}{60}", r"[\w.]{60}", r"[^\P{L}]{60}", r"\D{60}"] {
            assert_eq!(compiled(pattern), 60 * 1_024, "{pattern}");
        }
    }

    #[test]
    fn invalid_patterns_are_estimated() {
        for pattern in ["", ")", "(((", "{5}", "[", "a{", "\\", "\\p", "a{x}", "a{99999999999999999999}"] {
            assert!(compiled(pattern) <= STATES_MAX, "{pattern}");
        }
    }
}
