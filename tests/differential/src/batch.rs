//! Record batches (magic 2), good and broken on purpose, built byte by byte: the codec's own encoder can't lie.

use crate::answer::BYTES;
use bytes::Bytes;
use serde_json::{Value, json};
use std::io::Write;

/// Bytes before the records.
const HEADER: usize = 61;
/// Where the part under the checksum begins.
const AFTER_CRC: usize = 21;

/// Compression of a batch: the low three bits of its attributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// 0.
    None,
    /// 1.
    Gzip,
    /// 2, in the framing of snappy-java.
    SnappyFramed,
    /// 2, one raw block.
    SnappyRaw,
    /// 3, LZ4 frame format.
    Lz4,
    /// 4.
    Zstd,
}

impl Codec {
    /// Each way of compressing that consumers read.
    pub const ALL: [Codec; 6] = [
        Codec::None,
        Codec::Gzip,
        Codec::SnappyFramed,
        Codec::SnappyRaw,
        Codec::Lz4,
        Codec::Zstd,
    ];

    /// The codec's number in the attributes.
    pub fn bits(self) -> i16 {
        match self {
            Codec::None => 0,
            Codec::Gzip => 1,
            Codec::SnappyFramed | Codec::SnappyRaw => 2,
            Codec::Lz4 => 3,
            Codec::Zstd => 4,
        }
    }

    /// `plain`, compressed.
    pub fn compress(self, plain: &[u8]) -> anyhow::Result<Vec<u8>> {
        Ok(match self {
            Codec::None => plain.to_vec(),
            Codec::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
                encoder.write_all(plain)?;
                encoder.finish()?
            }
            Codec::SnappyRaw => snap::raw::Encoder::new().compress_vec(plain)?,
            Codec::SnappyFramed => {
                let block = snap::raw::Encoder::new().compress_vec(plain)?;
                let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
                framed.extend((block.len() as u32).to_be_bytes());
                framed.extend(block);
                framed
            }
            Codec::Lz4 => {
                let info = lz4_flex::frame::FrameInfo::new().block_mode(lz4_flex::frame::BlockMode::Independent);
                let mut encoder = lz4_flex::frame::FrameEncoder::with_frame_info(info, Vec::new());
                encoder.write_all(plain)?;
                encoder.finish()?
            }
            Codec::Zstd => zstd::bulk::compress(plain, 3)?,
        })
    }
}

/// One record of a batch.
#[derive(Clone, Debug)]
pub struct Record {
    /// Milliseconds after the batch's base timestamp.
    pub timestamp_delta: i64,
    /// Offset after the batch's base offset; `None`: its place in the batch.
    pub offset_delta: Option<i32>,
    /// Key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// Value; `None` is null.
    pub value: Option<Vec<u8>>,
    /// Headers in order; a name may come twice.
    pub headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
    /// Adds to the length the record claims: a lie.
    pub length_lie: i64,
    /// Claims this many headers instead of those it has.
    pub header_count_lie: Option<i64>,
}

impl Record {
    /// A record with key and value.
    pub fn new(key: &str, value: &str) -> Self {
        Record {
            timestamp_delta: 0,
            offset_delta: None,
            key: Some(key.into()),
            value: Some(value.into()),
            headers: Vec::new(),
            length_lie: 0,
            header_count_lie: None,
        }
    }

    fn encode(&self, at: usize, out: &mut Vec<u8>) {
        let mut body = vec![0];
        varint(self.timestamp_delta, &mut body);
        varint(self.offset_delta.map_or(at as i64, i64::from), &mut body);
        nullable(self.key.as_deref(), &mut body);
        nullable(self.value.as_deref(), &mut body);
        varint(self.header_count_lie.unwrap_or(self.headers.len() as i64), &mut body);
        for (name, value) in &self.headers {
            nullable(Some(name), &mut body);
            nullable(value.as_deref(), &mut body);
        }
        varint(body.len() as i64 + self.length_lie, out);
        out.extend(body);
    }
}

