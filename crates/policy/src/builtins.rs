//! Functions that replace those of regorus, because OPA's have other results.
//!
//! The results are Go's, in which OPA is written. A call that OPA cannot answer is undefined there. Here it is an error,
//! as for every other function, and an error denies.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use domain::re2::{self, Re2Error};
use regex::{Regex, RegexBuilder};
use regorus::{Engine, Value};

/// The size of a compiled pattern, which limits the time of a match. Regorus has the same limit.
const PATTERN_BYTES_MAX: usize = 100 * 1024;

/// Why a function has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BuiltinError {
    #[error("expected a string")]
    NotText,
    #[error("expected an array, an object, a set or a string")]
    NotCountable,
    #[error("expected two objects, two sets, two arrays, or an array and a set")]
    NotComparable,
    #[error("expected a number, a boolean, null, or a string with a number")]
    NotNumber,
    #[error("the text to find is empty")]
    NoPart,
    #[error("invalid network `{0}`; write an address and a prefix length, such as `10.0.0.0/8`")]
    Network(String),
    #[error("invalid pattern: {0}")]
    Syntax(#[from] Re2Error),
    #[error("invalid pattern")]
    Pattern,
    #[error("the pattern is too large; use smaller counts")]
    PatternSize,
}

/// Replaces the functions of `engine`. Regorus refuses a second replacement.
pub(crate) fn install(engine: &mut Engine) -> Result<(), String> {
    let mut add = |name: &str, arguments: u8, function: fn(&[Value]) -> Result<Value, BuiltinError>| {
        let extension = Box::new(move |values: Vec<Value>| Ok(function(&values)?));
        engine.add_extension(name.to_owned(), arguments, extension).map_err(|error| error.to_string())
    };
    add("count", 1, count)?;
    add("glob.quote_meta", 1, quote_meta)?;
    add("indexof", 2, index_of)?;
    add("lower", 1, lower)?;
    add("net.cidr_contains", 2, cidr_contains)?;
    add("net.cidr_is_valid", 1, cidr_is_valid)?;
    add("object.subset", 2, object_subset)?;
    add("regex.is_valid", 1, regex_is_valid)?;
    add("regex.match", 2, regex_match)?;
    add("strings.count", 2, strings_count)?;
    add("to_number", 1, to_number)?;
    add("upper", 1, upper)
}

fn text(values: &[Value], index: usize) -> Result<&str, BuiltinError> {
    match values.get(index) {
        Some(Value::String(text)) => Ok(text),
        _ => Err(BuiltinError::NotText),
    }
}

/// The number of items. A string has characters; regorus counts the units of UTF-16.
fn count(values: &[Value]) -> Result<Value, BuiltinError> {
    let count = match values.first() {
        Some(Value::Array(items)) => items.len(),
        Some(Value::Set(items)) => items.len(),
        Some(Value::Object(fields)) => fields.len(),
        Some(Value::String(text)) => text.chars().count(),
        _ => return Err(BuiltinError::NotCountable),
    };
    Ok(Value::from(count))
}

/// The empty text occurs before each character and at the end.
fn strings_count(values: &[Value]) -> Result<Value, BuiltinError> {
    let (subject, part) = (text(values, 0)?, text(values, 1)?);
    Ok(Value::from(subject.matches(part).count()))
}

/// The index of a character, not of a byte.
fn index_of(values: &[Value]) -> Result<Value, BuiltinError> {
    let (subject, part) = (text(values, 0)?, text(values, 1)?);
    if part.is_empty() {
        return Err(BuiltinError::NoPart);
    }
    match subject.split_once(part) {
        Some((before, _)) => Ok(Value::from(before.chars().count())),
        None => Ok(Value::from(-1)),
    }
}

fn quote_meta(values: &[Value]) -> Result<Value, BuiltinError> {
    let mut quoted = String::new();
    for c in text(values, 0)?.chars() {
        if matches!(c, '*' | '?' | '\\' | '[' | ']' | '{' | '}') {
            quoted.push('\\');
        }
        quoted.push(c);
    }
    Ok(Value::from(quoted))
}

/// Go maps each character to one character.
fn lower(values: &[Value]) -> Result<Value, BuiltinError> {
    let lowercase: String = text(values, 0)?.chars().filter_map(|c| c.to_lowercase().next()).collect();
    Ok(Value::from(lowercase))
}

fn upper(values: &[Value]) -> Result<Value, BuiltinError> {
    let uppercase: String = text(values, 0)?.chars().map(upper_char).collect();
    Ok(Value::from(uppercase))
}

/// The capital of a character, if it is one character.
fn upper_char(c: char) -> char {
    let mut capital = c.to_uppercase();
    match (c, capital.next(), capital.next()) {
        (_, Some(capital), None) => capital,
        // These have a capital of their own, and a longer one that Rust prefers.
        ('\u{1f80}'..='\u{1f87}' | '\u{1f90}'..='\u{1f97}' | '\u{1fa0}'..='\u{1fa7}', ..) => {
            offset_char(c, 8)
        }
        ('\u{1fb3}' | '\u{1fc3}' | '\u{1ff3}', ..) => offset_char(c, 9),
        _ => c,
    }
}

fn offset_char(c: char, distance: u32) -> char {
    char::from_u32(u32::from(c) + distance).unwrap_or(c)
}

