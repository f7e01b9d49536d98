//! Frames as sent; and the same with a key and version that are served, so that mutations get behind the header.

use crate::allocation;
use bytes::{Bytes, BytesMut};
use tessaridb::kafka::{DecodedFrame, TABLE, decode_frame};

pub(crate) fn run(data: &[u8]) {
    judge(data);
    let Some((choice, _)) = data.split_first_chunk::<2>() else {
        return;
    };
    // Where the header lies, its own bytes choose what is served.
    let api = &TABLE[usize::from(choice[0]) % TABLE.len()];
    let versions = (api.max - api.decoded_from + 1) as usize;
    let version = api.decoded_from + (usize::from(choice[1]) % versions) as i16;
    let mut frame = data.to_vec();
    if frame.len() >= 4 {
        frame[..2].copy_from_slice(&(api.key as i16).to_be_bytes());
        frame[2..4].copy_from_slice(&version.to_be_bytes());
        judge(&frame);
    }
}

/// What is read can be written, and reads the same again; it takes no more memory than the guard said.
fn judge(frame: &[u8]) {
    let frame = Bytes::copy_from_slice(frame);
    let mut decoded = Err(String::new());
    let peak = allocation::peak(|| decoded = decode_frame(frame));
    let Ok(DecodedFrame {
        api,
        version,
        memory,
        request,
        ..
    }) = decoded
    else {
        return;
    };
    assert!(
        peak <= memory + 4096,
        "{:?} v{version}: {peak} bytes, {memory} foreseen",
        api.key
    );
    let mut body = BytesMut::new();
    if request.encode(&mut body, version).is_ok() {
        let mut head = vec![0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
        head[..2].copy_from_slice(&(api.key as i16).to_be_bytes());
        head[2..4].copy_from_slice(&version.to_be_bytes());
        if api.request_header(version) == 2 {
            head.push(0);
        }
        head.extend_from_slice(&body);
        let again = decode_frame(head.into())
            .unwrap_or_else(|error| panic!("{:?} v{version}, as written: {error}: {request:?}", api.key));
        assert_eq!(again.request, request, "{:?} v{version}", api.key);
    }
}
