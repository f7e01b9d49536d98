//! DescribeAcls (29): users, roles and grants as the rules Kafka's tools know.
//!
//! A role in the whole store is a rule on all names (`*`); one in a namespace or database is a rule on the names that begin
//! with it; a grant is a rule on the topic's name. Groups have no names that begin with anything, so rules on them say `*`
//! and hold in the user's namespaces.

use crate::auth::{Action, On};
use crate::kafka::access::Access;
use crate::kafka::call::Call;
use crate::kafka::errors;
use cluster::catalog::{Role, Scope, State, User};
use kafka_protocol::ResponseError;
use kafka_protocol::messages::describe_acls_response::{AclDescription, DescribeAclsResource};
use kafka_protocol::messages::{DescribeAclsRequest, DescribeAclsResponse};
use kafka_protocol::protocol::StrBytes;
use std::collections::BTreeMap;

/// What filters and rules share: a kind of thing that is not known, and one that stands for all.
const UNKNOWN: i8 = 0;
const ANY: i8 = 1;

/// Kafka's resource types.
const TOPIC: i8 = 2;
const GROUP: i8 = 3;
const CLUSTER: i8 = 4;
const MOST_RESOURCE: i8 = 7;

/// Kafka's pattern types.
const MATCH: i8 = 2;
const LITERAL: i8 = 3;
const PREFIXED: i8 = 4;

/// Kafka's permission types: nothing is ever denied by rule.
const ALLOW: i8 = 3;

/// Kafka's operations.
mod operation {
    pub(super) const ALL: i8 = 2;
    pub(super) const READ: i8 = 3;
    pub(super) const WRITE: i8 = 4;
    pub(super) const CREATE: i8 = 5;
    pub(super) const DELETE: i8 = 6;
    pub(super) const ALTER: i8 = 7;
    pub(super) const DESCRIBE: i8 = 8;
    pub(super) const DESCRIBE_CONFIGS: i8 = 10;
    pub(super) const ALTER_CONFIGS: i8 = 11;
    pub(super) const IDEMPOTENT_WRITE: i8 = 12;
    pub(super) const MOST: i8 = 14;
}

const ALL_NAMES: &str = "*";
const THE_CLUSTER: &str = "kafka-cluster";
const ALL_HOSTS: &str = "*";

/// What rules are about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Resource {
    kind: i8,
    name: String,
    pattern: i8,
}

impl Resource {
    fn literal(kind: i8, name: &str) -> Self {
        Self {
            kind,
            name: name.to_owned(),
            pattern: LITERAL,
        }
    }

    fn topics_beginning(name: String) -> Self {
        Self {
            kind: TOPIC,
            name,
            pattern: PREFIXED,
        }
    }
}

/// (resource, operation) pairs that a user is allowed.
type Rules = Vec<(Resource, i8)>;

/// Owners see the users of what they own.
pub(crate) async fn describe_acls(call: &Call, request: DescribeAclsRequest) -> DescribeAclsResponse {
    let state = call.view();
    if state.is_open() {
        return refused(ResponseError::SecurityDisabled, "the store is open: it has no users");
    }
    let access = Access::new(call, &state);
    if !access.may_somewhere(Action::Administer, None) {
        let error = ResponseError::ClusterAuthorizationFailed;
        return refused(
            access.refused(Action::Administer, "grants", error),
            &errors::sentence(error),
        );
    }
    let filter = match Filter::new(&request) {
        Some(filter) => filter,
        None => return refused(ResponseError::InvalidRequest, "a filter that is none"),
    };
    let mut found: BTreeMap<Resource, Vec<AclDescription>> = BTreeMap::new();
    for user in state.users().filter(|user| administers(&access, user)) {
        let principal = format!("User:{}", user.name);
        if !filter.takes_principal(&principal) {
            continue;
        }
        for (resource, operation) in rules(&state, user) {
            if filter.takes(&resource, operation) {
                found.entry(resource).or_default().push(
                    AclDescription::default()
                        .with_principal(StrBytes::from_string(principal.clone()))
                        .with_host(StrBytes::from_static_str(ALL_HOSTS))
                        .with_operation(operation)
                        .with_permission_type(ALLOW),
                );
            }
        }
    }
    let resources = found.into_iter().map(|(resource, acls)| {
        DescribeAclsResource::default()
            .with_resource_type(resource.kind)
            .with_resource_name(StrBytes::from_string(resource.name))
            .with_pattern_type(resource.pattern)
            .with_acls(acls)
    });
    DescribeAclsResponse::default()
        .with_error_message(None)
        .with_resources(resources.collect())
}

