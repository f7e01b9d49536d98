//! How values print: source that reads back as the same value.

use super::lexer::is_identifier;
use super::value::{Object, Value, duration_text, rfc3339};
use std::fmt::{self, Display, Formatter, Write};

impl Display for Value {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("NONE"),
            Self::Null => f.write_str("NULL"),
            Self::Bool(truth) => write!(f, "{truth}"),
            Self::Int(number) => write!(f, "{number}"),
            // `Debug` keeps the dot or exponent that makes it a float.
            Self::Float(number) => write!(f, "{number:?}"),
            Self::Decimal(number) => write!(f, "dec {number}"),
            Self::String(text) => write!(f, "{}", Quoted(text)),
            Self::Bytes(bytes) => {
                f.write_str("0x")?;
                bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
            }
            Self::Duration(duration) => f.write_str(&duration_text(*duration)),
            Self::Datetime(instant) => write!(f, "datetime '{}'", rfc3339(*instant)),
            Self::Uuid(id) => write!(f, "uuid '{id}'"),
            Self::Array(items) => {
                f.write_char('[')?;
                for (at, item) in items.iter().enumerate() {
                    if at > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{item}")?;
                }
                f.write_char(']')
            }
            Self::Object(fields) => object(f, fields),
        }
    }
}

/// An object's fields in braces.
pub(super) fn object(f: &mut Formatter<'_>, fields: &Object) -> fmt::Result {
    if fields.is_empty() {
        return f.write_str("{}");
    }
    f.write_str("{ ")?;
    for (at, (name, value)) in fields.iter().enumerate() {
        if at > 0 {
            f.write_str(", ")?;
        }
        write!(f, "{}: {value}", FieldName(name))?;
    }
    f.write_str(" }")
}

/// A string literal.
pub(super) struct Quoted<'a>(pub &'a str);

impl Display for Quoted<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_char('\'')?;
        for c in self.0.chars() {
            match c {
                '\n' => f.write_str("\\n")?,
                '\t' => f.write_str("\\t")?,
                '\r' => f.write_str("\\r")?,
                '\0' => f.write_str("\\0")?,
                '\\' => f.write_str("\\\\")?,
                '\'' => f.write_str("\\'")?,
                c => f.write_char(c)?,
            }
        }
        f.write_char('\'')
    }
}

/// A field's name: bare where it is an identifier, quoted elsewhere.
pub(super) struct FieldName<'a>(pub &'a str);

impl Display for FieldName<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        if is_identifier(self.0) {
            f.write_str(self.0)
        } else {
            write!(f, "{}", Quoted(self.0))
        }
    }
}
