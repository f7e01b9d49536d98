//! The commands, one row each: what COMMAND tells of them, and who answers.

/// Who answers a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Does {
    Auth,
    Client,
    Command,
    Echo,
    Exists,
    Hello,
    Info,
    Ping,
    Quit,
    Reset,
    Select,
    Type,
    Xadd,
    Xinfo,
    Xlen,
    Xrange,
    Xread,
    Xrevrange,
    Xtrim,
    /// Known, and not done: why.
    Refused(&'static str),
}

impl Does {
    /// Whether it is answered to those who have not signed in.
    pub(crate) fn is_for_strangers(self) -> bool {
        matches!(self, Self::Auth | Self::Hello | Self::Quit | Self::Reset)
    }
}

/// One command.
#[derive(Debug)]
pub(crate) struct Row {
    /// In lower case.
    pub name: &'static str,
    /// Fewest arguments, name included.
    pub least: usize,
    /// Most of them.
    pub most: usize,
    pub flags: &'static [&'static str],
    /// First and last key, and the step between them, as COMMAND counts; zeros: none, or found another way.
    pub keys: (i64, i64, i64),
    pub does: Does,
}

const GROUPS: &str =
    "groups of readers are Kafka's consumer groups, or READ .. FOR CONSUMER in TessariQL; XREAD reads without one";
const APPEND_ONLY: &str = "a topic is append-only: XTRIM, or the topic's RETAIN, lets its oldest entries go";
const ONE_BY_ONE: &str =
    "there are no transactions; commands sent without waiting for answers are done in order all the same";

const MANY: usize = usize::MAX;
const READ: &[&str] = &["readonly"];
const FAST: &[&str] = &["readonly", "fast"];
const WRITE: &[&str] = &["write"];
const NONE: &[&str] = &[];
const STRANGER: &[&str] = &["fast", "no_auth"];
const KEY: (i64, i64, i64) = (1, 1, 1);
const NO_KEY: (i64, i64, i64) = (0, 0, 0);

const fn row(
    name: &'static str,
    (least, most): (usize, usize),
    flags: &'static [&'static str],
    keys: (i64, i64, i64),
    does: Does,
) -> Row {
    Row {
        name,
        least,
        most,
        flags,
        keys,
        does,
    }
}

const fn refused(name: &'static str, why: &'static str) -> Row {
    row(name, (1, MANY), NONE, NO_KEY, Does::Refused(why))
}

/// All commands, by name.
pub(crate) const TABLE: &[Row] = &[
    row("auth", (2, 3), STRANGER, NO_KEY, Does::Auth),
    row("client", (2, MANY), NONE, NO_KEY, Does::Client),
    row("command", (1, MANY), NONE, NO_KEY, Does::Command),
    refused("del", APPEND_ONLY),
    refused("discard", ONE_BY_ONE),
    row("echo", (2, 2), FAST, NO_KEY, Does::Echo),
    refused("exec", ONE_BY_ONE),
    row("exists", (2, MANY), FAST, (1, -1, 1), Does::Exists),
    row("hello", (1, MANY), STRANGER, NO_KEY, Does::Hello),
    row("info", (1, MANY), NONE, NO_KEY, Does::Info),
    refused("multi", ONE_BY_ONE),
    row("ping", (1, 2), FAST, NO_KEY, Does::Ping),
    row("quit", (1, MANY), STRANGER, NO_KEY, Does::Quit),
    row("reset", (1, 1), STRANGER, NO_KEY, Does::Reset),
    row("select", (2, 2), FAST, NO_KEY, Does::Select),
    row("type", (2, 2), FAST, KEY, Does::Type),
    refused("unlink", APPEND_ONLY),
    refused("watch", ONE_BY_ONE),
    refused("xack", GROUPS),
    refused("xackdel", GROUPS),
    row("xadd", (5, MANY), WRITE, KEY, Does::Xadd),
    refused("xautoclaim", GROUPS),
    refused("xclaim", GROUPS),
    refused("xdel", APPEND_ONLY),
    refused("xdelex", APPEND_ONLY),
    refused("xgroup", GROUPS),
    row("xinfo", (2, MANY), READ, (2, 2, 1), Does::Xinfo),
    row("xlen", (2, 2), FAST, KEY, Does::Xlen),
    refused("xpending", GROUPS),
    row("xrange", (4, 6), READ, KEY, Does::Xrange),
    row(
        "xread",
        (4, MANY),
        &["readonly", "blocking", "movablekeys"],
        NO_KEY,
        Does::Xread,
    ),
    refused("xreadgroup", GROUPS),
    row("xrevrange", (4, 6), READ, KEY, Does::Xrevrange),
    refused("xsetid", APPEND_ONLY),
    row("xtrim", (4, MANY), WRITE, KEY, Does::Xtrim),
];

/// Longest name in the table.
const LONGEST: usize = 16;

/// The row of a command, and its number; its name may be sent in any case.
pub(crate) fn find(name: &[u8]) -> Option<(usize, &'static Row)> {
    if name.len() > LONGEST {
        return None;
    }
    let name = name.to_ascii_lowercase();
    let at = TABLE.binary_search_by(|row| row.name.as_bytes().cmp(&name)).ok()?;
    Some((at, &TABLE[at]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_order_and_found_in_any_case() {
        assert!(TABLE.is_sorted_by_key(|row| row.name));
        for (at, row) in TABLE.iter().enumerate() {
            assert!(row.name.len() <= LONGEST && row.least >= 1 && row.least <= row.most);
            let found = find(row.name.to_ascii_uppercase().as_bytes());
            assert_eq!(found.map(|(number, row)| (number, row.name)), Some((at, row.name)));
        }
        assert!(find(b"get").is_none() && find(&[b'x'; 1000]).is_none());
    }
}
