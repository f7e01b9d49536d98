//! The values of TessariQL.

use bytes::Bytes;
use jiff::Timestamp;
use rust_decimal::Decimal;
use std::collections::BTreeMap;
use std::time::Duration;
use uuid::Uuid;

/// An object's fields, ordered by name.
pub type Object = BTreeMap<String, Value>;

/// One value. Prints (`Display`) as TessariQL source that reads back as the same value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// Nothing there; a field that is `NONE` is an absent field.
    #[default]
    None,
    /// Known to be empty.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A binary floating-point number; never NaN or infinite when it comes from source.
    Float(f64),
    /// An exact decimal of up to 28 digits.
    Decimal(Decimal),
    /// Text.
    String(String),
    /// Bytes.
    Bytes(Bytes),
    /// A span of time, never negative, in nanoseconds. At most `u64::MAX` nanoseconds (584 years).
    Duration(Duration),
    /// An instant, to the nanosecond.
    Datetime(Timestamp),
    /// A UUID.
    Uuid(Uuid),
    /// Values in order.
    Array(Vec<Value>),
    /// Named values.
    Object(Object),
}

impl Value {
    /// What the value is, as messages name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::None => "NONE",
            Self::Null => "NULL",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "a whole number",
            Self::Float(_) => "a float",
            Self::Decimal(_) => "a decimal",
            Self::String(_) => "a string",
            Self::Bytes(_) => "bytes",
            Self::Duration(_) => "a duration",
            Self::Datetime(_) => "a datetime",
            Self::Uuid(_) => "a uuid",
            Self::Array(_) => "an array",
            Self::Object(_) => "an object",
        }
    }

    /// An instant from milliseconds since the epoch, as the Kafka protocol counts them: -1 says that there is none
    /// (`NULL`); what lies outside the years 0 to 9999 stays a number.
    pub fn from_millis(millis: i64) -> Self {
        if millis == -1 {
            return Self::Null;
        }
        match Timestamp::from_millisecond(millis) {
            Ok(instant) if printable(instant) => Self::Datetime(instant),
            _ => Self::Int(millis),
        }
    }

    /// An object from its fields; those that are `NONE` are left out.
    pub fn object<K: Into<String>>(fields: impl IntoIterator<Item = (K, Value)>) -> Self {
        Self::Object(
            fields
                .into_iter()
                .filter(|(_, value)| *value != Self::None)
                .map(|(name, value)| (name.into(), value))
                .collect(),
        )
    }

    /// Takes out fields that are `NONE`, at any depth: they are absent.
    pub fn prune(&mut self) {
        match self {
            Self::Array(items) => items.iter_mut().for_each(Self::prune),
            Self::Object(fields) => prune(fields),
            _ => {}
        }
    }

    /// The value as the text that places a message: strings bare, everything else as it prints. `None` for `NONE` and
    /// `NULL`, which place nothing.
    pub fn placement_text(&self) -> Option<String> {
        match self {
            Self::None | Self::Null => None,
            Self::String(text) => Some(text.clone()),
            Self::Decimal(number) => Some(number.to_string()),
            Self::Datetime(instant) => Some(rfc3339(*instant)),
            Self::Uuid(id) => Some(id.to_string()),
            other => Some(other.to_string()),
        }
    }
}

/// Takes out fields that are `NONE`, at any depth.
pub fn prune(fields: &mut Object) {
    fields.retain(|_, value| *value != Value::None);
    fields.values_mut().for_each(Value::prune);
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Int(number)
    }
}

impl From<u32> for Value {
    fn from(number: u32) -> Self {
        Self::Int(i64::from(number))
    }
}

impl From<u64> for Value {
    /// Counts past `i64::MAX` do not occur; they saturate.
    fn from(number: u64) -> Self {
        Self::Int(i64::try_from(number).unwrap_or(i64::MAX))
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::None, Into::into)
    }
}

/// Whether RFC 3339 can write the instant (years 0 to 9999).
fn printable(instant: Timestamp) -> bool {
    // 0000-01-01T00:00:00Z to the end of 9999 as far as the calendar library goes.
    instant.as_second() >= -62_167_219_200
}

/// Reads an RFC 3339 instant; `None` if it is none or lies outside the years 0 to 9999.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    let bytes = text.as_bytes();
    let shaped = |at: usize, shape: &[u8]| {
        bytes.get(at..at + shape.len()).is_some_and(|part| {
            part.iter()
                .zip(shape)
                .all(|(b, s)| if *s == b'0' { b.is_ascii_digit() } else { b == s })
        })
    };
    if !shaped(0, b"0000-00-00") || !matches!(bytes.get(10), Some(b'T' | b't' | b' ')) || !shaped(11, b"00:00:00") {
        return None;
    }
    let mut at = 19;
    if bytes.get(at) == Some(&b'.') {
        let digits = bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            return None;
        }
        at += 1 + digits;
    }
    let zone = match bytes.get(at) {
        Some(b'Z' | b'z') => 1,
        Some(b'+') if shaped(at, b"+00:00") => 6,
        Some(b'-') if shaped(at, b"-00:00") => 6,
        _ => return None,
    };
    if at + zone != bytes.len() {
        return None;
    }
    text.parse::<Timestamp>().ok().filter(|instant| printable(*instant))
}

