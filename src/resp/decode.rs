//! Commands out of bytes: arrays of bulk strings, or a line of words ("inline"), as they come.
//!
//! ```text
//!   *2 CRLF $4 CRLF ECHO CRLF $2 CRLF hi CRLF          ECHO "hi" LF
//! ```
//!
//! A claimed length takes no memory; the buffer grows with the bytes that came, by whoever reads them. What was parsed of a
//! command that is not whole is not parsed again.

use super::number::integer;
use bytes::{Bytes, BytesMut};

/// Longest line that carries a count or a length: a sign, 19 digits, CRLF.
const NUMBER_LINE: usize = 22;
/// Longest line of words, as in Redis.
const WORDS_LINE: usize = 64 << 10;

/// How large a command may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommandLimits {
    /// Bytes of all of it, as sent.
    pub bytes: usize,
    /// Its arguments, name included.
    pub arguments: usize,
}

/// Why bytes are no command. The connection ends with it: nobody knows where the next command begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// A count of arguments that is none.
    #[error("invalid multibulk length")]
    Count,
    /// A length of an argument that is none.
    #[error("invalid bulk length")]
    Length,
    /// Something else than an argument.
    #[error("expected '$', got '{}'", char::from(*.0).escape_default())]
    NoArgument(u8),
    /// An argument that does not end where it says.
    #[error("an argument does not end with CRLF")]
    NoEnd,
    /// A line without an end.
    #[error("too big inline request")]
    Line,
    /// A quote without its other.
    #[error("unbalanced quotes in request")]
    Quotes,
    /// Too many arguments.
    #[error("a command has {0} arguments at most here")]
    Arguments(usize),
    /// Too large.
    #[error("a command has {0} bytes at most here")]
    Size(usize),
    /// How a TLS client begins.
    #[error("a TLS client on a port without TLS")]
    Tls,
    /// How an HTTP client speaks. Words of a request that somebody's browser was made to send are not carried out.
    #[error("an HTTP client on the RESP port")]
    Http,
}

/// A command: its name and what follows. Its arguments may be secrets, so that it shows no more than their number.
pub struct Command {
    bytes: Bytes,
    /// From where to where in `bytes`.
    arguments: Vec<(u32, u32)>,
}

impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Command")
            .field("arguments", &self.arguments.len())
            .finish_non_exhaustive()
    }
}

impl Command {
    /// Arguments, name included; one at least.
    #[allow(clippy::len_without_is_empty)] // there is always a name
    pub fn len(&self) -> usize {
        self.arguments.len()
    }

    /// One argument.
    pub fn get(&self, at: usize) -> Option<&[u8]> {
        let (from, to) = *self.arguments.get(at)?;
        self.bytes.get(from as usize..to as usize)
    }

    /// The name as sent.
    pub fn name(&self) -> &[u8] {
        self.get(0).unwrap_or_default()
    }

    /// The arguments from this one on.
    pub fn from(&self, at: usize) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        let arguments = self.arguments.get(at..).unwrap_or_default();
        let part = |(from, to): &(u32, u32)| self.bytes.get(*from as usize..*to as usize).unwrap_or_default();
        arguments.iter().map(part)
    }

    /// Bytes of memory it takes.
    pub fn weight(&self) -> usize {
        self.bytes.len() + self.arguments.len() * size_of::<(u32, u32)>()
    }
}

/// The commands of one connection, one after the other.
#[derive(Default)]
pub struct Decoder {
    stage: Stage,
}

#[derive(Default)]
enum Stage {
    #[default]
    Start,
    /// A line of words; so many bytes of it have no end in them.
    Words(usize),
    Array(Array),
}

struct Array {
    /// Bytes of the command that are parsed.
    parsed: usize,
    /// Arguments to come.
    left: usize,
    /// Length of the one that is coming.
    coming: Option<usize>,
    arguments: Vec<(u32, u32)>,
}

impl Decoder {
    /// Takes the next command off the front of `buffer`; `None`: it is not whole yet. After an error the decoder is of no use.
    ///
    /// # Errors
    /// What comes is no command within the limits.
    pub fn next(&mut self, buffer: &mut BytesMut, limits: CommandLimits) -> Result<Option<Command>, Malformed> {
        loop {
            match &mut self.stage {
                Stage::Start => {
                    if buffer.starts_with(&TLS) {
                        return Err(Malformed::Tls);
                    }
                    let first = match &buffer[..] {
                        // Perhaps a TLS client: the next byte tells.
                        [] | [0x16] => return Ok(None),
                        [first, ..] => first,
                    };
                    if *first != b'*' {
                        self.stage = Stage::Words(0);
                        continue;
                    }
                    let Some((count, parsed)) = number(buffer, 1).ok_or(Malformed::Count)? else {
                        return Ok(None);
                    };
                    if count <= 0 {
                        // An empty command, which nobody answers.
                        let _ = buffer.split_to(parsed);
                        continue;
                    }
                    let left = usize::try_from(count).map_err(|_| Malformed::Count)?;
                    if left > limits.arguments {
                        return Err(Malformed::Arguments(limits.arguments));
                    }
                    self.stage = Stage::Array(Array {
                        parsed,
                        left,
                        coming: None,
                        arguments: Vec::new(),
                    });
                }
                Stage::Words(seen) => {
                    let most = WORDS_LINE.min(limits.bytes);
                    let Some(end) = buffer[*seen..].iter().position(|byte| *byte == b'\n') else {
                        *seen = buffer.len();
                        return match buffer.len() > most {
                            true => Err(Malformed::Line),
                            false => Ok(None),
                        };
                    };
                    let end = *seen + end;
                    if end > most {
                        return Err(Malformed::Line);
                    }
                    self.stage = Stage::Start;
                    let line = buffer.split_to(end + 1);
                    if let Some(command) = words(line.trim_ascii(), limits)? {
                        return Ok(Some(command));
                    }
                }
                Stage::Array(array) => {
                    if !array.advance(buffer, limits)? {
                        return Ok(None);
                    }
                    let bytes = buffer.split_to(array.parsed).freeze();
                    let arguments = std::mem::take(&mut array.arguments);
                    self.stage = Stage::Start;
                    return Ok(Some(Command { bytes, arguments }));
                }
            }
        }
    }
}

