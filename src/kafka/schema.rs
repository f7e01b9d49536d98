//! The wire layout of every request that is served, as compact tables: what the guard walks before the codec is called.
//!
//! Only lengths matter here, so a layout knows five shapes and no meanings. It follows Kafka's message definitions.

use kafka_protocol::messages::ApiKey;

/// The shape of one field.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape {
    /// So many bytes.
    Fixed(usize),
    /// A string: 16-bit or compact length; null allowed (where it is not, the codec says so).
    Text,
    /// Bytes or records: 32-bit or compact length; null allowed.
    Blob,
    /// An array of plain values.
    Each(&'static Shape),
    /// An array of structs, each with its own tagged fields.
    Array(&'static Struct),
}

/// A field and the versions that have it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    pub shape: Shape,
    pub from: i16,
    pub to: i16,
}

/// A tagged field that the codec knows: its content is decoded, so it is walked too.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tagged {
    pub tag: u32,
    pub from: i16,
    pub content: Content,
}

/// What a known tagged field holds.
#[derive(Clone, Copy, Debug)]
pub(super) enum Content {
    Value(Shape),
    Struct(&'static Struct),
}

/// Fields in order, then tagged fields in flexible versions.
#[derive(Clone, Copy, Debug)]
pub(super) struct Struct {
    pub fields: &'static [Field],
    pub tagged: &'static [Tagged],
}

const fn plain(fields: &'static [Field]) -> Struct {
    Struct { fields, tagged: &[] }
}

const fn all(shape: Shape) -> Field {
    range(shape, 0, i16::MAX)
}

const fn since(shape: Shape, from: i16) -> Field {
    range(shape, from, i16::MAX)
}

const fn until(shape: Shape, to: i16) -> Field {
    range(shape, 0, to)
}

const fn range(shape: Shape, from: i16, to: i16) -> Field {
    Field { shape, from, to }
}

const I8: Shape = Shape::Fixed(1);
const I16: Shape = Shape::Fixed(2);
const I32: Shape = Shape::Fixed(4);
const I64: Shape = Shape::Fixed(8);
const UUID: Shape = Shape::Fixed(16);
const TEXT: Shape = Shape::Text;
const BLOB: Shape = Shape::Blob;
const I32S: Shape = Shape::Each(&I32);
const TEXTS: Shape = Shape::Each(&TEXT);

const fn array(element: &'static Struct) -> Shape {
    Shape::Array(element)
}

/// The body of a request; `None` for what is not served.
pub(super) const fn request(key: ApiKey) -> Option<&'static Struct> {
    Some(match key {
        ApiKey::Produce => &PRODUCE,
        ApiKey::Fetch => &FETCH,
        ApiKey::ListOffsets => &LIST_OFFSETS,
        ApiKey::Metadata => &METADATA,
        ApiKey::OffsetCommit => &OFFSET_COMMIT,
        ApiKey::OffsetFetch => &OFFSET_FETCH,
        ApiKey::FindCoordinator => &FIND_COORDINATOR,
        ApiKey::JoinGroup => &JOIN_GROUP,
        ApiKey::Heartbeat => &HEARTBEAT,
        ApiKey::LeaveGroup => &LEAVE_GROUP,
        ApiKey::SyncGroup => &SYNC_GROUP,
        ApiKey::DescribeGroups => &DESCRIBE_GROUPS,
        ApiKey::ListGroups => &LIST_GROUPS,
        ApiKey::SaslHandshake => &SASL_HANDSHAKE,
        ApiKey::ApiVersions => &API_VERSIONS,
        ApiKey::CreateTopics => &CREATE_TOPICS,
        ApiKey::DeleteTopics => &DELETE_TOPICS,
        ApiKey::DeleteRecords => &DELETE_RECORDS,
        ApiKey::InitProducerId => &INIT_PRODUCER_ID,
        ApiKey::OffsetForLeaderEpoch => &OFFSET_FOR_LEADER_EPOCH,
        ApiKey::DescribeAcls => &DESCRIBE_ACLS,
        ApiKey::DescribeConfigs => &DESCRIBE_CONFIGS,
        ApiKey::AlterConfigs => &ALTER_CONFIGS,
        ApiKey::DescribeLogDirs => &DESCRIBE_LOG_DIRS,
        ApiKey::SaslAuthenticate => &SASL_AUTHENTICATE,
        ApiKey::CreatePartitions => &CREATE_PARTITIONS,
        ApiKey::DeleteGroups => &DELETE_GROUPS,
        ApiKey::IncrementalAlterConfigs => &INCREMENTAL_ALTER_CONFIGS,
        ApiKey::ListPartitionReassignments => &LIST_PARTITION_REASSIGNMENTS,
        ApiKey::OffsetDelete => &OFFSET_DELETE,
        ApiKey::DescribeCluster => &DESCRIBE_CLUSTER,
        _ => return None,
    })
}

/// A name and its partition numbers, as several requests have it.
const TOPIC_PARTITIONS: Struct = plain(&[all(TEXT), all(I32S)]);