/// Writes an instant in UTC with 3, 6 or 9 digits of fraction, as few as hold it.
pub fn rfc3339(instant: Timestamp) -> String {
    let nanos = instant.as_nanosecond().rem_euclid(1_000_000_000);
    let whole = instant.strftime("%Y-%m-%dT%H:%M:%S");
    if nanos % 1_000_000 == 0 {
        format!("{whole}.{:03}Z", nanos / 1_000_000)
    } else if nanos % 1_000 == 0 {
        format!("{whole}.{:06}Z", nanos / 1_000)
    } else {
        format!("{whole}.{nanos:09}Z")
    }
}

/// Reads `(digits unit)+`, units ns us ms s m h d w, in any order; `None` if it is no duration or longer than `u64::MAX`
/// nanoseconds.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0u64;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let count: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
        let unit = match &rest[..letters] {
            "ns" => 1,
            "us" => 1_000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3_600 * SECOND,
            "d" => 86_400 * SECOND,
            "w" => 604_800 * SECOND,
            _ => return None,
        };
        rest = &rest[letters..];
        total = total.checked_add(count.checked_mul(unit)?)?;
    }
    Some(Duration::from_nanos(total))
}

const SECOND: u64 = 1_000_000_000;

/// Writes a duration largest unit first, in h m s ms us ns; zero is `0s`.
pub fn duration_text(duration: Duration) -> String {
    let mut rest = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut out = String::new();
    for (unit, nanos) in [
        ("h", 3_600 * SECOND),
        ("m", 60 * SECOND),
        ("s", SECOND),
        ("ms", 1_000_000),
        ("us", 1_000),
        ("ns", 1),
    ] {
        if rest >= nanos {
            out.push_str(&(rest / nanos).to_string());
            out.push_str(unit);
            rest %= nanos;
        }
    }
    if out.is_empty() {
        out.push_str("0s");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_written_normalised() {
        for (source, printed) in [
            ("7d", "168h"),
            ("1w", "168h"),
            ("0s", "0s"),
            ("90m", "1h30m"),
            ("1500ms", "1s500ms"),
            ("30m1h", "1h30m"),
            ("1us1ns", "1us1ns"),
        ] {
            assert_eq!(duration_text(parse_duration(source).unwrap()), printed, "{source}");
        }
    }

    #[test]
    fn what_is_no_duration_is_refused() {
        for source in [
            "",
            "1",
            "h",
            "1.5h",
            "1x",
            "1h ",
            "99999999999999999999s",
            "600000000w",
            "-1s",
        ] {
            assert_eq!(parse_duration(source), None, "{source}");
        }
    }

    #[test]
    fn instants_are_written_in_utc_to_the_millisecond_or_finer() {
        for (source, printed) in [
            ("2026-10-22T11:45:47.225Z", "2026-10-22T11:45:47.225Z"),
            ("2026-10-22T13:45:47.225+02:00", "2026-10-22T11:45:47.225Z"),
            ("2026-10-22T11:45:47Z", "2026-10-22T11:45:47.000Z"),
            ("2026-10-22t11:45:47.1234z", "2026-10-22T11:45:47.123400Z"),
            ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(parse_rfc3339(source).unwrap()), printed, "{source}");
        }
    }

    #[test]
    fn what_is_no_instant_is_refused() {
        for source in [
            "",
            "2026-10-22",
            "2026-10-22T11:45:47",
            "2026-13-22T11:45:47Z",
            "2026-02-30T11:45:47Z",
            "2026-10-22T11:45:47.Z",
            "2026-10-22T11:45:47Z[UTC]",
            "2026-10-22T11:45:47+0200",
            "0000-01-01T00:00:00+01:00",
            "é026-10-22T11:45:47Z",
        ] {
            assert_eq!(parse_rfc3339(source), None, "{source}");
        }
    }

    #[test]
    fn a_clients_wild_time_stays_a_number() {
        assert_eq!(Value::from_millis(-1), Value::Null);
        assert_eq!(Value::from_millis(i64::MAX), Value::Int(i64::MAX));
        assert_eq!(Value::from_millis(i64::MIN), Value::Int(i64::MIN));
        assert_eq!(
            Value::from_millis(1_792_669_547_225).to_string(),
            "datetime '2026-10-22T11:45:47.225Z'"
        );
    }
}
