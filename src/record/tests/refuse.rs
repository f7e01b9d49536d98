//! One broken batch per rule, with the code each is answered.

use super::*;

const INVALID: i16 = 87;
const CORRUPT: i16 = 2;

fn patched(at: usize, bytes: &[u8]) -> Vec<u8> {
    let mut batch = three(BatchBuilder::new()).to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    seal(&mut batch);
    batch
}

#[track_caller]
fn refused(batch: &[u8], code: i16) -> Refusal {
    let refusal = refusal(batch);
    assert_eq!(refusal.error_code(), code, "{refusal}");
    refusal
}

#[test]
fn no_bytes_and_every_cut() {
    let batch = three(BatchBuilder::new());
    for len in 0..batch.len() {
        assert_eq!(refused(&batch[..len], INVALID), Refusal::NoBatch { sent: len });
    }
}

#[test]
fn length_field() {
    let batch = three(BatchBuilder::new());
    let with_length = |length: i32| {
        let mut out = batch.to_vec();
        out[8..12].copy_from_slice(&length.to_be_bytes());
        out
    };
    let right = (batch.len() - 12) as i32;
    for length in [i32::MIN, -1, 0, 13] {
        assert_eq!(refused(&with_length(length), CORRUPT), Refusal::Length(length));
    }
    for length in [14, 48] {
        assert_eq!(refused(&with_length(length), CORRUPT), Refusal::Length(length));
    }
    for length in [49, right - 17, right - 1] {
        assert!(matches!(refused(&with_length(length), CORRUPT), Refusal::Crc { .. }));
    }
    for length in [right + 1, right + 1000, i32::MAX] {
        refused(&with_length(length), INVALID);
    }
}

#[test]
fn magic() {
    for (magic, code) in [
        (0, INVALID),
        (1, INVALID),
        (3, CORRUPT),
        (127, CORRUPT),
        (0xff, CORRUPT),
    ] {
        assert_eq!(refused(&patched(16, &[magic]), code), Refusal::Magic(magic as i8));
    }
}

#[test]
fn any_flipped_bit_the_crc_covers() {
    let batch = three(BatchBuilder::new());
    for bit in 21 * 8..batch.len() * 8 {
        let mut flipped = batch.to_vec();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(matches!(refused(&flipped, CORRUPT), Refusal::Crc { .. }));
    }
}

#[test]
fn header_rules() {
    for (at, bytes) in [
        (0, &1i64.to_be_bytes()[..]), // base offset
        (0, &(-1i64).to_be_bytes()),
        (23, &1i32.to_be_bytes()), // last offset delta
        (23, &3i32.to_be_bytes()),
        (23, &(-1i32).to_be_bytes()),
        (57, &0i32.to_be_bytes()), // count
        (57, &(-1i32).to_be_bytes()),
        (57, &2i32.to_be_bytes()),
        (57, &i32::MAX.to_be_bytes()),
        (21, &0x0020i16.to_be_bytes()), // control
        (21, &0x4000i16.to_be_bytes()), // documents
        (21, &0x0005i16.to_be_bytes()), // codecs
        (21, &0x0006i16.to_be_bytes()),
        (21, &0x0007i16.to_be_bytes()),
        (43, &5i64.to_be_bytes()), // producer id without a sequence
    ] {
        refused(&patched(at, bytes), INVALID);
    }
}

#[test]
fn count_and_offsets_that_lie_together() {
    for count in [1i32, 2, 4, 1000, i32::MAX] {
        for codec in CODECS {
            let mut batch = three(BatchBuilder::new().compression(codec)).to_vec();
            batch[57..61].copy_from_slice(&count.to_be_bytes());
            batch[23..27].copy_from_slice(&(count - 1).to_be_bytes());
            seal(&mut batch);
            let refusal = refused(&batch, INVALID);
            let fault = if count < 3 {
                RecordFault::LeftOver
            } else {
                RecordFault::End
            };
            assert!(
                matches!(&refusal, Refusal::Record { fault: found, .. } if *found == fault),
                "{codec:?} {refusal}"
            );
        }
    }
}

#[test]
fn too_large() {
    let batch = three(BatchBuilder::new());
    let limit = |max_batch_bytes| Limits {
        max_batch_bytes,
        ..Limits::default()
    };
    validate(&batch, &limit(batch.len())).unwrap();
    assert_eq!(validate(&batch, &limit(batch.len() - 1)).unwrap_err().error_code(), 10);
}

#[test]
fn two_batches() {
    let batch = three(BatchBuilder::new());
    assert_eq!(
        refused(&[&batch[..], &batch].concat(), INVALID),
        Refusal::SeveralBatches
    );
    assert_eq!(
        refused(&[&batch[..], &batch[..20]].concat(), INVALID),
        Refusal::SeveralBatches
    );
}

/// A record of the given fields after its length, which is right unless told.
fn record(fields: &[u8]) -> Vec<u8> {
    let mut out = vec![(fields.len() * 2) as u8];
    out.extend_from_slice(fields);
    out
}

