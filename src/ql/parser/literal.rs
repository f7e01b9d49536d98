//! Literals, and parameters in their place.

use super::super::error::{Error, ErrorKind, Span};
use super::super::lexer::Token;
use super::super::value::{Object, Value, parse_rfc3339};
use super::{MAX_DEPTH, MAX_VALUES, Parser};
use rust_decimal::Decimal;
use std::collections::btree_map::Entry;
use std::time::Duration;

impl<'s> Parser<'s> {
    /// A literal or a parameter; `depth` counts the arrays and objects around it.
    pub(super) fn value(&mut self, depth: usize) -> Result<Value, Error> {
        let (token, span) = self.peek()?.clone();
        if depth > MAX_DEPTH {
            return Err(ErrorKind::TooDeep(MAX_DEPTH).at(span));
        }
        self.values += match &token {
            Token::Parameter(name) => self.parameters.get(*name).map_or(1, size),
            _ => 1,
        };
        if self.values > MAX_VALUES {
            return Err(ErrorKind::TooManyValues(MAX_VALUES).at(span));
        }
        match token {
            Token::Word(word) => self.worded(word),
            Token::Mark('[') => self.array(depth),
            Token::Mark('{') => self.object(depth).map(Value::Object),
            Token::Mark('-') => {
                self.next()?;
                self.number(true, span.start)
            }
            Token::Int(_) | Token::Float(_) => self.number(false, span.start),
            Token::String(text) => self.take(Value::String(text)),
            Token::Bytes(bytes) => self.take(Value::Bytes(bytes)),
            Token::Duration(duration) => self.take(Value::Duration(duration)),
            Token::Parameter(name) => match self.parameters.get(name) {
                // Parameters were read within the limit themselves; together with what is around them they may pass it.
                Some(value) if depth + nesting(value) > MAX_DEPTH => Err(ErrorKind::TooDeep(MAX_DEPTH).at(span)),
                Some(value) => self.take(value.clone()),
                None => Err(ErrorKind::UnboundParameter(name.to_owned()).at(span)),
            },
            Token::Mark(_) | Token::End => Err(self.unexpected("a value")),
        }
    }

    fn take(&mut self, value: Value) -> Result<Value, Error> {
        self.next()?;
        Ok(value)
    }

    /// Values that begin with a keyword.
    fn worded(&mut self, word: &str) -> Result<Value, Error> {
        let simple = match word.to_ascii_uppercase().as_str() {
            "NONE" => Value::None,
            "NULL" => Value::Null,
            "TRUE" => Value::Bool(true),
            "FALSE" => Value::Bool(false),
            "DEC" => return self.decimal(),
            "DATETIME" => {
                return self.quoted("datetime and an RFC 3339 instant, years 0 to 9999", |text| {
                    parse_rfc3339(text).map(Value::Datetime)
                });
            }
            "UUID" => {
                return self.quoted("uuid and 32 hexadecimal digits", |text| {
                    text.parse().ok().map(Value::Uuid)
                });
            }
            _ => return Err(self.unexpected("a value")),
        };
        self.take(simple)
    }

    /// A keyword and a string literal that says more.
    fn quoted(&mut self, what: &str, read: impl Fn(&str) -> Option<Value>) -> Result<Value, Error> {
        self.next()?;
        match self.peek()?.clone() {
            (Token::String(text), span) => {
                let invalid = || ErrorKind::InvalidLiteral(format!("this is not {what}")).at(span);
                let value = read(&text).ok_or_else(invalid)?;
                self.take(value)
            }
            _ => Err(self.unexpected("a string")),
        }
    }

    fn decimal(&mut self) -> Result<Value, Error> {
        self.next()?;
        let start = self.peek()?.1.start;
        let negative = self.eat_mark('-')?;
        match self.peek()?.0 {
            Token::Int(text) | Token::Float(text) => {
                self.next()?;
                let invalid = || {
                    let message = "an exact decimal has up to 28 digits and no exponent".to_owned();
                    ErrorKind::InvalidLiteral(message).at(self.since(start))
                };
                let mut number = Decimal::from_str_exact(text).map_err(|_| invalid())?;
                number.set_sign_negative(negative && !number.is_zero());
                Ok(Value::Decimal(number))
            }
            _ => Err(self.unexpected("digits")),
        }
    }

    fn number(&mut self, negative: bool, start: usize) -> Result<Value, Error> {
        let sign = if negative { "-" } else { "" };
        let value = match self.peek()?.0 {
            Token::Int(digits) => {
                self.next()?;
                format!("{sign}{digits}").parse().ok().map(Value::Int)
            }
            Token::Float(text) => {
                self.next()?;
                let finite = format!("{sign}{text}")
                    .parse()
                    .ok()
                    .filter(|number: &f64| number.is_finite());
                finite.map(Value::Float)
            }
            _ => return Err(self.unexpected("a number")),
        };
        value.ok_or_else(|| ErrorKind::InvalidLiteral("the number is out of range".to_owned()).at(self.since(start)))
    }

