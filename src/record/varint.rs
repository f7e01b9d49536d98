//! Zigzag varints as records use them: at most 5 bytes for 32 bits, 10 for 64, no bits beyond.

/// More bits than the number's type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Wide;

/// Reads one varint of at most 32 bits from `next`, which gives the following byte.
#[inline]
pub(super) fn read_i32<E: From<Wide>>(mut next: impl FnMut() -> Result<u8, E>) -> Result<i32, E> {
    let first = next()?;
    if first < 0x80 {
        return Ok(unzigzag32(u32::from(first)));
    }
    let mut value = u32::from(first & 0x7f);
    for shift in [7, 14, 21, 28] {
        let byte = next()?;
        if shift == 28 && byte > 0x0f {
            return Err(Wide.into());
        }
        value |= u32::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(unzigzag32(value));
        }
    }
    Err(Wide.into())
}

/// Reads one varint of at most 64 bits from `next`.
#[inline]
pub(super) fn read_i64<E: From<Wide>>(mut next: impl FnMut() -> Result<u8, E>) -> Result<i64, E> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let byte = next()?;
        if shift == 63 && byte > 0x01 {
            return Err(Wide.into());
        }
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok((value >> 1) as i64 ^ -((value & 1) as i64));
        }
    }
    Err(Wide.into())
}

/// Appends `value`; 32-bit and 64-bit numbers have the same form.
pub(super) fn put(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

fn unzigzag32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, PartialEq)]
    enum Fault {
        End,
        Wide,
    }

    impl From<Wide> for Fault {
        fn from(_: Wide) -> Self {
            Self::Wide
        }
    }

    fn from(mut bytes: &[u8]) -> impl FnMut() -> Result<u8, Fault> {
        move || {
            let (&first, rest) = bytes.split_first().ok_or(Fault::End)?;
            bytes = rest;
            Ok(first)
        }
    }

    proptest! {
        #[test]
        fn what_is_put_is_read(value: i64, small: i32) {
            let mut out = Vec::new();
            put(&mut out, value);
            prop_assert_eq!(read_i64(from(&out)), Ok(value));
            out.clear();
            put(&mut out, i64::from(small));
            prop_assert_eq!(read_i32(from(&out)), Ok(small));
            prop_assert_eq!(read_i32(from(&out[..out.len() - 1])), Err(Fault::End));
        }
    }

    #[test]
    fn limits_of_both_widths() {
        for value in [i64::MIN, i64::MAX, 0, -1] {
            let mut out = Vec::new();
            put(&mut out, value);
            assert_eq!(read_i64(from(&out)), Ok(value));
        }
        assert_eq!(read_i32(from(&[0xff, 0xff, 0xff, 0xff, 0x0f])), Ok(i32::MIN));
        assert_eq!(read_i32(from(&[0xff, 0xff, 0xff, 0xff, 0x1f])), Err(Fault::Wide));
        assert_eq!(read_i32(from(&[0x80, 0x80, 0x80, 0x80, 0x80, 0])), Err(Fault::Wide));
        let mut ten = [0xff; 10];
        ten[9] = 0x01;
        assert_eq!(read_i64(from(&ten)), Ok(i64::MIN));
        ten[9] = 0x02;
        assert_eq!(read_i64(from(&ten)), Err(Fault::Wide));
        assert_eq!(read_i64(from(&[0x80; 10])), Err(Fault::Wide));
    }
}