impl Array {
    /// Parses what has come; whether the command is whole.
    fn advance(&mut self, buffer: &[u8], limits: CommandLimits) -> Result<bool, Malformed> {
        while self.left > 0 {
            let length = match self.coming {
                Some(length) => length,
                None => {
                    match buffer.get(self.parsed) {
                        None => return Ok(false),
                        Some(b'$') => {}
                        Some(other) => return Err(Malformed::NoArgument(*other)),
                    }
                    let Some((length, parsed)) = number(buffer, self.parsed + 1).ok_or(Malformed::Length)? else {
                        return Ok(false);
                    };
                    let length = usize::try_from(length).map_err(|_| Malformed::Length)?;
                    // Each argument that is still to come takes six bytes at least.
                    let least = parsed.saturating_add(length).saturating_add(2 + (self.left - 1) * 6);
                    if least > limits.bytes.min(u32::MAX as usize) {
                        return Err(Malformed::Size(limits.bytes));
                    }
                    self.parsed = parsed;
                    self.coming = Some(length);
                    length
                }
            };
            let end = self.parsed + length;
            match buffer.get(end..end + 2) {
                None => return Ok(false),
                Some(b"\r\n") => {}
                Some(_) => return Err(Malformed::NoEnd),
            }
            // Below the limit, which is below 4 GiB.
            self.arguments.push((self.parsed as u32, end as u32));
            self.parsed = end + 2;
            self.coming = None;
            self.left -= 1;
        }
        Ok(true)
    }
}

/// How a TLS client begins: a handshake record of version 3 (RFC 8446, section 5.1).
const TLS: [u8; 2] = [0x16, 0x03];

/// A number at `at`, and where what follows its line begins; `None` within: it has not come yet.
#[allow(clippy::option_option)]
fn number(buffer: &[u8], at: usize) -> Option<Option<(i64, usize)>> {
    let rest = buffer.get(at..)?;
    let line = &rest[..rest.len().min(NUMBER_LINE)];
    let Some(end) = line.iter().position(|byte| *byte == b'\n') else {
        return (rest.len() < NUMBER_LINE).then_some(None);
    };
    let digits = line[..end].strip_suffix(b"\r")?;
    Some(Some((integer(digits)?, at + end + 1)))
}

/// The words of a line; `None`: it has none.
fn words(line: &[u8], limits: CommandLimits) -> Result<Option<Command>, Malformed> {
    let mut bytes = BytesMut::with_capacity(line.len());
    let mut arguments = Vec::new();
    let mut rest = line.trim_ascii_start();
    while !rest.is_empty() {
        if arguments.len() == limits.arguments {
            return Err(Malformed::Arguments(limits.arguments));
        }
        let from = bytes.len() as u32;
        rest = word(rest, &mut bytes)?.trim_ascii_start();
        arguments.push((from, bytes.len() as u32));
    }
    if arguments.is_empty() {
        return Ok(None);
    }
    let command = Command {
        bytes: bytes.freeze(),
        arguments,
    };
    let last = command.get(command.len() - 1).unwrap_or_default();
    let name = command.name();
    if last.starts_with(b"HTTP/1.") || name.eq_ignore_ascii_case(b"host:") || name.eq_ignore_ascii_case(b"post") {
        return Err(Malformed::Http);
    }
    Ok(Some(command))
}

/// Takes one word off the front: bare, in double quotes with escapes, or in single quotes. Answers what follows.
fn word<'a>(line: &'a [u8], out: &mut BytesMut) -> Result<&'a [u8], Malformed> {
    let mut at = 0;
    let mut quote = None;
    while let Some(&byte) = line.get(at) {
        at += 1;
        match (quote, byte) {
            (None, b'"' | b'\'') => quote = Some(byte),
            (None, byte) if byte.is_ascii_whitespace() => return Ok(&line[at - 1..]),
            (Some(open), byte) if byte == open => {
                // A quote ends its word.
                return match line.get(at) {
                    Some(next) if !next.is_ascii_whitespace() => Err(Malformed::Quotes),
                    _ => Ok(&line[at..]),
                };
            }
            (Some(b'"'), b'\\') => {
                let (escaped, taken) = escape(&line[at..]).ok_or(Malformed::Quotes)?;
                out.extend_from_slice(&[escaped]);
                at += taken;
            }
            (Some(b'\''), b'\\') if line.get(at) == Some(&b'\'') => {
                out.extend_from_slice(b"'");
                at += 1;
            }
            (_, byte) => out.extend_from_slice(&[byte]),
        }
    }
    match quote {
        None => Ok(&[]),
        Some(_) => Err(Malformed::Quotes),
    }
}

/// What follows a backslash: the byte it means, and how many it takes.
fn escape(rest: &[u8]) -> Option<(u8, usize)> {
    if let [b'x', high, low, ..] = rest
        && let (Some(high), Some(low)) = (char::from(*high).to_digit(16), char::from(*low).to_digit(16))
    {
        return Some(((high * 16 + low) as u8, 3));
    }
    let escaped = match *rest.first()? {
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'b' => 8,
        b'a' => 7,
        other => other,
    };
    Some((escaped, 1))
}

#[cfg(test)]
#[path = "decode_test.rs"]
mod tests;
