//! Source text into tokens, one at a time.

use super::error::{Error, ErrorKind, Span};
use super::value::parse_duration;
use bytes::Bytes;
use std::time::Duration;

/// One token. Numbers keep their text: what they become depends on where they stand.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Token<'s> {
    /// A keyword or a name.
    Word(&'s str),
    /// Digits.
    Int(&'s str),
    /// Digits with a fraction or an exponent.
    Float(&'s str),
    Duration(Duration),
    String(String),
    Bytes(Bytes),
    /// `$name`, without the dollar.
    Parameter(&'s str),
    /// One of `= ( ) { } [ ] , ; : . - *`.
    Mark(char),
    End,
}

pub(super) struct Lexer<'s> {
    source: &'s str,
    at: usize,
}

impl<'s> Lexer<'s> {
    pub(super) fn new(source: &'s str) -> Self {
        Self { source, at: 0 }
    }

    pub(super) fn text(&self, span: Span) -> &'s str {
        self.source.get(span.start..span.end).unwrap_or_default()
    }

    /// The next token; after the last, `End` for ever.
    pub(super) fn next(&mut self) -> Result<(Token<'s>, Span), Error> {
        self.skip_blanks();
        let start = self.at;
        let Some(first) = self.rest().chars().next() else {
            return Ok((Token::End, Span { start, end: start }));
        };
        let token = match first {
            'A'..='Z' | 'a'..='z' | '_' => Token::Word(self.take_while(is_word)),
            '0'..='9' => self.number()?,
            '\'' | '"' => Token::String(self.string(first)?),
            '$' => {
                self.at += 1;
                let name = self.take_while(is_word);
                if !is_identifier(name) {
                    return Err(self.invalid(start, "a parameter is $ and a name"));
                }
                Token::Parameter(name)
            }
            '=' | '(' | ')' | '{' | '}' | '[' | ']' | ',' | ';' | ':' | '.' | '-' | '*' => {
                self.at += 1;
                Token::Mark(first)
            }
            other => {
                self.at += other.len_utf8();
                let kind = ErrorKind::UnexpectedToken {
                    expected: "TessariQL".to_owned(),
                    found: format!("{other:?}"),
                };
                return Err(kind.at(self.span(start)));
            }
        };
        Ok((token, self.span(start)))
    }

    fn rest(&self) -> &'s str {
        &self.source[self.at..]
    }

    fn span(&self, start: usize) -> Span {
        Span { start, end: self.at }
    }

    fn invalid(&self, start: usize, message: &str) -> Error {
        ErrorKind::InvalidLiteral(message.to_owned()).at(self.span(start))
    }

    /// Takes ASCII bytes as long as they match.
    fn take_while(&mut self, matches: impl Fn(u8) -> bool) -> &'s str {
        let start = self.at;
        self.at += self.rest().bytes().take_while(|b| b.is_ascii() && matches(*b)).count();
        &self.source[start..self.at]
    }

    fn skip_blanks(&mut self) {
        loop {
            self.at += self.rest().len() - self.rest().trim_start().len();
            if !self.rest().starts_with("--") {
                return;
            }
            self.at += self.rest().find('\n').unwrap_or_else(|| self.rest().len());
        }
    }

    fn number(&mut self) -> Result<Token<'s>, Error> {
        let start = self.at;
        if self.rest().starts_with("0x") || self.rest().starts_with("0X") {
            self.at += 2;
            let digits = self.take_while(is_word);
            return match decode_hex(digits) {
                Some(bytes) => Ok(Token::Bytes(bytes.into())),
                None => Err(self.invalid(start, "bytes are 0x and an even number of hexadecimal digits")),
            };
        }
        self.take_while(|b| b.is_ascii_digit());
        let mut float = false;
        if self.rest().starts_with('.') {
            self.at += 1;
            if self.take_while(|b| b.is_ascii_digit()).is_empty() {
                return Err(self.invalid(start, "a fraction needs a digit after the dot"));
            }
            float = true;
        }
        if let Some(b'e' | b'E') = self.rest().bytes().next() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.rest().bytes().next() {
                self.at += 1;
            }
            if self.take_while(|b| b.is_ascii_digit()).is_empty() {
                return Err(self.invalid(start, "an exponent needs a digit"));
            }
            float = true;
        }
        let digits = self.at;
        let unit = self.take_while(is_word);
        let text = &self.source[start..self.at];
        if unit.is_empty() {
            return Ok(if float { Token::Float(text) } else { Token::Int(text) });
        }
        match parse_duration(text) {
            Some(duration) if !float => Ok(Token::Duration(duration)),
            _ => {
                let message = format!(
                    "{} is neither a number nor a duration (ns us ms s m h d w, 584 years at most)",
                    shorten(text, digits - start + 16)
                );
                Err(self.invalid(start, &message))
            }
        }
    }

    fn string(&mut self, quote: char) -> Result<String, Error> {
        let start = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = self.rest();
            let Some(at) = rest.find([quote, '\\']) else {
                self.at = self.source.len();
                return Err(self.invalid(start, "the string has no end"));
            };
            out.push_str(&rest[..at]);
            self.at += at + 1;
            if rest[at..].starts_with(quote) {
                return Ok(out);
            }
            let escape = self.at - 1;
            let Some(c) = self.rest().chars().next() else {
                return Err(self.invalid(start, "the string has no end"));
            };
            self.at += c.len_utf8();
            out.push(match c {
                'n' => '\n',
                't' => '\t',
                'r' => '\r',
                '0' => '\0',
                '\\' | '\'' | '"' => c,
                _ => return Err(self.invalid(escape, "the escapes of a string are \\n \\t \\r \\0 \\\\ \\' \\\"")),
            });
        }
    }
}

fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// `[A-Za-z_][A-Za-z0-9_]*`.
pub fn is_identifier(text: &str) -> bool {
    text.bytes().all(is_word) && text.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// Bytes from an even number of hexadecimal digits.
pub(super) fn decode_hex(digits: &str) -> Option<Vec<u8>> {
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    digits
        .as_bytes()
        .chunks_exact(2)
        .map(|pair| {
            let high = (pair[0] as char).to_digit(16)?;
            let low = (pair[1] as char).to_digit(16)?;
            u8::try_from(high * 16 + low).ok()
        })
        .collect()
}

/// At most `limit` bytes of the text, for messages.
pub(super) fn shorten(text: &str, limit: usize) -> &str {
    if text.len() <= limit {
        return text;
    }
    let mut end = limit;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
