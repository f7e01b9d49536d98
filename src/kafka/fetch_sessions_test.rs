use super::*;
use crate::auth::Principal;
use kafka_protocol::messages::TopicName;
use kafka_protocol::messages::fetch_request::FetchPartition;

fn topic(name: &'static str, partitions: &[i32]) -> FetchTopic {
    FetchTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(name)))
        .with_partitions(
            partitions
                .iter()
                .map(|p| FetchPartition::default().with_partition(*p).with_fetch_offset(7))
                .collect(),
        )
}

fn forgotten(name: &'static str, partitions: &[i32]) -> ForgottenTopic {
    ForgottenTopic::default()
        .with_topic(TopicName(StrBytes::from_static_str(name)))
        .with_partitions(partitions.to_vec())
}

fn start(sessions: &FetchSessions, topics: Vec<FetchTopic>) -> Option<i32> {
    match sessions.begin(&Who::Anonymous, 0, 0, false, topics, vec![]) {
        Ok(Context::Full { wants, session }) => session.map(|s| {
            let number = s.number;
            s.put_back(wants);
            number
        }),
        _ => panic!("a full fetch"),
    }
}

fn go_on(
    sessions: &FetchSessions,
    number: i32,
    epoch: i32,
    topics: Vec<FetchTopic>,
    gone: Vec<ForgottenTopic>,
) -> Result<Vec<(StrBytes, i32)>, ResponseError> {
    match sessions.begin(&Who::Anonymous, number, epoch, false, topics, gone)? {
        Context::Incremental { wants, session } => {
            let names = wants
                .partitions
                .iter()
                .map(|p| (wants.topics[p.topic].name.clone(), p.partition))
                .collect();
            session.put_back(wants);
            Ok(names)
        }
        Context::Full { wants, session } => {
            assert!(wants.partitions.is_empty() && session.is_none());
            Ok(vec![])
        }
    }
}

