//! Keys: a topic's name, and which of its partitions.
//!
//! ```text
//!   shop.orders.payments          the topic; a stream where it has one partition
//!   shop.orders.payments/2        partition 2 of it, a stream always
//! ```

use super::errors::Refusal;
use cluster::catalog::Topic;

/// Bytes of a key that a refusal repeats.
const SHOWN: usize = 200;

/// A key taken apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key<'a> {
    /// The topic's name, as clients write it.
    pub name: &'a str,
    /// The partition it names.
    pub partition: Option<u32>,
}

impl<'a> Key<'a> {
    /// Takes a key apart.
    pub(crate) fn parse(key: &'a [u8]) -> Result<Self, Refusal> {
        let text = std::str::from_utf8(key).map_err(|_| Refusal::wrong("a key is the name of a topic, in UTF-8"))?;
        let Some((name, number)) = text.split_once('/') else {
            return Ok(Self {
                name: text,
                partition: None,
            });
        };
        let wrong = || Refusal::wrong("a key is the name of a topic, or that, a slash and the number of a partition");
        // One way to write each number, so that no two keys are one stream.
        let plain = number.bytes().all(|byte| byte.is_ascii_digit()) && (number == "0" || !number.starts_with('0'));
        let partition = number.parse().ok().filter(|_| plain).ok_or_else(wrong)?;
        Ok(Self {
            name,
            partition: Some(partition),
        })
    }

    /// The partition named, if the topic has it; `None`: none is named.
    pub(crate) fn partition_of(&self, topic: &Topic) -> Result<Option<u32>, Refusal> {
        let count = topic.partitions.len();
        match self.partition {
            Some(index) if index as usize >= count => Err(Refusal::wrong(format!(
                "{} has no partition {index}: it has {count}, numbered from 0",
                self.name
            ))),
            named => Ok(named),
        }
    }

    /// The one partition that is meant.
    pub(crate) fn stream_of(&self, topic: &Topic) -> Result<u32, Refusal> {
        match (self.partition_of(topic)?, topic.partitions.len()) {
            (Some(index), _) => Ok(index),
            (None, ..=1) => Ok(0),
            (None, count) => Err(Refusal::wrong(format!(
                "{0} has {count} partitions, each a stream of its own: {0}/0 to {0}/{1}",
                self.name,
                count - 1
            ))),
        }
    }
}

/// A key as a refusal or the audit repeats it.
pub(crate) fn shown(key: &[u8]) -> String {
    String::from_utf8_lossy(&key[..key.len().min(SHOWN)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_or_a_name_and_a_number() {
        let key = |name, partition| Ok(Key { name, partition });
        assert_eq!(Key::parse(b"a.b.c"), key("a.b.c", None));
        assert_eq!(Key::parse(b"c/0"), key("c", Some(0)));
        assert_eq!(Key::parse(b"c/12"), key("c", Some(12)));
        assert_eq!(Key::parse(b""), key("", None));
        for wrong in ["c/", "c/01", "c/00", "c/+1", "c/1/2", "c/x", "c/4294967296"] {
            assert!(Key::parse(wrong.as_bytes()).is_err(), "{wrong}");
        }
        assert!(Key::parse(b"\xff").is_err());
    }
}
