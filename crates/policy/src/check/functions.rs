//! The functions that a policy may call.
//!
//! Excluded are functions of regorus whose result depends on more than their arguments (`rand.intn`), functions that
//! write to the terminal (`print`, `trace`), and functions that create large results in one step (`numbers.range`,
//! `net.cidr_expand`, `replace`): the time limit is checked between steps, so every step must be small.

/// Sorted, for binary search.
const ALLOWED: &[&str] = &[
    "abs",
    "array.concat",
    "array.reverse",
    "array.slice",
    "ceil",
    "concat",
    "contains",
    "count",
    "endswith",
    "floor",
    "format_int",
    "glob.match",
    "glob.quote_meta",
    "indexof",
    "intersection",
    "is_array",
    "is_boolean",
    "is_null",
    "is_number",
    "is_object",
    "is_set",
    "is_string",
    "lower",
    "max",
    "min",
    "net.cidr_contains",
    "net.cidr_is_valid",
    "object.filter",
    "object.get",
    "object.keys",
    "object.remove",
    "object.subset",
    "object.union",
    "object.union_n",
    "regex.is_valid",
    "regex.match",
    "round",
    "semver.compare",
    "semver.is_valid",
    "sort",
    "split",
    "sprintf",
    "startswith",
    "strings.any_prefix_match",
    "strings.any_suffix_match",
    "strings.count",
    "strings.reverse",
    "substring",
    "sum",
    "to_number",
    "trim",
    "trim_left",
    "trim_prefix",
    "trim_right",
    "trim_space",
    "trim_suffix",
    "type_name",
    "union",
    "units.parse",
    "units.parse_bytes",
    "upper",
];

pub(crate) fn is_allowed(name: &str) -> bool {
    ALLOWED.binary_search(&name).is_ok()
}

/// Whether `glob` has no syntax that OPA reads in another way.
pub(crate) fn is_plain_glob(glob: &str) -> bool {
    !["[^", "[]", "-]", "***"].iter().any(|syntax| glob.contains(syntax))
}

/// Functions that may have no value for valid arguments: the largest item of an empty list, for example.
const PARTIAL: &[&str] = &["array.slice", "max", "min", "units.parse", "units.parse_bytes"];

pub(crate) fn is_partial(name: &str) -> bool {
    PARTIAL.contains(&name)
}

/// Whether `format` has only verbs that mean the same in OPA, without widths: `%9999999999d` creates gigabytes of blanks.
pub(crate) fn has_plain_verbs(format: &str) -> bool {
    let mut chars = format.chars();
    while chars.by_ref().any(|c| c == '%') {
        if !matches!(chars.next(), Some('s' | 'd' | 'v' | 'q' | 'x' | 'X' | 'b' | 'c' | '%')) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use regorus::unstable::BUILTINS;

    #[test]
    fn allowed_functions_exist_and_are_sorted() {
        for name in ALLOWED {
            assert!(BUILTINS.contains_key(name), "{name}");
            assert!(is_allowed(name), "{name} is out of order");
        }
    }

    #[test]
    fn random_printing_and_expanding_functions_are_refused() {
        for name in
            ["rand.intn", "print", "trace", "numbers.range", "net.cidr_expand", "time.now_ns", "http.send"]
        {
            assert!(!is_allowed(name), "{name}");
        }
    }

    #[test]
    fn format_widths_are_detected() {
        assert!(has_plain_verbs("%d of %s, 100%%"));
        assert!(has_plain_verbs("100%%9"));
        for wide in ["%9d", "a%09x", "%.3f", "%%%9d", "%t", "%f", "%+d", "%", "%[1]s"] {
            assert!(!has_plain_verbs(wide), "{wide}");
        }
    }
}