fn named(list: &[(&'static str, i32)]) -> Vec<(StrBytes, i32)> {
    list.iter().map(|(n, p)| (StrBytes::from_static_str(n), *p)).collect()
}

#[test]
fn a_session_lives_by_its_epochs() {
    let sessions = FetchSessions::new(10);
    let id = start(&sessions, vec![topic("a", &[0, 1])]).unwrap();
    assert_eq!(
        go_on(&sessions, id, 1, vec![], vec![]).unwrap(),
        named(&[("a", 0), ("a", 1)])
    );
    assert_eq!(
        go_on(&sessions, id, 2, vec![topic("b", &[5]), topic("a", &[1])], vec![]).unwrap(),
        named(&[("a", 0), ("a", 1), ("b", 5)])
    );
    // A repeat of an epoch, and one ahead.
    for wrong in [2, 4, 1] {
        assert_eq!(
            go_on(&sessions, id, wrong, vec![], vec![]),
            Err(ResponseError::InvalidFetchSessionEpoch)
        );
    }
    assert_eq!(
        go_on(
            &sessions,
            id,
            3,
            vec![],
            vec![forgotten("a", &[0, 9]), forgotten("x", &[0])]
        )
        .unwrap(),
        named(&[("a", 1), ("b", 5)])
    );
    assert_eq!(
        go_on(&sessions, id ^ 1, 1, vec![], vec![]),
        Err(ResponseError::FetchSessionIdNotFound)
    );
    assert!(matches!(
        sessions.begin(&Who::Anonymous, id, 4, true, vec![], vec![]),
        Err(ResponseError::FetchSessionTopicIdError)
    ));
    // Forgetting all ends it.
    let all = vec![forgotten("a", &[1]), forgotten("b", &[5])];
    assert!(go_on(&sessions, id, 4, vec![], all).unwrap().is_empty());
    assert_eq!(
        go_on(&sessions, id, 5, vec![], vec![]),
        Err(ResponseError::FetchSessionIdNotFound)
    );
    assert_eq!(sessions.kept.lock().partitions, 0);
}

#[test]
fn a_full_fetch_that_names_a_session_ends_it() {
    let sessions = FetchSessions::new(10);
    let id = start(&sessions, vec![topic("a", &[0])]).unwrap();
    assert!(matches!(
        sessions.begin(&Who::Anonymous, id, -1, false, vec![topic("a", &[0])], vec![]),
        Ok(Context::Full { session: None, .. })
    ));
    assert_eq!(
        go_on(&sessions, id, 1, vec![], vec![]),
        Err(ResponseError::FetchSessionIdNotFound)
    );
}

#[test]
fn a_fetch_that_is_dropped_takes_its_session_along() {
    let sessions = FetchSessions::new(10);
    let id = start(&sessions, vec![topic("a", &[0])]).unwrap();
    let taken = sessions.begin(&Who::Anonymous, id, 1, false, vec![], vec![]);
    assert_eq!(
        go_on(&sessions, id, 1, vec![], vec![]),
        Err(ResponseError::InvalidFetchSessionEpoch)
    );
    drop(taken);
    assert_eq!(
        go_on(&sessions, id, 2, vec![], vec![]),
        Err(ResponseError::FetchSessionIdNotFound)
    );
    assert_eq!(sessions.kept.lock().partitions, 0);
}

#[tokio::test(start_paused = true)]
async fn when_full_only_a_stale_session_gives_way() {
    let sessions = FetchSessions::new(2);
    let first = start(&sessions, vec![topic("a", &[0])]).unwrap();
    tokio::time::advance(Duration::from_secs(1)).await;
    let second = start(&sessions, vec![topic("a", &[0])]).unwrap();
    assert_eq!(start(&sessions, vec![topic("a", &[0])]), None);
    tokio::time::advance(STALE - Duration::from_millis(500)).await;
    assert!(start(&sessions, vec![topic("a", &[0])]).is_some());
    assert_eq!(
        go_on(&sessions, first, 1, vec![], vec![]),
        Err(ResponseError::FetchSessionIdNotFound)
    );
    assert!(go_on(&sessions, second, 1, vec![], vec![]).is_ok());
    assert!(
        FetchSessions::new(0)
            .begin(&Who::Anonymous, 0, 0, false, vec![topic("a", &[0])], vec![])
            .is_ok()
    );
}

#[test]
fn topics_that_come_and_go_do_not_pile_up() {
    let sessions = FetchSessions::new(2);
    let id = start(&sessions, vec![topic("a", &[0]), topic("b", &[0])]).unwrap();
    assert_eq!(
        go_on(&sessions, id, 1, vec![], vec![forgotten("a", &[0])]).unwrap(),
        named(&[("b", 0)])
    );
    assert_eq!(
        go_on(&sessions, id, 2, vec![topic("a", &[3])], vec![]).unwrap(),
        named(&[("b", 0), ("a", 3)])
    );
    assert_eq!(
        go_on(&sessions, id, 3, vec![], vec![forgotten("b", &[0])]).unwrap(),
        named(&[("a", 3)])
    );
    match sessions.begin(&Who::Anonymous, id, 4, false, vec![], vec![]).unwrap() {
        Context::Incremental { wants, .. } => assert_eq!(wants.topics.len(), 1),
        Context::Full { .. } => panic!("gone"),
    }
}

#[test]
fn a_partition_named_twice_is_one() {
    let wants = Wants::new(vec![topic("a", &[1, 0]), topic("b", &[5]), topic("a", &[2, 1, 1])]);
    let names: Vec<_> = wants
        .partitions
        .iter()
        .map(|p| (wants.topics[p.topic].name.clone(), p.partition))
        .collect();
    assert_eq!(names, named(&[("a", 1), ("a", 0), ("b", 5), ("a", 2)]));
}

#[test]
fn a_session_is_not_there_for_other_users() {
    let user = |id| {
        Who::User(Principal {
            name: "u".into(),
            id: UserId(id),
            credential: 1,
        })
    };
    let sessions = FetchSessions::new(10);
    let id = match sessions
        .begin(&user(1), 0, 0, false, vec![topic("a", &[0])], vec![])
        .unwrap()
    {
        Context::Full { wants, session } => {
            let session = session.unwrap();
            let id = session.number;
            session.put_back(wants);
            id
        }
        Context::Incremental { .. } => panic!("a session begins in full"),
    };
    for other in [user(2), Who::Anonymous] {
        assert_eq!(
            sessions.begin(&other, id, 1, false, vec![], vec![]).err(),
            Some(ResponseError::FetchSessionIdNotFound)
        );
        // Nor may they end it.
        let _ = sessions.begin(&other, id, -1, false, vec![topic("a", &[0])], vec![]);
    }
    assert!(sessions.begin(&user(1), id, 1, false, vec![], vec![]).is_ok());
}