    fn since(&self, start: usize) -> Span {
        Span {
            start,
            end: self.last.end,
        }
    }

    fn array(&mut self, depth: usize) -> Result<Value, Error> {
        self.next()?;
        let mut items = Vec::new();
        while !self.eat_mark(']')? {
            items.push(self.value(depth + 1)?);
            if !self.eat_mark(',')? && self.peek()?.0 != Token::Mark(']') {
                return Err(self.unexpected("`,` or `]`"));
            }
        }
        Ok(Value::Array(items))
    }

    fn object(&mut self, depth: usize) -> Result<Object, Error> {
        self.next()?;
        let mut fields = Object::new();
        while !self.eat_mark('}')? {
            let name = self.field()?;
            let span = self.last;
            self.expect_mark(':')?;
            let value = self.value(depth + 1)?;
            match fields.entry(name) {
                Entry::Vacant(free) => free.insert(value),
                Entry::Occupied(taken) => return Err(ErrorKind::FieldTwice(taken.key().clone()).at(span)),
            };
            if !self.eat_mark(',')? && self.peek()?.0 != Token::Mark('}') {
                return Err(self.unexpected("`,` or `}`"));
            }
        }
        Ok(fields)
    }

    /// A field's name: any word, reserved or not, or a string.
    pub(super) fn field(&mut self) -> Result<String, Error> {
        let name = match &self.peek()?.0 {
            Token::Word(word) => (*word).to_owned(),
            Token::String(text) => text.clone(),
            _ => return Err(self.unexpected("a field's name")),
        };
        self.next()?;
        Ok(name)
    }

    /// A value that must be an object.
    pub(super) fn fields(&mut self) -> Result<Object, Error> {
        let (value, span) = self.spanned()?;
        match value {
            Value::Object(fields) => Ok(fields),
            other => Err(self.wrong("an object", &other, span)),
        }
    }

    /// A value that must be a string.
    pub(super) fn string(&mut self) -> Result<String, Error> {
        let (value, span) = self.spanned()?;
        match value {
            Value::String(text) => Ok(text),
            other => Err(self.wrong("a string", &other, span)),
        }
    }

    /// A value that must be a duration.
    pub(super) fn duration(&mut self) -> Result<Duration, Error> {
        let (value, span) = self.spanned()?;
        match value {
            Value::Duration(duration) => Ok(duration),
            other => Err(self.wrong("a duration", &other, span)),
        }
    }

    /// A value that must be a whole number from `least` to `most`.
    pub(super) fn count(&mut self, least: u64, most: u64) -> Result<u64, Error> {
        let (value, span) = self.spanned()?;
        match value {
            Value::Int(number) => u64::try_from(number)
                .ok()
                .filter(|number| (least..=most).contains(number))
                .ok_or_else(|| {
                    let message = match most {
                        ANY => format!("{number} is less than {least}"),
                        _ => format!("{number} is not from {least} to {most}"),
                    };
                    ErrorKind::InvalidValue(message).at(span)
                }),
            other => Err(self.wrong("a whole number", &other, span)),
        }
    }

    /// As `count`, with the bounds of `u32`.
    pub(super) fn small_count(&mut self, least: u32, most: u32) -> Result<u32, Error> {
        let number = self.count(least.into(), most.into())?;
        // Within `most`, so it fits.
        Ok(u32::try_from(number).unwrap_or(most))
    }

    fn spanned(&mut self) -> Result<(Value, Span), Error> {
        let start = self.peek()?.1.start;
        let value = self.value(0)?;
        Ok((value, self.since(start)))
    }

    fn wrong(&self, expected: &str, value: &Value, span: Span) -> Error {
        ErrorKind::UnexpectedToken {
            expected: expected.to_owned(),
            found: value.kind().to_owned(),
        }
        .at(span)
    }
}

/// The largest number there is: no upper bound.
pub(super) const ANY: u64 = i64::MAX as u64;

/// How much deeper than a value its innermost value lies.
fn nesting(value: &Value) -> usize {
    let within = match value {
        Value::Array(items) => items.iter().map(nesting).max(),
        Value::Object(fields) => fields.values().map(nesting).max(),
        _ => None,
    };
    within.map_or(0, |deepest| deepest + 1)
}

/// Values within a value, itself included.
fn size(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size).sum(),
        Value::Object(fields) => fields.values().map(size).sum(),
        _ => 0,
    }
}