fn to_number(values: &[Value]) -> Result<Value, BuiltinError> {
    match values.first() {
        Some(Value::Null | Value::Bool(false)) => Ok(Value::from(0)),
        Some(Value::Bool(true)) => Ok(Value::from(1)),
        Some(number @ Value::Number(_)) => Ok(number.clone()),
        Some(Value::String(text)) => {
            // The reader of JSON skips white space.
            let has_no_whitespace = !text.contains(|c: char| c.is_ascii_whitespace());
            let number =
                Value::from_json_str(text).ok().filter(|value| has_no_whitespace && is_finite(value));
            number.ok_or(BuiltinError::NotNumber)
        }
        _ => Err(BuiltinError::NotNumber),
    }
}

fn is_finite(value: &Value) -> bool {
    matches!(value, Value::Number(number) if number.as_f64().is_none_or(f64::is_finite))
}

fn object_subset(values: &[Value]) -> Result<Value, BuiltinError> {
    let [outer, inner] = values else { return Err(BuiltinError::NotComparable) };
    let contains = match (outer, inner) {
        (Value::Array(outer), Value::Set(inner)) => inner.iter().all(|item| outer.contains(item)),
        (Value::Object(_), Value::Object(_))
        | (Value::Set(_), Value::Set(_))
        | (Value::Array(_), Value::Array(_)) => contains(outer, inner),
        _ => return Err(BuiltinError::NotComparable),
    };
    Ok(Value::from(contains))
}

/// Whether `outer` has every field, member or item of `inner`. Items are in a row.
fn contains(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        (Value::Object(outer), Value::Object(inner)) => {
            inner.iter().all(|(name, value)| outer.get(name).is_some_and(|found| contains(found, value)))
        }
        (Value::Set(outer), Value::Set(inner)) => inner.iter().all(|item| outer.contains(item)),
        (Value::Array(outer), Value::Array(inner)) => {
            let (outer, inner): (Vec<&Value>, Vec<&Value>) = (outer.iter().collect(), inner.iter().collect());
            inner.is_empty() || outer.windows(inner.len()).any(|window| window == inner)
        }
        _ => outer == inner,
    }
}

/// Compiles a pattern of RE2.
pub(crate) fn pattern(pattern: &str) -> Result<Regex, BuiltinError> {
    let translated = re2::translate(pattern)?;
    RegexBuilder::new(&translated).size_limit(PATTERN_BYTES_MAX).build().map_err(|error| match error {
        regex::Error::CompiledTooBig(_) => BuiltinError::PatternSize,
        _ => BuiltinError::Pattern,
    })
}

fn regex_match(values: &[Value]) -> Result<Value, BuiltinError> {
    let (pattern_text, subject) = (text(values, 0)?, text(values, 1)?);
    Ok(Value::from(pattern(pattern_text)?.is_match(subject)))
}

fn regex_is_valid(values: &[Value]) -> Result<Value, BuiltinError> {
    match pattern(text(values, 0)?) {
        Ok(_) => Ok(Value::from(true)),
        Err(BuiltinError::PatternSize) => Err(BuiltinError::PatternSize),
        Err(_) => Ok(Value::from(false)),
    }
}

fn cidr_is_valid(values: &[Value]) -> Result<Value, BuiltinError> {
    Ok(Value::from(Network::parse(text(values, 0)?).is_some()))
}

fn cidr_contains(values: &[Value]) -> Result<Value, BuiltinError> {
    let network = |text: &str| Network::parse(text).ok_or_else(|| BuiltinError::Network(text.to_owned()));
    let (outer, inner) = (network(text(values, 0)?)?, text(values, 1)?);
    if let Ok(address) = inner.parse() {
        return Ok(Value::from(outer.contains(address)));
    }
    let inner = network(inner)?;
    Ok(Value::from(outer.contains(inner.first) && outer.contains(inner.last())))
}

/// An address range, with IPv4-mapped addresses as IPv4.
struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let is_number = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
        let bits: u32 = bits.parse().ok().filter(|_| is_number)?;
        let width = bit_width(address);
        let host_bits = width.checked_sub(bits)?;
        let first = from_bits(to_bits(address) & mask(width).checked_shl(host_bits).unwrap_or(0), address);
        Some(match (first, first.to_canonical()) {
            (IpAddr::V6(_), mapped @ IpAddr::V4(_)) => Self { first: mapped, bits: bits.saturating_sub(96) },
            _ => Self { first, bits },
        })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let host_bits = bit_width(self.first).saturating_sub(self.bits);
        let part = |address| to_bits(address).checked_shr(host_bits).unwrap_or(0);
        address.is_ipv4() == self.first.is_ipv4() && part(address) == part(self.first)
    }

    fn last(&self) -> IpAddr {
        let host_bits = bit_width(self.first).saturating_sub(self.bits);
        let hosts = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |hosts| hosts - 1);
        from_bits(to_bits(self.first) | hosts, self.first)
    }
}

fn bit_width(address: IpAddr) -> u32 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn mask(width: u32) -> u128 {
    u128::MAX >> 128_u32.saturating_sub(width)
}

fn to_bits(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(address.to_bits()),
        IpAddr::V6(address) => address.to_bits(),
    }
}

/// The address with this number, of the family of `like`.
fn from_bits(number: u128, like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => {
            IpAddr::V4(Ipv4Addr::from_bits(u32::try_from(number & mask(32)).unwrap_or(u32::MAX)))
        }
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::from_bits(number)),
    }
}
