//! Entry ids: `<position>-<partition>`.
//!
//! A position counts a partition's messages from 1 (it is Kafka's offset plus one), so ids grow within a stream, as Redis
//! wants, and an id answered by an XADD that named no partition tells where the entry went.

use super::errors::Refusal;
use crate::log::Offset;

/// An id as clients write it: any two numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Id {
    first: u64,
    second: u64,
}

impl Id {
    /// Reads `N` or `N-M`; `missing` stands for M where it is left out.
    pub(crate) fn parse(text: &[u8], missing: u64) -> Result<Self, Refusal> {
        let wrong = || Refusal::wrong("Invalid stream ID specified as stream command argument");
        let text = std::str::from_utf8(text).map_err(|_| wrong())?;
        let number = |text: &str| match text.bytes().all(|byte| byte.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(|_| wrong()),
            false => Err(wrong()),
        };
        Ok(match text.split_once('-') {
            Some((first, second)) => Self {
                first: number(first)?,
                second: number(second)?,
            },
            None => Self {
                first: number(text)?,
                second: missing,
            },
        })
    }

    /// The first offset of a partition whose id is this one or larger.
    pub(crate) fn at_or_after(self, partition: u32) -> Offset {
        offset(match u64::from(partition) >= self.second {
            // Positions begin with 1.
            true => self.first.max(1) - 1,
            false => self.first,
        })
    }

    /// The first offset whose id is larger.
    pub(crate) fn after(self, partition: u32) -> Offset {
        offset(match u64::from(partition) > self.second {
            true => self.first.max(1) - 1,
            false => self.first,
        })
    }
}

fn offset(number: u64) -> Offset {
    Offset::try_from(number).unwrap_or(Offset::MAX)
}

/// The id of an entry.
pub(crate) fn of(offset: Offset, partition: u32) -> String {
    format!("{}-{partition}", offset.saturating_add(1))
}

/// The bounds of XRANGE as offsets, the last one excluded.
pub(crate) fn range(start: &[u8], end: &[u8], partition: u32) -> Result<(Offset, Offset), Refusal> {
    let from = match start {
        b"-" => 0,
        b"+" => Offset::MAX,
        [b'(', rest @ ..] => Id::parse(rest, 0)?.after(partition),
        whole => Id::parse(whole, 0)?.at_or_after(partition),
    };
    // Where what is larger begins, this ends.
    let to = match end {
        b"+" => Offset::MAX,
        b"-" => 0,
        [b'(', rest @ ..] => Id::parse(rest, u64::MAX)?.at_or_after(partition),
        whole => Id::parse(whole, u64::MAX)?.after(partition),
    };
    Ok((from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bounds(start: &str, end: &str, partition: u32) -> (Offset, Offset) {
        range(start.as_bytes(), end.as_bytes(), partition).unwrap()
    }

    /// The offsets of a partition of twenty that a range holds, by comparing ids.
    fn judged(start: (u64, u64, bool), end: (u64, u64, bool), partition: u32) -> Vec<Offset> {
        let within = |offset: &Offset| {
            let id = (*offset as u64 + 1, u64::from(partition));
            let (low, high) = ((start.0, start.1), (end.0, end.1));
            (if start.2 { id > low } else { id >= low }) && (if end.2 { id < high } else { id <= high })
        };
        (0..20).filter(within).collect()
    }

    #[test]
    fn bounds_are_those_of_comparing_ids() {
        for partition in [0, 1, 3] {
            for a in 0..6 {
                for b in 0..5 {
                    for (c, d) in [(0, 0), (3, 0), (4, 3), (5, 4)] {
                        for open in [(false, false), (true, false), (false, true), (true, true)] {
                            let mark = |open: bool| if open { "(" } else { "" };
                            let (start, end) = (format!("{}{a}-{b}", mark(open.0)), format!("{}{c}-{d}", mark(open.1)));
                            let (from, to) = bounds(&start, &end, partition);
                            let found: Vec<Offset> = (from..to.min(20)).collect();
                            let expected = judged((a, b, open.0), (c, d, open.1), partition);
                            assert_eq!(found, expected, "{start} {end} of {partition}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn halves_of_ids_mean_what_they_mean_in_redis() {
        assert_eq!(bounds("-", "+", 0), (0, Offset::MAX));
        assert_eq!(bounds("5", "5", 0), (4, 5));
        assert_eq!(bounds("5", "5", 7), (4, 5));
        assert_eq!(
            bounds("18446744073709551615", "18446744073709551615-3", 0).0,
            Offset::MAX
        );
        for wrong in [
            "",
            "x",
            "1-",
            "-1",
            "1-2-3",
            "+1",
            "18446744073709551616",
            "1 ",
            "*",
            "$",
        ] {
            assert!(Id::parse(wrong.as_bytes(), 0).is_err(), "{wrong:?}");
        }
        assert!(Id::parse(b"\xff", 0).is_err());
        assert_eq!(of(0, 0), "1-0");
        assert_eq!(of(41, 2), "42-2");
    }
}
