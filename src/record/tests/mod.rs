mod accept;
mod codecs;
mod golden;
mod oracle;
mod refuse;
mod stored;

use super::*;
use bytes::Bytes;

pub(super) const CODECS: [Compression; 5] = [
    Compression::None,
    Compression::Gzip,
    Compression::Snappy,
    Compression::Lz4,
    Compression::Zstd,
];

/// Three records: key and value, null value with two headers of one key, null key with a null header value.
pub(super) fn three(builder: BatchBuilder) -> Bytes {
    let mut builder = builder;
    let doubled: [(&str, Option<&[u8]>); 2] = [("h\u{e9}", Some(b"1")), ("h\u{e9}", Some(b"2"))];
    for record in [
        NewRecord {
            timestamp: 1000,
            key: Some(b"c-17"),
            value: Some(b"120.00"),
            headers: &[],
        },
        NewRecord {
            timestamp: 3000,
            key: Some(b"c-42"),
            value: None,
            headers: &doubled,
        },
        NewRecord {
            timestamp: 2000,
            key: None,
            value: Some(b""),
            headers: &[("n", None)],
        },
    ] {
        builder.push(record).unwrap();
    }
    builder.build().unwrap()
}

/// `batch` with its records replaced, length and CRC right again.
pub(super) fn with_records(batch: &[u8], records: &[u8]) -> Vec<u8> {
    let mut out = batch[..HEADER_LEN].to_vec();
    out.extend_from_slice(records);
    seal(&mut out);
    out
}

/// Makes length and CRC right.
pub(super) fn seal(batch: &mut [u8]) {
    let length = (batch.len() - 12) as i32;
    batch[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = batch_crc(batch);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
}

pub(super) fn refusal(batch: &[u8]) -> Refusal {
    validate(batch, &Limits::default()).expect_err("refused")
}
