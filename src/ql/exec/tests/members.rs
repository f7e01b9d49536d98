//! Replica rows and roles.

use super::*;

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_told_as_declared() {
    let store = Store::with_topic().await;
    store
        .done(
            "DEFINE REPLICA first AT 'db-1.internal:9180' NODE '00000000000000000000000000000007';
             DEFINE REPLICA second AT 'db-2.internal:9180' CLIENTS AT 'db-2.example:9080' KAFKA AT 'db-2.example:9092'
                 NODE '9f2c4e1a70bb43d5a1c6e2f480937d55' ROLES serving, coordinating;
             ALTER REPLICA first KAFKA AT '[fd00::1]:9092'; ALTER REPLICA first LEADS 3;
             ALTER REPLICA first HTTP AT 'https://db-1.example'",
        )
        .await;
    let node = NODE.to_string();
    let version = env!("CARGO_PKG_VERSION");
    assert_eq!(
        store.text("INFO FOR NODE").await,
        format!(
            "{{ broker: 1, members: [{{ at: 'db-1.internal:9180', broker: 1, http_at: 'https://db-1.example', kafka_at: '[fd00::1]:9092', leads: 3, name: 'first', node: '{node}', roles: ['serving', 'writable', 'coordinating'], state: 'voting' }}, {{ at: 'db-2.internal:9180', broker: 2, clients_at: 'db-2.example:9080', kafka_at: 'db-2.example:9092', name: 'second', node: '9f2c4e1a70bb43d5a1c6e2f480937d55', roles: ['serving', 'coordinating'], state: 'joining' }}], node: '{node}', version: '{version}' }}\n"
        )
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_is_refused_by_name() {
    let store = Store::with_topic().await;
    store
        .done("DEFINE REPLICA a AT 'a:1' NODE '000000000000000000000000000000aa'; DROP REPLICA a")
        .await;
    for (script, says) in [
        ("DROP REPLICA b", "the replica b is not known"),
        (
            "DEFINE REPLICA b AT 'b:1' NODE '000000000000000000000000000000aa'",
            "the node 000000000000000000000000000000aa was dropped and cannot come back",
        ),
        (
            "DEFINE REPLICA b AT '0.0.0.0:1'",
            "no address that could be connected to",
        ),
        ("DEFINE NODE ROLES NONE", "no member would be left that is coordinating"),
    ] {
        let refused = store.refusal(script).await;
        assert!(refused.contains(says), "{script}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_member_that_is_not_writable_takes_no_changes_but_of_roles() {
    let store = Store::with_topic().await;
    store.done("DEFINE NODE ROLES serving, coordinating").await;
    for script in [
        "DEFINE NAMESPACE n",
        "CREATE orders = { customer: 'c' }",
        "READ FROM orders FOR CONSUMER 'c'",
    ] {
        let refused = store.refusal(script).await;
        assert!(refused.contains("does not take writes"), "{script}: {refused}");
    }
    store.text("READ FROM orders; INFO FOR STORE").await;
    store
        .done("DEFINE NODE ROLES serving, writable, coordinating; DEFINE NAMESPACE n")
        .await;
}
