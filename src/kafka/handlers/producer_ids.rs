//! InitProducerId (22): ids for idempotent producers.

use crate::auth::Action;
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use kafka_protocol::ResponseError;
use kafka_protocol::messages::{InitProducerIdRequest, InitProducerIdResponse, ProducerId};

/// A fresh id with epoch 0. A producer that names the id it has (KIP-360, version 3) gets a fresh one too, as in Kafka,
/// where only transactional producers keep theirs. Transactions are refused.
pub(crate) async fn init_producer_id(call: &Call, request: InitProducerIdRequest) -> InitProducerIdResponse {
    let failed = |error: ResponseError| {
        InitProducerIdResponse::default()
            .with_error_code(error.code())
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1)
    };
    match request.transactional_id {
        // Kafka refuses an empty one as a request that makes no sense.
        Some(id) if id.is_empty() => return failed(ResponseError::InvalidRequest),
        Some(_) => return failed(ResponseError::TransactionalIdAuthorizationFailed),
        None => {}
    }
    if (request.producer_id.0 == -1) != (request.producer_epoch == -1) {
        return failed(ResponseError::InvalidRequest);
    }
    // As in Kafka: ids are for those who may write somewhere.
    let state = call.view();
    let access = Access::new(call, &state);
    if !access.may_somewhere(Action::Write, None) {
        return failed(access.refused(
            Action::Write,
            "a producer id",
            ResponseError::ClusterAuthorizationFailed,
        ));
    }
    match call.broker().producer_id().await {
        Ok(id) => InitProducerIdResponse::default()
            .with_producer_id(ProducerId(id))
            .with_producer_epoch(0),
        // Whatever it was, asking again does no harm: an id that got lost is never given twice. All clients retry on this.
        Err(error) => {
            tracing::warn!(%error, "no producer id");
            failed(ResponseError::CoordinatorLoadInProgress)
        }
    }
}
