//! ApiVersions (18): the table, as clients negotiate from it.

use crate::kafka::call::Call;
use crate::kafka::table::{Api, TABLE};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::api_versions_response::ApiVersion;
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use std::future::{Future, ready};

/// The whole table. No feature is named: a finalized `transaction.version` would change what producers send (KIP-890).
pub(crate) fn api_versions(call: &Call, request: ApiVersionsRequest) -> impl Future<Output = ApiVersionsResponse> {
    let version_3 = call.version >= 3;
    let named = is_name(&request.client_software_name) && is_name(&request.client_software_version);
    ready(if version_3 && !named {
        ApiVersionsResponse::default().with_error_code(ResponseError::InvalidRequest.code())
    } else {
        ApiVersionsResponse::default().with_api_keys(TABLE.iter().map(row).collect())
    })
}

/// The answer to a version that is not known, in version 0: what the client may ask instead.
pub(crate) fn unsupported() -> ApiVersionsResponse {
    ApiVersionsResponse::default()
        .with_error_code(ResponseError::UnsupportedVersion.code())
        .with_api_keys(
            TABLE
                .iter()
                .filter(|api| api.key == ApiKey::ApiVersions)
                .map(row)
                .collect(),
        )
}

fn row(api: &Api) -> ApiVersion {
    ApiVersion::default()
        .with_api_key(api.key as i16)
        .with_min_version(api.min)
        .with_max_version(api.max)
}

/// KIP-511: letters, digits, `-` and `.`, not at either end.
fn is_name(text: &str) -> bool {
    let inner = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '.';
    text.chars().all(inner)
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names() {
        for good in ["a", "librdkafka", "apache-kafka-java", "3.7.0", "a.b-c"] {
            assert!(is_name(good), "{good}");
        }
        for bad in ["", "-a", "a-", ".", "a b", "a_b", "é"] {
            assert!(!is_name(bad), "{bad}");
        }
    }
}
