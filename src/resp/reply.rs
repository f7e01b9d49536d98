//! Replies, and how each version of the protocol writes them.

use super::errors::Refusal;
use bytes::Bytes;

/// Version of the protocol that a connection speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// RESP2: every connection begins with it.
    Two,
    /// RESP3: after `HELLO 3`. It has maps, and one null.
    Three,
}

/// The answer to one command.
#[derive(Debug)]
pub(crate) enum Reply {
    /// `+OK` and such.
    Simple(&'static str),
    /// A whole number.
    Int(i64),
    /// Bytes.
    Bulk(Bytes),
    /// No value.
    Null,
    /// No list.
    NullArray,
    /// A list.
    Array(Vec<Reply>),
    /// Names and values, in order; a flat list in RESP2.
    Map(Vec<(Reply, Reply)>),
    /// Anything that both versions write the same, written.
    Written(Vec<u8>),
    /// It was not done.
    Refused(Refusal),
}

impl Reply {
    /// Text.
    pub(crate) fn text(text: impl Into<String>) -> Self {
        Self::Bulk(text.into().into())
    }

    /// Writes it down.
    pub(crate) fn write(&self, protocol: Protocol, out: &mut Vec<u8>) {
        match (self, protocol) {
            (Self::Simple(text), _) => line(out, b'+', text),
            (Self::Int(number), _) => line(out, b':', &number.to_string()),
            (Self::Bulk(bytes), _) => bulk(out, bytes),
            (Self::Null, Protocol::Two) => out.extend_from_slice(b"$-1\r\n"),
            (Self::NullArray, Protocol::Two) => out.extend_from_slice(b"*-1\r\n"),
            (Self::Null | Self::NullArray, Protocol::Three) => out.extend_from_slice(b"_\r\n"),
            (Self::Array(items), _) => {
                array(out, items.len());
                items.iter().for_each(|item| item.write(protocol, out));
            }
            (Self::Map(fields), _) => {
                match protocol {
                    Protocol::Two => array(out, 2 * fields.len()),
                    Protocol::Three => line(out, b'%', &fields.len().to_string()),
                }
                for (name, value) in fields {
                    name.write(protocol, out);
                    value.write(protocol, out);
                }
            }
            (Self::Written(bytes), _) => out.extend_from_slice(bytes),
            (Self::Refused(refusal), _) => line(out, b'-', &refusal.to_string()),
        }
    }
}

impl From<Refusal> for Reply {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// The head of a list.
pub(crate) fn array(out: &mut Vec<u8>, len: usize) {
    line(out, b'*', &len.to_string());
}

/// Bytes.
pub(crate) fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    line(out, b'$', &bytes.len().to_string());
    out.extend_from_slice(bytes);
    out.extend_from_slice(b"\r\n");
}

/// One line; what would end it early becomes a space.
fn line(out: &mut Vec<u8>, kind: u8, text: &str) {
    out.push(kind);
    let clean = text.bytes().map(|byte| match byte {
        b'\r' | b'\n' => b' ',
        byte => byte,
    });
    out.extend(clean);
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(reply: &Reply, protocol: Protocol) -> String {
        let mut out = Vec::new();
        reply.write(protocol, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn each_version_has_its_way() {
        for (reply, two, three) in [
            (Reply::Simple("OK"), "+OK\r\n", "+OK\r\n"),
            (Reply::Int(-7), ":-7\r\n", ":-7\r\n"),
            (Reply::text("a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
            (Reply::Null, "$-1\r\n", "_\r\n"),
            (Reply::NullArray, "*-1\r\n", "_\r\n"),
            (
                Reply::Map(vec![(Reply::text("a"), Reply::Array(vec![Reply::Int(1), Reply::Null]))]),
                "*2\r\n$1\r\na\r\n*2\r\n:1\r\n$-1\r\n",
                "%1\r\n$1\r\na\r\n*2\r\n:1\r\n_\r\n",
            ),
            (Reply::Written(b"*0\r\n".to_vec()), "*0\r\n", "*0\r\n"),
        ] {
            assert_eq!(written(&reply, Protocol::Two), two);
            assert_eq!(written(&reply, Protocol::Three), three);
        }
    }

    #[test]
    fn an_error_is_one_line_whatever_a_client_put_into_it() {
        let refusal = Refusal::wrong("unknown command 'a\r\n+OK\r\n'");
        assert_eq!(
            written(&refusal.into(), Protocol::Two),
            "-ERR unknown command 'a  +OK  '\r\n"
        );
    }
}