#[test]
fn record_rules() {
    let one = {
        let mut builder = BatchBuilder::new();
        builder
            .push(NewRecord {
                timestamp: 5,
                ..NewRecord::default()
            })
            .unwrap();
        builder.build().unwrap()
    };
    // attributes, timestamp delta, offset delta, key -1, value -1, no headers
    validate(&with_records(&one, &record(&[0, 0, 0, 1, 1, 0])), &Limits::default()).unwrap();
    validate(&with_records(&one, &record(&[0xff, 0, 0, 1, 1, 0])), &Limits::default()).unwrap();
    let five = [0xff, 0xff, 0xff, 0xff, 0x0f];
    let cases: Vec<(&str, Vec<u8>)> = vec![
        ("empty", vec![]),
        ("length -1", vec![1]),
        ("length without end", vec![0x80; 4]),
        ("length too wide", vec![0x80, 0x80, 0x80, 0x80, 0x80, 0]),
        ("length beyond the bytes", vec![14, 0, 0, 0, 1, 1, 0]),
        ("length short of the fields", vec![10, 0, 0, 0, 1, 1, 0]),
        ("length 0", vec![0]),
        ("length beyond the fields", vec![14, 0, 0, 0, 1, 1, 0, 0]),
        (
            "length of 2 GiB",
            [&[0xfe, 0xff, 0xff, 0xff, 0x0f][..], &[0, 0, 0, 1, 1, 0]].concat(),
        ),
        (
            "timestamp delta too wide",
            record(&[&[0][..], &[0xff; 9], &[2, 0, 1, 1, 0]].concat()),
        ),
        (
            "timestamp beyond 64 bits",
            record(&[&[0, 0xfe][..], &[0xff; 8], &[1, 0, 1, 1, 0]].concat()),
        ),
        ("offset delta 1", record(&[0, 0, 2, 1, 1, 0])),
        ("offset delta -1", record(&[0, 0, 1, 1, 1, 0])),
        (
            "offset delta too wide",
            record(&[0, 0, 0x80, 0x80, 0x80, 0x80, 0x10, 1, 1, 0]),
        ),
        ("key length -2", record(&[0, 0, 0, 3, 1, 0])),
        ("key beyond the record", record(&[0, 0, 0, 8, 1, 0])),
        ("key of i32::MIN", record(&[&[0, 0, 0][..], &five, &[1, 0]].concat())),
        ("value length -2", record(&[0, 0, 0, 1, 3, 0])),
        ("value beyond the record", record(&[0, 0, 0, 1, 4, 0])),
        ("header count -1", record(&[0, 0, 0, 1, 1, 1])),
        (
            "headers of 2^31",
            record(&[&[0, 0, 0, 1, 1][..], &[0xfe, 0xff, 0xff, 0xff, 0x0f]].concat()),
        ),
        ("header count beyond", record(&[0, 0, 0, 1, 1, 4, 0, 1])),
        ("header key null", record(&[0, 0, 0, 1, 1, 2, 1, 1])),
        ("header key not UTF-8", record(&[0, 0, 0, 1, 1, 2, 2, 0xff, 1])),
        (
            "header key cut inside a character",
            record(&[0, 0, 0, 1, 1, 2, 2, 0xc3, 1]),
        ),
        ("header value length -2", record(&[0, 0, 0, 1, 1, 2, 0, 3])),
        ("header value beyond", record(&[0, 0, 0, 1, 1, 2, 0, 4])),
        ("a field too many", record(&[0, 0, 0, 1, 1, 0, 0])),
        ("a byte behind", [record(&[0, 0, 0, 1, 1, 0]), vec![0]].concat()),
        (
            "a second record",
            [record(&[0, 0, 0, 1, 1, 0]), record(&[0, 0, 2, 1, 1, 0])].concat(),
        ),
        ("zeros", vec![0; 1000]),
    ];
    for (what, records) in &cases {
        let refusal = refusal(&with_records(&one, records));
        assert!(matches!(refusal, Refusal::Record { .. }), "{what}: {refusal}");
        assert_eq!(refusal.error_code(), INVALID, "{what}");
        // The same records under a codec go through the other walk.
        let packed = zstd::encode_all(&records[..], 1).unwrap();
        let mut batch = with_records(&one, &packed);
        batch[22] = 4;
        seal(&mut batch);
        assert_eq!(super::refusal(&batch).error_code(), INVALID, "{what}, compressed");
    }
}

#[test]
fn offset_deltas_out_of_order() {
    let batch = three(BatchBuilder::new());
    let (zero, one) = (record(&[0, 0, 0, 1, 1, 0]), record(&[0, 0, 2, 1, 1, 0]));
    let refusal = refused(
        &with_records(&batch, &[one.clone(), zero.clone(), one].concat()),
        INVALID,
    );
    let fault = RecordFault::OffsetDelta { expected: 0, found: 1 };
    assert_eq!(refusal, Refusal::Record { index: 0, fault });
}