fn refused(error: ResponseError, why: &str) -> DescribeAclsResponse {
    DescribeAclsResponse::default()
        .with_error_code(error.code())
        .with_error_message(Some(StrBytes::from_string(why.to_owned())))
}

fn administers(access: &Access<'_>, user: &User) -> bool {
    let state = access.state();
    match user.scope {
        Scope::Store => access.may(Action::Administer, On::Store),
        Scope::Namespace(id) => state
            .namespace_by_id(id)
            .is_some_and(|namespace| access.may(Action::Administer, On::Namespace(namespace))),
        Scope::Database(id) => state
            .database_by_id(id)
            .is_some_and(|database| access.may(Action::Administer, On::Database(database))),
    }
}

/// What a user may do.
fn rules(state: &State, user: &User) -> Rules {
    use operation::{
        ALL, ALTER, ALTER_CONFIGS, CREATE, DELETE, DESCRIBE, DESCRIBE_CONFIGS, IDEMPOTENT_WRITE, READ, WRITE,
    };
    let mut rules = Rules::new();
    let mut allow = |resource: &Resource, operations: &[i8]| {
        rules.extend(operations.iter().map(|operation| (resource.clone(), *operation)));
    };
    let (groups, cluster) = (
        Resource::literal(GROUP, ALL_NAMES),
        Resource::literal(CLUSTER, THE_CLUSTER),
    );
    if user.granted {
        let (mut reads, mut writes) = (false, false);
        for (id, granted) in &user.grants {
            // Dropped with its grants, but for a moment.
            let Some(topic) = state.topic_by_id(*id) else { continue };
            let resource = Resource::literal(TOPIC, &topic.full_name());
            allow(&resource, &[DESCRIBE, DESCRIBE_CONFIGS]);
            if granted.read {
                allow(&resource, &[READ]);
                reads = true;
            }
            if granted.write {
                allow(&resource, &[WRITE]);
                writes = true;
            }
        }
        if reads {
            allow(&groups, &[READ, DESCRIBE]);
        }
        if writes {
            allow(&cluster, &[IDEMPOTENT_WRITE]);
        }
        return rules;
    }
    let topics = match user.scope {
        Scope::Store => Resource::literal(TOPIC, ALL_NAMES),
        Scope::Namespace(id) => match state.namespace_by_id(id) {
            Some(namespace) => Resource::topics_beginning(format!("{}.", namespace.name)),
            None => return rules,
        },
        Scope::Database(id) => {
            let database = state.database_by_id(id);
            let namespace = database.and_then(|d| state.namespace_by_id(d.namespace));
            match (namespace, database) {
                (Some(namespace), Some(database)) => {
                    Resource::topics_beginning(format!("{}.{}.", namespace.name, database.name))
                }
                _ => return rules,
            }
        }
    };
    let whole = user.scope == Scope::Store;
    match user.role {
        Role::Viewer => {
            allow(&topics, &[READ, DESCRIBE, DESCRIBE_CONFIGS]);
            allow(&groups, &[READ, DESCRIBE]);
        }
        Role::Editor => {
            allow(
                &topics,
                &[
                    READ,
                    WRITE,
                    CREATE,
                    DELETE,
                    ALTER,
                    DESCRIBE,
                    DESCRIBE_CONFIGS,
                    ALTER_CONFIGS,
                ],
            );
            allow(&groups, &[READ, DELETE, DESCRIBE]);
            allow(&cluster, &[IDEMPOTENT_WRITE]);
        }
        Role::Owner => {
            allow(&topics, &[ALL]);
            allow(&groups, &[ALL]);
            allow(&cluster, if whole { &[ALL] } else { &[IDEMPOTENT_WRITE] });
        }
    }
    match (whole, user.role) {
        (true, Role::Viewer) => allow(&cluster, &[DESCRIBE, DESCRIBE_CONFIGS]),
        (true, Role::Editor) => allow(&cluster, &[CREATE, DESCRIBE, DESCRIBE_CONFIGS]),
        _ => {}
    }
    rules
}

/// Which rules are asked for.
struct Filter<'r> {
    kind: i8,
    name: Option<&'r str>,
    pattern: i8,
    principal: Option<&'r str>,
    host: Option<&'r str>,
    operation: i8,
    permission: i8,
}