const PRODUCE: Struct = plain(&[
    since(TEXT, 3), // transactional_id
    all(I16),       // acks
    all(I32),       // timeout_ms
    all(array(&plain(&[
        until(TEXT, 12), // name
        since(UUID, 13), // topic_id
        all(array(&plain(&[
            all(I32),  // index
            all(BLOB), // records
        ]))),
    ]))),
]);

const FETCH: Struct = Struct {
    fields: &[
        until(I32, 14), // replica_id
        all(I32),       // max_wait_ms
        all(I32),       // min_bytes
        since(I32, 3),  // max_bytes
        since(I8, 4),   // isolation_level
        since(I32, 7),  // session_id
        since(I32, 7),  // session_epoch
        all(array(&plain(&[
            until(TEXT, 12), // topic
            since(UUID, 13), // topic_id
            all(array(&Struct {
                fields: &[
                    all(I32),       // partition
                    since(I32, 9),  // current_leader_epoch
                    all(I64),       // fetch_offset
                    since(I32, 12), // last_fetched_epoch
                    since(I64, 5),  // log_start_offset
                    all(I32),       // partition_max_bytes
                ],
                tagged: &[Tagged {
                    tag: 0, // replica_directory_id
                    from: 17,
                    content: Content::Value(UUID),
                }],
            })),
        ]))),
        since(
            array(&plain(&[
                until(TEXT, 12), // topic
                since(UUID, 13), // topic_id
                all(I32S),       // partitions
            ])),
            7,
        ), // forgotten_topics_data
        since(TEXT, 11), // rack_id
    ],
    tagged: &[
        Tagged {
            tag: 0, // cluster_id
            from: 12,
            content: Content::Value(TEXT),
        },
        Tagged {
            tag: 1, // replica_state
            from: 15,
            content: Content::Struct(&plain(&[all(I32), all(I64)])),
        },
    ],
};

const LIST_OFFSETS: Struct = plain(&[
    all(I32),     // replica_id
    since(I8, 2), // isolation_level
    all(array(&plain(&[
        all(TEXT), // name
        all(array(&plain(&[
            all(I32),      // partition_index
            since(I32, 4), // current_leader_epoch
            all(I64),      // timestamp
        ]))),
    ]))),
    since(I32, 10), // timeout_ms
]);

const METADATA: Struct = plain(&[
    all(array(&plain(&[
        since(UUID, 10), // topic_id
        all(TEXT),       // name
    ]))),
    since(I8, 4),     // allow_auto_topic_creation
    range(I8, 8, 10), // include_cluster_authorized_operations
    since(I8, 8),     // include_topic_authorized_operations
]);

const OFFSET_COMMIT: Struct = plain(&[
    all(TEXT),        // group_id
    since(I32, 1),    // generation_id_or_member_epoch
    since(TEXT, 1),   // member_id
    since(TEXT, 7),   // group_instance_id
    range(I64, 2, 4), // retention_time_ms
    all(array(&plain(&[
        all(TEXT), // name
        all(array(&plain(&[
            all(I32),      // partition_index
            all(I64),      // committed_offset
            since(I32, 6), // committed_leader_epoch
            all(TEXT),     // committed_metadata
        ]))),
    ]))),
]);

const OFFSET_FETCH: Struct = plain(&[
    until(TEXT, 7),                     // group_id
    until(array(&TOPIC_PARTITIONS), 7), // topics
    since(
        array(&plain(&[
            all(TEXT),                     // group_id
            since(TEXT, 9),                // member_id
            since(I32, 9),                 // member_epoch
            all(array(&TOPIC_PARTITIONS)), // topics
        ])),
        8,
    ), // groups
    since(I8, 7),                       // require_stable
]);

const FIND_COORDINATOR: Struct = plain(&[
    until(TEXT, 3),  // key
    since(I8, 1),    // key_type
    since(TEXTS, 4), // coordinator_keys
]);

const JOIN_GROUP: Struct = plain(&[
    all(TEXT),      // group_id
    all(I32),       // session_timeout_ms
    since(I32, 1),  // rebalance_timeout_ms
    all(TEXT),      // member_id
    since(TEXT, 5), // group_instance_id
    all(TEXT),      // protocol_type
    all(array(&plain(&[
        all(TEXT), // name
        all(BLOB), // metadata
    ]))),
    since(TEXT, 8), // reason
]);

const HEARTBEAT: Struct = plain(&[
    all(TEXT),      // group_id
    all(I32),       // generation_id
    all(TEXT),      // member_id
    since(TEXT, 3), // group_instance_id
]);

const LEAVE_GROUP: Struct = plain(&[
    all(TEXT),      // group_id
    until(TEXT, 2), // member_id
    since(
        array(&plain(&[
            all(TEXT),      // member_id
            all(TEXT),      // group_instance_id
            since(TEXT, 5), // reason
        ])),
        3,
    ), // members
]);

