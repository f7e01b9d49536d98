//! The topics named in a consumer's subscription (Kafka's embedded consumer protocol).
//!
//! ```text
//!   version i16 | topics: count i32, (length i16, utf-8).. | whatever later versions add
//! ```
//!
//! Every version starts like this one; the rest is for the members alone.

use std::collections::BTreeSet;

/// The protocol type whose metadata is a subscription.
pub const CONSUMER: &str = "consumer";

/// The topics subscribed to; `None` if `metadata` is no subscription.
pub fn topics(metadata: &[u8]) -> Option<BTreeSet<String>> {
    let (version, mut rest) = metadata.split_first_chunk::<2>()?;
    if i16::from_be_bytes(*version) < 0 {
        return None;
    }
    let count = i32::from_be_bytes(*take(&mut rest)?);
    let mut names = BTreeSet::new();
    // A lying count runs out of bytes: each name takes at least two.
    for _ in 0..count.max(0) {
        let length = usize::try_from(i16::from_be_bytes(*take(&mut rest)?)).ok()?;
        let (name, after) = rest.split_at_checked(length)?;
        names.insert(std::str::from_utf8(name).ok()?.to_owned());
        rest = after;
    }
    Some(names)
}

fn take<'a, const N: usize>(rest: &mut &'a [u8]) -> Option<&'a [u8; N]> {
    let (head, after) = rest.split_first_chunk::<N>()?;
    *rest = after;
    Some(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|n| n.to_string()).collect()
    }

    #[test]
    fn reads_the_common_start_of_every_version() {
        let v1 = b"\x00\x01\x00\x00\x00\x02\x00\x01a\x00\x03b.c\xff\xff\xff\xff\x00\x00\x00\x00";
        assert_eq!(topics(v1), Some(set(&["a", "b.c"])));
        assert_eq!(topics(b"\x00\x00\x00\x00\x00\x00"), Some(set(&[])));
    }

    #[test]
    fn refuses_what_is_no_subscription() {
        for bad in [
            &b""[..],
            b"\x00",
            b"\x00\x00\x00\x00",
            b"\xff\xff\x00\x00\x00\x00",
            b"\x00\x00\x7f\xff\xff\xff",
            b"\x00\x00\x00\x00\x00\x01\x00\x05ab",
            b"\x00\x00\x00\x00\x00\x01\xff\xffab",
            b"\x00\x00\x00\x00\x00\x01\x00\x01\xff",
        ] {
            assert_eq!(topics(bad), None, "{bad:?}");
        }
    }
}
