//! Which partition a message goes to.

use super::super::value::{Object, Value};
use cluster::catalog::Topic;
use cluster::ids::TopicId;
use parking_lot::Mutex;
use std::collections::HashMap;

/// Places messages: by the hash of the field the topic names, in turn where a value has no such field.
#[derive(Default)]
pub(super) struct Placement {
    turns: Mutex<HashMap<TopicId, u32>>,
}

impl Placement {
    /// The partition of a message.
    pub(super) fn partition(&self, topic: &Topic, value: &Object) -> u32 {
        // A topic has far fewer partitions than u32 counts, and one at least.
        let partitions = (topic.partitions.len() as u32).max(1);
        let field = topic.by.as_ref().and_then(|by| value.get(by));
        match field.and_then(Value::placement_text) {
            Some(text) => partition_of(text.as_bytes(), partitions),
            None if partitions == 1 => 0,
            None => {
                let mut turns = self.turns.lock();
                let turn = turns.entry(topic.id).or_default();
                let partition = *turn % partitions;
                *turn = partition + 1;
                partition
            }
        }
    }

    /// Forgets topics that are gone.
    pub(super) fn retain(&self, known: impl Fn(TopicId) -> bool) {
        self.turns.lock().retain(|topic, _| known(*topic));
    }
}

/// The partition that the Java client (and librdkafka's `murmur2_random`) puts a key in.
pub fn partition_of(key: &[u8], partitions: u32) -> u32 {
    (murmur2(key) & 0x7fff_ffff) % partitions
}

/// MurmurHash2, 32 bits, with the seed of the Java client.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    // The length wraps as the client's does; keys of 4 GiB do not occur.
    let mut h = 0x9747_b28c ^ bytes.len() as u32;
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        let mut k = u32::from_le_bytes([word[0], word[1], word[2], word[3]]).wrapping_mul(M);
        k ^= k >> 24;
        h = h.wrapping_mul(M) ^ k.wrapping_mul(M);
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        for (at, byte) in rest.iter().enumerate() {
            h ^= u32::from(*byte) << (8 * at);
        }
        h = h.wrapping_mul(M);
    }
    h ^= h >> 13;
    h = h.wrapping_mul(M);
    h ^ (h >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_the_java_clients() {
        // The vectors of the client's own UtilsTest.
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, hash, "{key}");
        }
    }

    /// Where librdkafka's `murmur2_random` puts a key.
    fn librdkafka(key: &str, partitions: u32) -> u32 {
        let null = std::ptr::null_mut();
        // SAFETY: the partitioner reads the key's bytes alone; topic and opaque pointers are passed over.
        let partition = unsafe {
            rdkafka::bindings::rd_kafka_msg_partitioner_murmur2_random(
                null,
                key.as_ptr().cast(),
                key.len(),
                partitions as i32,
                null.cast(),
                null.cast(),
            )
        };
        partition as u32
    }

    #[test]
    fn a_thousand_keys_land_where_java_and_librdkafka_put_them() {
        let java = include_str!("../../../tests/data/placement/java.tsv");
        let mut keys = 0;
        for line in java.lines() {
            let columns: Vec<&str> = line.split('\t').collect();
            let &[key, of_3, of_12, of_1000] = columns.as_slice() else {
                panic!("{line}")
            };
            let text = Value::from(key).placement_text().expect("a string places");
            for (partitions, java) in [(3, of_3), (12, of_12), (1000, of_1000)] {
                let ours = partition_of(text.as_bytes(), partitions);
                assert_eq!(ours.to_string(), java, "{key} of {partitions}");
                assert_eq!(ours, librdkafka(key, partitions), "{key} of {partitions}");
            }
            keys += 1;
        }
        assert_eq!(keys, 1000);
    }

    #[test]
    fn the_keys_of_the_documentation_land_where_it_says() {
        assert_eq!(partition_of(b"c-42", 3), 0);
        assert_eq!(partition_of(b"c-17", 3), 1);
    }
}