/// A batch to be encoded; every field of its header may be set to a lie.
#[derive(Clone, Debug)]
pub struct Batch {
    /// Base offset: 0 from an honest producer.
    pub base_offset: i64,
    /// Added to the length the header claims.
    pub length_lie: i32,
    /// Partition leader epoch: -1 from an honest producer.
    pub leader_epoch: i32,
    /// Format version.
    pub magic: i8,
    /// XORed into the checksum.
    pub crc_lie: u32,
    /// Attributes without the codec's bits: 8 log append time, 16 transactional, 32 control.
    pub attributes: i16,
    /// Replaces the codec's number in the attributes.
    pub codec_bits: Option<i16>,
    /// Last offset delta; `None`: records less one.
    pub last_offset_delta: Option<i32>,
    /// Milliseconds since 1970 of the first record.
    pub base_timestamp: i64,
    /// Greatest timestamp; `None`: as the records say.
    pub max_timestamp: Option<i64>,
    /// Producer id; -1: none.
    pub producer_id: i64,
    /// Producer epoch; -1: none.
    pub producer_epoch: i16,
    /// Sequence of the first record; -1: none.
    pub base_sequence: i32,
    /// Number of records claimed; `None`: the true one.
    pub count: Option<i32>,
    /// How the records are compressed.
    pub codec: Codec,
    /// The records.
    pub records: Vec<Record>,
    /// Appended to the encoded records, inside the compression.
    pub plain_tail: Vec<u8>,
    /// Takes the place of the encoded, compressed records.
    pub payload: Option<Vec<u8>>,
}

impl Batch {
    /// An honest batch: one record for each value, a millisecond apart.
    pub fn of(base_timestamp: i64, values: &[&str]) -> Self {
        let records = values
            .iter()
            .enumerate()
            .map(|(at, value)| Record {
                timestamp_delta: at as i64,
                ..Record::new(&format!("k{at}"), value)
            })
            .collect();
        Batch {
            base_offset: 0,
            length_lie: 0,
            leader_epoch: -1,
            magic: 2,
            crc_lie: 0,
            attributes: 0,
            codec_bits: None,
            last_offset_delta: None,
            base_timestamp,
            max_timestamp: None,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            count: None,
            codec: Codec::None,
            records,
            plain_tail: Vec::new(),
            payload: None,
        }
    }

    /// The batch after `change`.
    pub fn with(mut self, change: impl FnOnce(&mut Batch)) -> Self {
        change(&mut self);
        self
    }

    /// The batch compressed with `codec`.
    pub fn codec(self, codec: Codec) -> Self {
        self.with(|batch| batch.codec = codec)
    }

    /// The batch as an idempotent producer sends it.
    pub fn from_producer(self, id: i64, epoch: i16, sequence: i32) -> Self {
        self.with(|batch| {
            batch.producer_id = id;
            batch.producer_epoch = epoch;
            batch.base_sequence = sequence;
        })
    }

    /// The records as they are before compression.
    pub fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        for (at, record) in self.records.iter().enumerate() {
            record.encode(at, &mut plain);
        }
        plain.extend(&self.plain_tail);
        plain
    }

    /// The batch as bytes.
    pub fn encode(&self) -> anyhow::Result<Bytes> {
        let payload = match &self.payload {
            Some(payload) => payload.clone(),
            None => self.codec.compress(&self.plain())?,
        };
        let count = self.records.len() as i32;
        let latest = self
            .records
            .iter()
            .map(|record| record.timestamp_delta)
            .max()
            .unwrap_or(0);
        let mut after = Vec::with_capacity(HEADER - AFTER_CRC + payload.len());
        after.extend((self.attributes | self.codec_bits.unwrap_or_else(|| self.codec.bits())).to_be_bytes());
        after.extend(self.last_offset_delta.unwrap_or(count - 1).to_be_bytes());
        after.extend(self.base_timestamp.to_be_bytes());
        after.extend(
            self.max_timestamp
                .unwrap_or_else(|| self.base_timestamp.wrapping_add(latest))
                .to_be_bytes(),
        );
        after.extend(self.producer_id.to_be_bytes());
        after.extend(self.producer_epoch.to_be_bytes());
        after.extend(self.base_sequence.to_be_bytes());
        after.extend(self.count.unwrap_or(count).to_be_bytes());
        after.extend(payload);
        let mut bytes = Vec::with_capacity(AFTER_CRC + after.len());
        bytes.extend(self.base_offset.to_be_bytes());
        bytes.extend((after.len() as i32 + 9 + self.length_lie).to_be_bytes());
        bytes.extend(self.leader_epoch.to_be_bytes());
        bytes.extend(self.magic.to_be_bytes());
        bytes.extend((crc(&after) ^ self.crc_lie).to_be_bytes());
        bytes.extend(after);
        Ok(bytes.into())
    }
}

