use super::*;
use crate::kafka::table::TABLE;
use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::messages::RequestKind;
use proptest::prelude::*;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// Writes a body that the layout allows, with no nulls.
struct Writer {
    rng: StdRng,
    out: BytesMut,
    version: i16,
    flexible: bool,
    tags: bool,
}

impl Writer {
    fn varint(&mut self, mut n: u32) {
        while n >= 0x80 {
            self.out.put_u8(n as u8 | 0x80);
            n >>= 7;
        }
        self.out.put_u8(n as u8);
    }

    fn len(&mut self, n: usize, wide: bool) {
        match (self.flexible, wide) {
            (true, _) => self.varint(n as u32 + 1),
            (false, true) => self.out.put_i32(n as i32),
            (false, false) => self.out.put_i16(n as i16),
        }
    }

    fn structure(&mut self, s: &Struct) {
        for field in s.fields {
            if (field.from..=field.to).contains(&self.version) {
                self.value(&field.shape);
            }
        }
        if self.flexible {
            self.tagged(s);
        }
    }

    fn tagged(&mut self, s: &Struct) {
        let known: Vec<_> = s
            .tagged
            .iter()
            .filter(|t| self.tags && t.from <= self.version)
            .collect();
        let unknown = u32::from(self.tags && self.rng.random_ratio(1, 3));
        self.varint(known.len() as u32 + unknown);
        for tag in known {
            self.varint(tag.tag);
            let outer = std::mem::take(&mut self.out);
            match &tag.content {
                Content::Value(shape) => self.value(shape),
                Content::Struct(s) => self.structure(s),
            }
            let content = std::mem::replace(&mut self.out, outer);
            self.varint(content.len() as u32);
            self.out.extend_from_slice(&content);
        }
        if unknown > 0 {
            self.varint(77);
            self.varint(3);
            self.out.extend_from_slice(b"abc");
        }
    }

    fn value(&mut self, shape: &Shape) {
        match shape {
            Shape::Fixed(n) => {
                // Small numbers, so that booleans and enumerations stay what the codec writes back.
                let last = self.rng.random_range(0..2u8);
                self.out.extend_from_slice(&vec![0; n - 1]);
                self.out.put_u8(last);
            }
            Shape::Text | Shape::Blob => {
                let n = self.rng.random_range(0..200usize);
                self.len(n, matches!(shape, Shape::Blob));
                self.out.extend_from_slice(&vec![b'x'; n]);
            }
            Shape::Each(of) => {
                let n = self.rng.random_range(0..4usize);
                self.len(n, true);
                (0..n).for_each(|_| self.value(of));
            }
            Shape::Array(of) => {
                let n = self.rng.random_range(0..4usize);
                self.len(n, true);
                (0..n).for_each(|_| self.structure(of));
            }
        }
    }
}

fn body(api: &Api, version: i16, seed: u64, tags: bool) -> Bytes {
    let mut writer = Writer {
        rng: StdRng::seed_from_u64(seed),
        out: BytesMut::new(),
        version,
        flexible: api.is_flexible(version),
        tags,
    };
    writer.structure(layout(api.key));
    writer.out.freeze()
}

fn versions() -> impl Iterator<Item = (&'static Api, i16)> {
    TABLE
        .iter()
        .flat_map(|api| (api.decoded_from..=api.max).map(move |version| (api, version)))
}

#[test]
fn every_key_of_the_table_has_a_layout() {
    for api in TABLE {
        assert!(request(api.key).is_some(), "{:?}", api.key);
    }
}

#[test]
fn layouts_are_the_codecs() {
    for (api, version) in versions() {
        for seed in 0..60 {
            let at = format!("{:?} v{version} seed {seed}", api.key);
            let bytes = body(api, version, seed, true);
            assert_eq!(check(api, version, &bytes).expect(&at).len, bytes.len(), "{at}");
            let mut rest = bytes.clone();
            let request = RequestKind::decode(api.key, &mut rest, version).expect(&at);
            assert_eq!(rest.len(), 0, "{at}");
            let mut again = BytesMut::new();
            request.encode(&mut again, version).expect(&at);
            check(api, version, &again).expect(&at);
            // A zero directory or cluster id is the default, which the codec leaves out.
            if api.key != ApiKey::Fetch {
                assert_eq!(again.freeze(), bytes, "{at}");
            }
        }
    }
}