impl<'r> Filter<'r> {
    /// `None`: it names kinds that there are not.
    fn new(request: &'r DescribeAclsRequest) -> Option<Self> {
        let filter = Self {
            kind: request.resource_type_filter,
            name: request.resource_name_filter.as_deref(),
            pattern: request.pattern_type_filter,
            principal: request.principal_filter.as_deref(),
            host: request.host_filter.as_deref(),
            operation: request.operation,
            permission: request.permission_type,
        };
        let known = (UNKNOWN + 1..=MOST_RESOURCE).contains(&filter.kind)
            && (ANY..=PREFIXED).contains(&filter.pattern)
            && (ANY..=operation::MOST).contains(&filter.operation)
            && (ANY..=ALLOW).contains(&filter.permission);
        known.then_some(filter)
    }

    fn takes_principal(&self, principal: &str) -> bool {
        self.principal.is_none_or(|wanted| wanted == principal)
    }

    fn takes(&self, resource: &Resource, operation: i8) -> bool {
        let same = |wanted: i8, is: i8| wanted == ANY || wanted == is;
        same(self.kind, resource.kind)
            && same(self.operation, operation)
            && same(self.permission, ALLOW)
            && self.host.is_none_or(|host| host == ALL_HOSTS)
            && self.takes_name(resource)
    }

    /// MATCH: the rules that decide about the name; else those that say just this.
    fn takes_name(&self, resource: &Resource) -> bool {
        let pattern = matches!(self.pattern, ANY | MATCH) || self.pattern == resource.pattern;
        let Some(wanted) = self.name else { return pattern };
        let matches = match (self.pattern, resource.pattern) {
            (MATCH, PREFIXED) => wanted.starts_with(&resource.name),
            (MATCH, LITERAL) => resource.name == wanted || resource.name == ALL_NAMES,
            _ => resource.name == wanted,
        };
        pattern && matches
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> DescribeAclsRequest {
        DescribeAclsRequest::default()
            .with_resource_type_filter(ANY)
            .with_resource_name_filter(None)
            .with_pattern_type_filter(ANY)
            .with_principal_filter(None)
            .with_host_filter(None)
            .with_operation(ANY)
            .with_permission_type(ANY)
    }

    fn named(pattern: i8, name: &'static str) -> DescribeAclsRequest {
        let name = Some(StrBytes::from_static_str(name));
        request()
            .with_pattern_type_filter(pattern)
            .with_resource_name_filter(name)
    }

    #[test]
    fn a_filter_of_kinds_that_are_not_known_is_none() {
        assert!(Filter::new(&request()).is_some());
        for bad in [
            request().with_resource_type_filter(UNKNOWN),
            request().with_resource_type_filter(8),
            request().with_pattern_type_filter(UNKNOWN),
            request().with_pattern_type_filter(5),
            request().with_operation(UNKNOWN),
            request().with_operation(15),
            request().with_permission_type(UNKNOWN),
            request().with_permission_type(4),
        ] {
            assert!(Filter::new(&bad).is_none(), "{bad:?}");
        }
    }

    #[test]
    fn names_match_as_kafka_matches_them() {
        let all = Resource::literal(TOPIC, ALL_NAMES);
        let one = Resource::literal(TOPIC, "shop.orders.orders");
        let many = Resource::topics_beginning("shop.".to_owned());
        for (asked, expected) in [
            (request(), [true, true, true]),
            (request().with_pattern_type_filter(LITERAL), [true, true, false]),
            (request().with_pattern_type_filter(PREFIXED), [false, false, true]),
            (named(LITERAL, "shop.orders.orders"), [false, true, false]),
            (named(LITERAL, "*"), [true, false, false]),
            (named(PREFIXED, "shop."), [false, false, true]),
            (named(ANY, "shop."), [false, false, true]),
            (named(MATCH, "shop.orders.orders"), [true, true, true]),
            (named(MATCH, "bank.orders.orders"), [true, false, false]),
        ] {
            let filter = Filter::new(&asked).unwrap();
            let taken = [&all, &one, &many].map(|resource| filter.takes(resource, operation::READ));
            assert_eq!(taken, expected, "{asked:?}");
        }
    }

    #[test]
    fn nothing_is_denied_and_no_host_is_named() {
        let resource = Resource::literal(TOPIC, ALL_NAMES);
        let denied = request().with_permission_type(2);
        assert!(!Filter::new(&denied).unwrap().takes(&resource, operation::READ));
        let host = request().with_host_filter(Some(StrBytes::from_static_str("10.0.0.1")));
        assert!(!Filter::new(&host).unwrap().takes(&resource, operation::READ));
        let other = request().with_operation(operation::WRITE);
        assert!(!Filter::new(&other).unwrap().takes(&resource, operation::READ));
    }
}
