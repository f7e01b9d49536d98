//! Payloads a codec, or some client's reader of it, cannot take; and bombs.

use super::*;
use std::io::Write;
use twox_hash::XxHash32;

fn packed(codec: Compression) -> Bytes {
    three(BatchBuilder::new().compression(codec))
}

#[track_caller]
fn payload_refused(codec: Compression, payload: &[u8]) -> Refusal {
    let refusal = refusal(&with_records(&packed(codec), payload));
    assert_eq!(refusal.error_code(), 87, "{refusal}");
    refusal
}

fn plain_records() -> Vec<u8> {
    three(BatchBuilder::new())[HEADER_LEN..].to_vec()
}

#[test]
fn cut_short_or_followed_by_something() {
    for codec in &CODECS[1..] {
        for form in [SnappyForm::Raw, SnappyForm::Xerial] {
            let batch = three(BatchBuilder::new().compression(*codec).snappy_form(form));
            let payload = &batch[HEADER_LEN..];
            for len in 0..payload.len() {
                payload_refused(*codec, &payload[..len]);
            }
            for stray in [&b"\0"[..], b"\0\0\0\0", b"stray bytes"] {
                payload_refused(*codec, &[payload, stray].concat());
            }
        }
    }
}

#[test]
fn another_codecs_payload() {
    for named in &CODECS[1..] {
        for sent in CODECS.iter().filter(|codec| *codec != named) {
            payload_refused(*named, &packed(*sent)[HEADER_LEN..]);
        }
    }
}

#[test]
fn a_second_member_or_frame() {
    for codec in [Compression::Gzip, Compression::Lz4] {
        let whole = packed(codec);
        payload_refused(codec, &[&whole[HEADER_LEN..], &whole[HEADER_LEN..]].concat());
    }
    let records = plain_records();
    let (a, b) = records.split_at(records.len() / 2);
    let gzip = |bytes: &[u8]| {
        let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        out.write_all(bytes).unwrap();
        out.finish().unwrap()
    };
    payload_refused(Compression::Gzip, &[gzip(a), gzip(b)].concat());
    // zstd's readers take any number of frames.
    let zstd = |bytes: &[u8]| zstd::encode_all(bytes, 1).unwrap();
    let batch = with_records(&packed(Compression::Zstd), &[zstd(a), zstd(b)].concat());
    validate(&batch, &Limits::default()).unwrap();
}

fn lz4_frame(
    configure: impl FnOnce(lz4_flex::frame::FrameInfo) -> lz4_flex::frame::FrameInfo,
    bytes: &[u8],
) -> Vec<u8> {
    let info = lz4_flex::frame::FrameInfo::new().block_mode(lz4_flex::frame::BlockMode::Independent);
    let mut out = lz4_flex::frame::FrameEncoder::with_frame_info(configure(info), Vec::new());
    out.write_all(bytes).unwrap();
    out.finish().unwrap()
}

#[test]
fn lz4_frames_clients_write() {
    let records = plain_records();
    let batch = packed(Compression::Lz4);
    use lz4_flex::frame::BlockSize;
    for size in [
        BlockSize::Max64KB,
        BlockSize::Max256KB,
        BlockSize::Max1MB,
        BlockSize::Max4MB,
    ] {
        for checksums in [false, true] {
            let frame = lz4_frame(
                |info| {
                    info.block_size(size)
                        .block_checksums(checksums)
                        .content_checksum(checksums)
                        .content_size(checksums.then_some(records.len() as u64))
                },
                &records,
            );
            validate(&with_records(&batch, &frame), &Limits::default()).unwrap();
        }
    }
}

#[test]
fn lz4_frames_some_client_cannot_read() {
    let records = plain_records();
    let linked = lz4_frame(|info| info.block_mode(lz4_flex::frame::BlockMode::Linked), &records);
    payload_refused(Compression::Lz4, &linked);
    payload_refused(Compression::Lz4, b"");
    let frame = lz4_frame(
        |info| info.content_checksum(true).content_size(Some(records.len() as u64)),
        &records,
    );
    // Each bit of header, content checksum and end mark matters.
    let tail = frame.len() - 8;
    for at in (0..15).chain(tail..frame.len()) {
        let mut broken = frame.clone();
        broken[at] ^= 0x10;
        payload_refused(Compression::Lz4, &broken);
    }
    // A content size that lies under a right header checksum.
    let mut lying = frame.clone();
    lying[6] ^= 1;
    lying[14] = (XxHash32::oneshot(0, &lying[4..14]) >> 8) as u8;
    payload_refused(Compression::Lz4, &lying);
    // A block larger than the frame's block size, and one of no bytes.
    for block in [&(0x8000_0000u32 | 65_537).to_le_bytes(), &0x8000_0000u32.to_le_bytes()] {
        let mut frame = lz4_frame(|info| info, b"")[..7].to_vec();
        frame.extend_from_slice(block);
        frame.resize(7 + 4 + 65_537 + 4, 0);
        payload_refused(Compression::Lz4, &frame);
    }
}