#[test]
fn every_cut_is_refused() {
    for (api, version) in versions() {
        let bytes = body(api, version, 7, true);
        for end in 0..bytes.len() {
            let cut = check(api, version, &bytes[..end]);
            assert!(cut.is_err(), "{:?} v{version} cut at {end} of {}", api.key, bytes.len());
        }
        let mut longer = bytes.to_vec();
        longer.push(0);
        assert_eq!(check(api, version, &longer).map(|c| c.len), Ok(bytes.len()));
    }
}

#[test]
fn four_bytes_claim_no_memory() {
    let metadata = Api::of(3).unwrap();
    assert_eq!(check(metadata, 1, &[0x7f, 0xff, 0xff, 0xff]), Err(Lie::Beyond));
    assert_eq!(check(metadata, 9, &[0xff, 0xff, 0xff, 0xff, 0x0f]), Err(Lie::Beyond));
    assert_eq!(check(metadata, 9, &[0xff, 0xff, 0xff, 0xff, 0x1f]), Err(Lie::Malformed));
    assert_eq!(check(metadata, 1, &[0x80, 0, 0, 0]), Err(Lie::Malformed));
    // Null means all.
    assert_eq!(check(metadata, 1, &[0xff; 4]), Ok(Checked { memory: 0, len: 4 }));
}

#[test]
fn a_frame_full_of_tiny_elements_is_refused() {
    let groups = Api::of(ApiKey::DeleteGroups as i16).unwrap();
    let count = 20 << 20;
    let mut body = BytesMut::new();
    let mut n = count + 1u32;
    while n >= 0x80 {
        body.put_u8(n as u8 | 0x80);
        n >>= 7;
    }
    body.put_u8(n as u8);
    body.resize(body.len() + count as usize + 1, 1);
    assert_eq!(check(groups, 2, &body), Err(Lie::Elements));
}

#[test]
fn a_null_client_id_in_a_flexible_header() {
    let produce = Api::of(0).unwrap();
    let frame = [0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0, 42];
    assert_eq!(header_rest(produce, 9, &frame), Ok((None, 11)));
    let named = [0, 0, 0, 9, 0, 0, 0, 1, 0, 2, b'm', b'e', 1, 5, 1, 9, 42];
    assert_eq!(header_rest(produce, 9, &named), Ok((Some(10..12), 16)));
    assert_eq!(header_rest(produce, 8, &named), Ok((Some(10..12), 12)));
    assert_eq!(header_rest(produce, 9, &named[..11]), Err(Lie::Beyond));
}

fn any_version() -> impl Strategy<Value = (&'static Api, i16)> {
    prop::sample::select(versions().collect::<Vec<_>>())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn what_passes_is_decoded_whole((api, version) in any_version(), bytes in prop::collection::vec(
        prop_oneof![4 => 0u8..4, 1 => any::<u8>()], 0..200))
    {
        let bytes = Bytes::from(bytes);
        if let Ok(checked) = check(api, version, &bytes) {
            let mut rest = bytes.clone();
            // Text that is not UTF-8 and nulls out of place are the codec's to refuse; else both must see one body.
            if RequestKind::decode(api.key, &mut rest, version).is_ok() {
                prop_assert_eq!(bytes.len() - rest.len(), checked.len);
            }
        }
    }

    #[test]
    fn one_changed_byte_never_panics((api, version) in any_version(), seed: u64, at: prop::sample::Index, to: u8) {
        let mut bytes = body(api, version, seed, true).to_vec();
        if !bytes.is_empty() {
            let at = at.index(bytes.len());
            bytes[at] = to;
        }
        if let Ok(checked) = check(api, version, &bytes) {
            let len = bytes.len();
            let mut rest = Bytes::from(bytes);
            if RequestKind::decode(api.key, &mut rest, version).is_ok() {
                prop_assert_eq!(len - rest.len(), checked.len);
            }
        }
    }
}
