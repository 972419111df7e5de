//! Text tables.

/// Two spaces separate columns; one would look like a space between words.
const GAP: &str = "  ";

/// Renders rows under a heading. Each column is as wide as its widest cell. Ends with a line feed.
pub fn table<const N: usize>(heading: [&str; N], rows: &[[String; N]]) -> String {
    let heading = heading.map(str::to_owned);
    let widths: [usize; N] = std::array::from_fn(|column| {
        let cells = rows.iter().chain([&heading]).map(|row| row[column].chars().count());
        cells.max().unwrap_or(0)
    });
    [&heading].into_iter().chain(rows).map(|row| line(row, &widths)).collect()
}

fn line<const N: usize>(row: &[String; N], widths: &[usize; N]) -> String {
    let cells: Vec<String> = row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("{}\n", cells.join(GAP).trim_end())
}

/// Indents every line by `by` spaces; empty lines stay empty.
pub fn indented(text: &str, by: usize) -> String {
    let moved = |line: &str| if line.is_empty() { "\n".to_owned() } else { format!("{:by$}{line}\n", "") };
    text.lines().map(moved).collect()
}

/// Wraps `text` between words, in lines of at most `width` characters.
pub fn wrapped(text: &str, width: usize) -> String {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines.into_iter().flat_map(|line| [line, "\n".to_owned()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_align_without_trailing_spaces() {
        let rows = [["1".to_owned(), "ü".to_owned()], ["22".to_owned(), String::new()]];
        assert_eq!(table(["#", "NAME"], &rows), "#   NAME\n1   ü\n22\n");
    }

    #[test]
    fn long_word_gets_its_own_line() {
        assert_eq!(wrapped("a bb ccccccc d", 4), "a bb\nccccccc\nd\n");
    }

    #[test]
    fn empty_lines_stay_empty() {
        assert_eq!(indented("a\n\nb", 2), "  a\n\n  b\n");
    }
}
