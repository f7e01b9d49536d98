//! Whole numbers, as Redis reads them: one way to write each, and none beyond 64 bits.

/// Reads a number; `None`: it is none, or is written otherwise (`+5`, `007`, `-0`, with spaces).
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let plain = match digits {
        b"0" => text.len() == 1,
        [b'1'..=b'9', rest @ ..] => rest.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    std::str::from_utf8(text).ok().filter(|_| plain)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_written_one_way() {
        for number in [0, 1, -1, 10, i64::MAX, i64::MIN] {
            assert_eq!(integer(number.to_string().as_bytes()), Some(number));
        }
        for wrong in [
            "",
            "-",
            "+5",
            "05",
            "0009",
            "00",
            "-0",
            "-01",
            " 5",
            "5 ",
            "5.0",
            "0x5",
            "5-",
            "9223372036854775808",
            "-9223372036854775809",
            "99999999999999999999",
            "٣",
        ] {
            assert_eq!(integer(wrong.as_bytes()), None, "{wrong:?}");
        }
        assert_eq!(integer(b"\xff"), None);
    }
}
