//! Record batch v2 (KIP-98, Kafka's `DefaultRecordBatch`): a borrowed view of the 61-byte header, the walk that decides
//! whether a batch may be stored, bounded decompression, and the way between TessariQL documents and records.
//!
//! ```text
//!   produce: validate -> (restamp_time) -> log: stamp -> segment        fetch: bytes as stored, unread
//!   CREATE:  build_documents ------------> log: stamp -> segment        READ, time lookups: RecordReader
//! ```
//!
//! Record bytes are never decoded into owned records on the produce or fetch path.

mod build;
mod decode;
mod fault;
mod header;
mod lz4;
mod pack;
mod snappy;
mod stamp;
mod unpack;
mod validate;
mod varint;
mod walk;

#[cfg(test)]
mod tests;

pub use build::{BatchBuilder, BuildError, NewRecord, build_documents};
pub use decode::{DecodeError, HeaderView, Headers, RecordReader, RecordView, find_by_timestamp};
pub use fault::RecordFault;
pub use header::{BatchHeader, Compression, HEADER_LEN, HeaderError, TimestampType};
pub use pack::{PackError, SnappyForm};
pub use stamp::{Restamped, STAMP_LEN, Stamped, restamp_time, stamp};
pub use validate::{Limits, Refusal, RefusalKind, Validated, batch_crc, validate};
