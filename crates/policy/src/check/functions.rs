//! The functions that a policy may call.
//!
//! regorus has more. Left out are those whose answer is not a function of their arguments (`rand.intn`),
//! those that write to the terminal (`print`, `trace`), and those that make much out of little in one step
//! (`numbers.range`, `net.cidr_expand`, `replace`): the time budget is looked at between steps, so a step must
//! be small.

/// The functions, sorted.
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

/// Whether a policy may call the function `name`.
pub(crate) fn is_allowed(name: &str) -> bool {
    ALLOWED.binary_search(&name).is_ok()
}

/// Whether `format` asks for no width: `%9999999999d` is a gigabyte of blanks.
pub(crate) fn is_plain(format: &str) -> bool {
    let mut chars = format.chars();
    while chars.by_ref().any(|c| c == '%') {
        if chars.next().is_some_and(|c| c.is_ascii_digit() || c == '.') {
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
    fn every_allowed_function_is_there_and_is_found() {
        for name in ALLOWED {
            assert!(BUILTINS.contains_key(name), "{name}");
            assert!(is_allowed(name), "{name} is out of order");
        }
    }

    #[test]
    fn nothing_that_throws_dice_prints_or_explodes_is_allowed() {
        for name in
            ["rand.intn", "print", "trace", "numbers.range", "net.cidr_expand", "time.now_ns", "http.send"]
        {
            assert!(!is_allowed(name), "{name}");
        }
    }

    #[test]
    fn a_width_in_a_format_is_seen() {
        assert!(is_plain("%d of %s, 100%%"));
        assert!(is_plain("100%%9"));
        for wide in ["%9d", "a%09x", "%.3f", "%%%9d"] {
            assert!(!is_plain(wide), "{wide}");
        }
    }
}