/// A zstd frame of `head` followed by `zeros` zero bytes, written as run-length blocks: four bytes for each 128 KiB.
pub fn zstd_bomb(head: &[u8], zeros: usize) -> Vec<u8> {
    const BLOCK: usize = 128 << 10;
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3];
    let block = |last: bool, kind: u32, size: usize| {
        ((size as u32) << 3 | kind << 1 | u32::from(last)).to_le_bytes()[..3].to_vec()
    };
    frame.extend(block(false, 0, head.len()));
    frame.extend(head);
    let mut left = zeros;
    while left > 0 {
        let size = left.min(BLOCK);
        left -= size;
        frame.extend(block(left == 0, 1, size));
        frame.push(0);
    }
    frame
}

/// `value` as a zigzag variable-length number.
pub fn varint(value: i64, out: &mut Vec<u8>) {
    let mut left = ((value << 1) ^ (value >> 63)) as u64;
    while left >= 0x80 {
        out.push(left as u8 | 0x80);
        left >>= 7;
    }
    out.push(left as u8);
}

fn nullable(bytes: Option<&[u8]>, out: &mut Vec<u8>) {
    match bytes {
        Some(bytes) => {
            varint(bytes.len() as i64, out);
            out.extend(bytes);
        }
        None => varint(-1, out),
    }
}

fn crc(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// What a fetch handed out, batch by batch: each header field, whether the checksum holds, and the size and checksum
/// of the records as stored. A last batch cut by the size limit is left out, as consumers do.
pub fn describe(mut bytes: &[u8]) -> Value {
    let mut batches = Vec::new();
    while bytes.len() >= HEADER {
        let length = i32::from_be_bytes(field(bytes, 8));
        let Some(batch) = usize::try_from(length).ok().and_then(|length| bytes.get(..length + 12)) else {
            break;
        };
        if batch.len() < HEADER {
            return json!(format!("{BYTES}{}", hex(bytes)));
        }
        let stored = u32::from_be_bytes(field(batch, 17));
        let records = &batch[HEADER..];
        batches.push(json!({
            "base_offset": i64::from_be_bytes(field(batch, 0)),
            "leader_epoch": i32::from_be_bytes(field(batch, 12)),
            "magic": batch[16],
            "crc": if stored == crc(&batch[AFTER_CRC..]) { "good" } else { "bad" },
            "attributes": i16::from_be_bytes(field(batch, 21)),
            "last_offset_delta": i32::from_be_bytes(field(batch, 23)),
            "base_timestamp": i64::from_be_bytes(field(batch, 27)),
            "max_timestamp": i64::from_be_bytes(field(batch, 35)),
            "producer_id": i64::from_be_bytes(field(batch, 43)),
            "producer_epoch": i16::from_be_bytes(field(batch, 51)),
            "base_sequence": i32::from_be_bytes(field(batch, 53)),
            "count": i32::from_be_bytes(field(batch, 57)),
            "records": format!("{} bytes, crc {:08x}", records.len(), crc(records)),
        }));
        bytes = &bytes[batch.len()..];
    }
    Value::Array(batches)
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|i| bytes[at + i])
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use kafka_protocol::records::RecordBatchDecoder;

    #[test]
    fn an_independent_decoder_reads_an_honest_batch() {
        let bytes = Batch::of(1_000, &["a", "b", "c"])
            .from_producer(7, 1, 5)
            .encode()
            .unwrap();
        let read = RecordBatchDecoder::decode(&mut bytes.clone()).unwrap();
        assert_eq!(read.records.len(), 3);
        assert_eq!(read.records[2].value.as_deref(), Some(&b"c"[..]));
        assert_eq!((read.records[2].timestamp, read.records[2].sequence), (1_002, 7));
        let described = describe(&bytes);
        assert_eq!(described[0]["crc"], "good");
        assert_eq!(described[0]["count"], 3);
    }

    #[test]
    fn a_bomb_unfolds_to_the_promised_size() {
        let frame = zstd_bomb(b"head", 1 << 20);
        assert!(frame.len() < 100);
        assert_eq!(zstd::stream::decode_all(&frame[..]).unwrap().len(), 4 + (1 << 20));
    }
}