const SYNC_GROUP: Struct = plain(&[
    all(TEXT),      // group_id
    all(I32),       // generation_id
    all(TEXT),      // member_id
    since(TEXT, 3), // group_instance_id
    since(TEXT, 5), // protocol_type
    since(TEXT, 5), // protocol_name
    all(array(&plain(&[
        all(TEXT), // member_id
        all(BLOB), // assignment
    ]))),
]);

const DESCRIBE_GROUPS: Struct = plain(&[
    all(TEXTS),   // groups
    since(I8, 3), // include_authorized_operations
]);

const LIST_GROUPS: Struct = plain(&[
    since(TEXTS, 4), // states_filter
    since(TEXTS, 5), // types_filter
]);

const SASL_HANDSHAKE: Struct = plain(&[all(TEXT)]); // mechanism

const API_VERSIONS: Struct = plain(&[
    since(TEXT, 3), // client_software_name
    since(TEXT, 3), // client_software_version
]);

/// A name and a value.
const CONFIG: Struct = plain(&[all(TEXT), all(TEXT)]);

const CREATE_TOPICS: Struct = plain(&[
    all(array(&plain(&[
        all(TEXT), // name
        all(I32),  // num_partitions
        all(I16),  // replication_factor
        all(array(&plain(&[
            all(I32),  // partition_index
            all(I32S), // broker_ids
        ]))), // assignments
        all(array(&CONFIG)),
    ]))),
    all(I32),     // timeout_ms
    since(I8, 1), // validate_only
]);

const DELETE_TOPICS: Struct = plain(&[
    since(
        array(&plain(&[
            all(TEXT), // name
            all(UUID), // topic_id
        ])),
        6,
    ), // topics
    until(TEXTS, 5), // topic_names
    all(I32),        // timeout_ms
]);

const DELETE_RECORDS: Struct = plain(&[
    all(array(&plain(&[
        all(TEXT), // name
        all(array(&plain(&[
            all(I32), // partition_index
            all(I64), // offset
        ]))),
    ]))),
    all(I32), // timeout_ms
]);

const INIT_PRODUCER_ID: Struct = plain(&[
    all(TEXT),     // transactional_id
    all(I32),      // transaction_timeout_ms
    since(I64, 3), // producer_id
    since(I16, 3), // producer_epoch
]);

const OFFSET_FOR_LEADER_EPOCH: Struct = plain(&[
    since(I32, 3), // replica_id
    all(array(&plain(&[
        all(TEXT), // topic
        all(array(&plain(&[
            all(I32),      // partition
            since(I32, 2), // current_leader_epoch
            all(I32),      // leader_epoch
        ]))),
    ]))),
]);

const DESCRIBE_ACLS: Struct = plain(&[
    all(I8),      // resource_type_filter
    all(TEXT),    // resource_name_filter
    since(I8, 1), // pattern_type_filter
    all(TEXT),    // principal_filter
    all(TEXT),    // host_filter
    all(I8),      // operation
    all(I8),      // permission_type
]);

const DESCRIBE_CONFIGS: Struct = plain(&[
    all(array(&plain(&[
        all(I8),    // resource_type
        all(TEXT),  // resource_name
        all(TEXTS), // configuration_keys
    ]))),
    since(I8, 1), // include_synonyms
    since(I8, 3), // include_documentation
]);

const ALTER_CONFIGS: Struct = plain(&[
    all(array(&plain(&[
        all(I8),   // resource_type
        all(TEXT), // resource_name
        all(array(&CONFIG)),
    ]))),
    all(I8), // validate_only
]);

const DESCRIBE_LOG_DIRS: Struct = plain(&[all(array(&TOPIC_PARTITIONS))]);

const SASL_AUTHENTICATE: Struct = plain(&[all(BLOB)]); // auth_bytes

const CREATE_PARTITIONS: Struct = plain(&[
    all(array(&plain(&[
        all(TEXT),                        // name
        all(I32),                         // count
        all(array(&plain(&[all(I32S)]))), // assignments
    ]))),
    all(I32), // timeout_ms
    all(I8),  // validate_only
]);

const DELETE_GROUPS: Struct = plain(&[all(TEXTS)]);

const INCREMENTAL_ALTER_CONFIGS: Struct = plain(&[
    all(array(&plain(&[
        all(I8),   // resource_type
        all(TEXT), // resource_name
        all(array(&plain(&[
            all(TEXT), // name
            all(I8),   // config_operation
            all(TEXT), // value
        ]))),
    ]))),
    all(I8), // validate_only
]);

const LIST_PARTITION_REASSIGNMENTS: Struct = plain(&[
    all(I32), // timeout_ms
    all(array(&TOPIC_PARTITIONS)),
]);

const OFFSET_DELETE: Struct = plain(&[
    all(TEXT), // group_id
    all(array(&plain(&[
        all(TEXT),                       // name
        all(array(&plain(&[all(I32)]))), // partitions
    ]))),
]);

const DESCRIBE_CLUSTER: Struct = plain(&[
    all(I8),      // include_cluster_authorized_operations
    since(I8, 1), // endpoint_type
    since(I8, 2), // include_fenced_brokers
]);
