//! Record batch v2 (KIP-98, Kafka's `DefaultRecordBatch`): a borrowed view of the 61-byte header, the walk that decides
//! whether a batch may be stored, bounded decompression, and the way between TessariQL documents and records.
//!
//! Record bytes are never decoded into owned records on the produce or fetch path.

mod header;

pub use header::{BatchHeader, Compression, HEADER_LEN, HeaderError, TimestampType};