#[test]
fn xerial_versions_and_chunks() {
    let batch = three(
        BatchBuilder::new()
            .compression(Compression::Snappy)
            .snappy_form(SnappyForm::Xerial),
    );
    let payload = &batch[HEADER_LEN..];
    for at in 8..16 {
        let mut other = payload.to_vec();
        other[at] ^= 0x02;
        payload_refused(Compression::Snappy, &other);
    }
    payload_refused(Compression::Snappy, &payload[..16]);
    payload_refused(Compression::Snappy, &[&payload[..16], &[0; 4], &payload[16..]].concat());
    payload_refused(
        Compression::Snappy,
        &[&payload[..16], &[0, 0, 0, 1, 0], &payload[16..]].concat(),
    );
    payload_refused(
        Compression::Snappy,
        &[&payload[..16], &[0xff; 4], &payload[16..]].concat(),
    );
}

#[test]
fn snappy_claims_are_not_believed() {
    // 2^32 - 1 bytes, in a payload of a few.
    let refusal = payload_refused(Compression::Snappy, &[0xff, 0xff, 0xff, 0xff, 0x0f, 0, b'x']);
    assert!(matches!(
        refusal,
        Refusal::Record {
            fault: RecordFault::Expansion(_),
            ..
        }
    ));
    // 100 MiB: within the cap, but more than so few bytes can give.
    payload_refused(Compression::Snappy, &[0x80, 0x80, 0x80, 0x32, 0, b'x']);
}

/// One valid record whose value is `len` zeros, compressed.
fn bomb(codec: Compression, form: SnappyForm, len: usize) -> Bytes {
    let value = vec![0; len];
    let mut builder = BatchBuilder::new().compression(codec).snappy_form(form);
    builder
        .push(NewRecord {
            value: Some(&value),
            ..NewRecord::default()
        })
        .unwrap();
    builder.build().unwrap()
}

#[test]
fn the_cap_is_exact_in_every_codec() {
    let len = 3 << 20;
    for codec in &CODECS[1..] {
        for form in [SnappyForm::Raw, SnappyForm::Xerial] {
            let batch = bomb(*codec, form, len);
            let exact = {
                let mut plain = BatchBuilder::new();
                plain
                    .push(NewRecord {
                        value: Some(&vec![0; len]),
                        ..NewRecord::default()
                    })
                    .unwrap();
                (plain.uncompressed_len() - HEADER_LEN) as u64
            };
            let limits = |max_decompressed_bytes| Limits {
                max_decompressed_bytes,
                ..Limits::default()
            };
            validate(&batch, &limits(exact)).unwrap();
            let refusal = validate(&batch, &limits(exact - 1)).unwrap_err();
            let fault = RecordFault::Expansion(exact - 1);
            assert_eq!(refusal, Refusal::Record { index: 0, fault }, "{codec:?}");
            assert_eq!(refusal.error_code(), 87);
            let mut reader = RecordReader::new(&batch, exact - 1).unwrap();
            assert!(matches!(
                reader.next(),
                Err(DecodeError::Record {
                    fault: RecordFault::Expansion(_),
                    ..
                })
            ));
        }
    }
}

#[test]
fn a_zstd_window_beyond_the_limit() {
    // Frame header: magic, no content size, window descriptor of 2^31 bytes; then one empty last block.
    let mut frame = 0xFD2F_B528u32.to_le_bytes().to_vec();
    frame.extend_from_slice(&[0x00, 21 << 3, 0x01, 0x00, 0x00]);
    let refusal = payload_refused(Compression::Zstd, &frame);
    assert!(
        matches!(
            refusal,
            Refusal::Record {
                fault: RecordFault::Payload(_),
                ..
            }
        ),
        "{refusal}"
    );
}
