//! Which requests are served: the only source of the ApiVersions answer, of what a connection accepts, and of the tests
//! that call every version of every key.

use kafka_protocol::messages::ApiKey;

/// One request kind that is served.
#[derive(Clone, Copy, Debug)]
pub struct Api {
    /// Kafka's name of it.
    pub key: ApiKey,
    /// Lowest version told to clients.
    pub min: i16,
    /// Highest version.
    pub max: i16,
    /// Lowest version that is really decoded. Lower for Produce only: librdkafka before 2.11.1 turns compression off when
    /// version 0 is not listed (KAFKA-18659); such a request closes the connection.
    pub decoded_from: i16,
    /// First version with compact lengths and tagged fields (KIP-482).
    pub flexible_from: i16,
}

/// No version is flexible.
const NEVER: i16 = i16::MAX;

const fn api(key: ApiKey, min: i16, max: i16, flexible_from: i16) -> Api {
    Api {
        key,
        min,
        max,
        decoded_from: min,
        flexible_from,
    }
}

/// All that is served.
pub const TABLE: &[Api] = &[
    Api {
        key: ApiKey::Produce,
        min: 0,
        max: 13,
        decoded_from: 3,
        flexible_from: 9,
    },
    api(ApiKey::Fetch, 4, 17, 12),
    api(ApiKey::ListOffsets, 1, 10, 6),
    api(ApiKey::Metadata, 0, 13, 9),
    api(ApiKey::OffsetCommit, 2, 9, 8),
    api(ApiKey::OffsetFetch, 1, 9, 6),
    api(ApiKey::FindCoordinator, 0, 6, 3),
    api(ApiKey::JoinGroup, 0, 9, 6),
    api(ApiKey::Heartbeat, 0, 4, 4),
    api(ApiKey::LeaveGroup, 0, 5, 4),
    api(ApiKey::SyncGroup, 0, 5, 4),
    api(ApiKey::DescribeGroups, 0, 6, 5),
    api(ApiKey::ListGroups, 0, 5, 3),
    api(ApiKey::SaslHandshake, 0, 1, NEVER),
    api(ApiKey::ApiVersions, 0, 4, 3),
    api(ApiKey::CreateTopics, 2, 7, 5),
    api(ApiKey::DeleteTopics, 1, 6, 4),
    api(ApiKey::DeleteRecords, 0, 2, 2),
    api(ApiKey::InitProducerId, 0, 5, 2),
    api(ApiKey::OffsetForLeaderEpoch, 2, 4, 4),
    api(ApiKey::DescribeAcls, 1, 3, 2),
    api(ApiKey::DescribeConfigs, 1, 4, 4),
    api(ApiKey::AlterConfigs, 0, 2, 2),
    api(ApiKey::DescribeLogDirs, 1, 4, 2),
    api(ApiKey::SaslAuthenticate, 0, 2, 2),
    api(ApiKey::CreatePartitions, 0, 3, 2),
    api(ApiKey::DeleteGroups, 0, 2, 2),
    api(ApiKey::IncrementalAlterConfigs, 0, 1, 1),
    api(ApiKey::ListPartitionReassignments, 0, 0, 0),
    api(ApiKey::OffsetDelete, 0, 0, NEVER),
    api(ApiKey::DescribeCluster, 0, 2, 0),
];

impl Api {
    /// The row of a key.
    pub fn of(key: i16) -> Option<&'static Api> {
        TABLE.iter().find(|a| a.key as i16 == key)
    }

    /// Whether a request of this version is decoded.
    pub fn decodes(&self, version: i16) -> bool {
        (self.decoded_from..=self.max).contains(&version)
    }

    /// Whether this version has compact lengths and tagged fields.
    pub fn is_flexible(&self, version: i16) -> bool {
        version >= self.flexible_from
    }

    /// Version of the request header.
    pub fn request_header(&self, version: i16) -> i16 {
        if self.is_flexible(version) { 2 } else { 1 }
    }

    /// Version of the response header. ApiVersions keeps 0 so that any client can read it (KIP-511).
    pub fn response_header(&self, version: i16) -> i16 {
        if self.is_flexible(version) && self.key != ApiKey::ApiVersions {
            1
        } else {
            0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn header_versions_are_the_codecs() {
        for api in TABLE {
            for version in api.decoded_from..=api.max {
                let (key, at) = (api.key, format!("{:?} v{version}", api.key));
                assert_eq!(api.request_header(version), key.request_header_version(version), "{at}");
                assert_eq!(
                    api.response_header(version),
                    key.response_header_version(version),
                    "{at}"
                );
            }
        }
    }

    #[test]
    fn keys_are_listed_once_in_order_with_versions_the_codec_has() {
        assert!(TABLE.windows(2).all(|w| (w[0].key as i16) < (w[1].key as i16)));
        for api in TABLE {
            let codec = api.key.valid_versions();
            assert!(codec.min <= api.decoded_from && api.max <= codec.max, "{:?}", api.key);
            assert!(
                api.min <= api.decoded_from && api.decoded_from <= api.max,
                "{:?}",
                api.key
            );
        }
    }
}
