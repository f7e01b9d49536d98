//! Commands as sent: cut anywhere they read the same, and what was read reads the same when it is written again.

use bytes::BytesMut;
use tessaridb::resp::{CommandLimits, Decoder, Malformed};

const LIMITS: CommandLimits = CommandLimits {
    bytes: 64 << 10,
    arguments: 1000,
};

type Commands = Vec<Vec<Vec<u8>>>;

pub(crate) fn run(data: &[u8]) {
    let whole = read([data]);
    let cut = data.first().map_or(0, |byte| usize::from(*byte) % (data.len() + 1));
    let (before, after) = data.split_at(cut);
    assert_eq!(read([before, after]), whole, "cut at {cut}");
    assert_eq!(read(data.chunks(1)), whole, "byte by byte");
    let (commands, _) = whole;
    let again = write(&commands);
    if again.len() <= LIMITS.bytes {
        assert_eq!(read([&again[..]]), (commands, None), "as written");
    }
}

/// The commands, and what ended them.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> (Commands, Option<Malformed>) {
    let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::new());
    let mut commands = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        loop {
            match decoder.next(&mut buffer, LIMITS) {
                Ok(Some(command)) => commands.push(command.from(0).map(<[u8]>::to_vec).collect()),
                Ok(None) => break,
                Err(malformed) => return (commands, Some(malformed)),
            }
        }
    }
    (commands, None)
}

fn write(commands: &Commands) -> Vec<u8> {
    let mut out = Vec::new();
    for command in commands {
        out.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
        for argument in command {
            out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
            out.extend_from_slice(argument);
            out.extend_from_slice(b"\r\n");
        }
    }
    out
}
