//! Batches as sent; the same with length and CRC made right, so that mutations get behind them; and the same records under each
//! codec, which must be judged as they are uncompressed.

use bytes::Bytes;
use kafka_protocol::records::RecordBatchDecoder;
use std::io::Write;
use tessaridb::record::{
    BatchHeader, Compression, HEADER_LEN, Limits, RecordReader, Refusal, TimestampType, batch_crc, find_by_timestamp,
    restamp_time, stamp, validate,
};

const CAP: u64 = 4 << 20;

fn limits() -> Limits {
    Limits {
        max_batch_bytes: usize::MAX,
        max_decompressed_bytes: CAP,
        walk: true,
    }
}

pub(crate) fn run(data: &[u8]) {
    let _ = judge(data);
    // What was never validated must be harmless to read, too: a flipped bit on disk.
    read(data, CAP);
    let Some(sealed) = seal(data, None) else { return };
    let plain = judge(&sealed);
    let header = BatchHeader::parse(&sealed).expect("sealed");
    if header.compression() == Some(Compression::None) {
        // The CRC field is written anew each time, so one of its bytes chooses the codec.
        let codec = (data[20] & 3) as i16 + 1;
        let packed = seal(data, Some(codec)).expect("sealed");
        let packed = judge(&packed);
        match (&plain, &packed) {
            (Ok(plain), Ok(packed)) => assert_eq!(plain, packed),
            (Err(_), Err(_)) => {}
            (plain, packed) => panic!("uncompressed {plain:?}, codec {codec} {packed:?}"),
        }
    }
}

/// Validates; what is accepted must read whole. Gives the largest timestamp.
fn judge(sent: &[u8]) -> Result<i64, Refusal> {
    let validated = validate(sent, &limits())?;
    let batch = Bytes::copy_from_slice(&sent[..validated.len]);
    let header = validated.header;
    assert_eq!(read(&batch, CAP), Some(header.record_count));
    let found = find_by_timestamp(&batch, header.max_timestamp, CAP).expect("readable");
    if validated.max_timestamp == header.max_timestamp {
        assert!(found.is_some_and(|(_, timestamp)| timestamp == header.max_timestamp));
    }
    let stamped = stamp(&batch, 1 << 50, 7).expect("a header");
    assert_eq!(stamped.rest, batch[16..]);
    let restamped = restamp_time(&batch, TimestampType::CreateTime, validated.max_timestamp).expect("a header");
    let again = validate(&restamped.to_bytes(), &limits()).expect("accepted again");
    if header.timestamp_type() == TimestampType::CreateTime {
        assert_eq!(
            (again.max_timestamp, again.header.max_timestamp),
            (validated.max_timestamp, validated.max_timestamp)
        );
    }
    // Another client's decoder; it adds sequence and place without a check.
    if header.base_sequence.checked_add(header.record_count).is_some() {
        let decoded = RecordBatchDecoder::decode(&mut batch.clone()).expect("readable elsewhere");
        assert_eq!(decoded.records.len(), header.record_count as usize);
    }
    Ok(validated.max_timestamp)
}

/// Records that could be read, if all could.
fn read(batch: &[u8], cap: u64) -> Option<i32> {
    let mut reader = RecordReader::new(batch, cap).ok()?;
    let mut count = 0;
    while let Some(record) = reader.next().ok()? {
        assert!(record.headers.len() == record.headers.count());
        count += 1;
    }
    Some(count)
}

/// `data` as a batch with magic, base offset, length and CRC right, its records compressed anew if a codec is given.
fn seal(data: &[u8], codec: Option<i16>) -> Option<Vec<u8>> {
    let (head, records) = data.split_at_checked(HEADER_LEN)?;
    let mut out = head.to_vec();
    out[..8].fill(0);
    out[16] = 2;
    match codec {
        None => out.extend_from_slice(records),
        Some(codec) => {
            out[22] = out[22] & !7 | codec as u8;
            out.extend_from_slice(&pack(codec, records));
        }
    }
    let length = (out.len() - 12) as i32;
    out[8..12].copy_from_slice(&length.to_be_bytes());
    let crc = batch_crc(&out);
    out[17..21].copy_from_slice(&crc.to_be_bytes());
    Some(out)
}

fn pack(codec: i16, records: &[u8]) -> Vec<u8> {
    match codec {
        1 => {
            let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            out.write_all(records).expect("memory");
            out.finish().expect("memory")
        }
        2 => snap::raw::Encoder::new().compress_vec(records).expect("small enough"),
        3 => {
            let mut out = lz4_flex::frame::FrameEncoder::new(Vec::new());
            out.write_all(records).expect("memory");
            out.finish().expect("memory")
        }
        _ => zstd::encode_all(records, 1).expect("memory"),
    }
}
