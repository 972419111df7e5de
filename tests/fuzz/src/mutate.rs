//! Mutations of an input.

use testkit::Random;

/// Larger inputs are slow, and the parsers' own size limits have tests.
const BYTES_MAX: usize = 32 * 1024;

/// How often a part is repeated, to find recursion without a limit.
const REPEATS: [usize; 4] = [2, 8, 64, 1_024];

const NUMBERS: [&str; 10] = [
    "0",
    "-1",
    "1",
    "255",
    "65536",
    "2147483648",
    "9223372036854775808",
    "18446744073709551616",
    "1e309",
    "0.1",
];

const TEXTS: [&str; 18] = [
    "\u{0}",
    "\u{1b}[0m",
    "\u{202e}",
    "\u{feff}",
    "\u{ffff}",
    "é",
    "😀",
    "ѕ",
    "\u{a0}",
    "\r\n",
    "\"",
    "\\",
    "{",
    "[",
    "(",
    "null",
    "true",
    " ",
];

/// A copy of `input` with one to four changes. `other` is another input of the corpus.
pub(crate) fn mutated(input: &[u8], other: &[u8], words: &[&str], random: &mut Random) -> Vec<u8> {
    let mut bytes = input.to_vec();
    for _ in 0..=random.below(4) {
        change(&mut bytes, other, words, random);
    }
    bytes.truncate(BYTES_MAX);
    bytes
}

fn change(bytes: &mut Vec<u8>, other: &[u8], words: &[&str], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = (at + 1 + random.below(24)).min(bytes.len());
    let part = at.min(end)..end;
    match random.below(9) {
        0 => bytes.iter_mut().skip(at).take(1).for_each(|byte| *byte ^= 1 << random.below(8)),
        1 => drop(bytes.drain(part)),
        2 => insert(bytes, at, random.pick(&TEXTS).as_bytes()),
        3 => drop(bytes.splice(part, random.pick(&NUMBERS).bytes())),
        4 | 5 if !words.is_empty() => insert(bytes, at, random.pick(words).as_bytes()),
        6 => {
            let piece = bytes[part].repeat(*random.pick(&REPEATS));
            insert(bytes, at, &piece);
        }
        7 => {
            let from = random.below(other.len());
            let to = (from + 1 + random.below(256)).min(other.len());
            drop(bytes.splice(part, other[from..to].iter().copied()));
        }
        _ => {
            let moved: Vec<u8> = bytes.drain(part).collect();
            let to = random.below(bytes.len() + 1);
            insert(bytes, to, &moved);
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(bytes.splice(at..at, piece.iter().copied()));
}
