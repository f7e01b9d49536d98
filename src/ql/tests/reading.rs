//! What scripts read as, and what is refused, where.

use super::super::ast::*;
use super::super::*;

fn one(script: &str) -> Statement {
    let mut statements = parse(script, &Parameters::new()).unwrap_or_else(|error| panic!("{script}: {error}"));
    assert_eq!(statements.len(), 1, "{script}");
    statements.remove(0).statement
}

fn refusal(script: &str) -> Error {
    match parse(script, &Parameters::new()) {
        Ok(read) => panic!("{script} reads as {read:?}"),
        Err(error) => error,
    }
}

#[test]
fn statements_print_in_their_full_form() {
    for (source, printed) in [
        ("use namespace shop", "USE NAMESPACE shop"),
        (
            "USE NAMESPACE shop DATABASE orders;",
            "USE NAMESPACE shop DATABASE orders",
        ),
        ("use database orders", "USE DATABASE orders"),
        (
            "DEFINE NAMESPACE IF NOT EXISTS shop",
            "DEFINE NAMESPACE IF NOT EXISTS shop",
        ),
        (
            "define namespace shop acknowledge majority replication factor 3",
            "DEFINE NAMESPACE shop REPLICATION FACTOR 3 ACKNOWLEDGE MAJORITY",
        ),
        (
            "ALTER NAMESPACE shop REPLICATION NONE",
            "ALTER NAMESPACE shop REPLICATION NONE",
        ),
        (
            "DEFINE TOPIC orders max bytes 1048576 RETAIN 7d PARTITIONS 3 BY customer retain bytes 1000",
            "DEFINE TOPIC orders PARTITIONS 3 BY customer RETAIN 168h RETAIN BYTES 1000 MAX BYTES 1048576",
        ),
        ("ALTER TOPIC orders RETAIN NONE", "ALTER TOPIC orders RETAIN NONE"),
        ("ALTER TOPIC orders PARTITIONS 12", "ALTER TOPIC orders PARTITIONS 12"),
        (
            "CREATE orders = { total: 19.99, customer: \"c-42\" }",
            "CREATE orders = { customer: 'c-42', total: 19.99 }",
        ),
        ("CREATE orders:'a' = {}", "CREATE orders:'a' = {}"),
        (
            "INSERT INTO orders (customer, 'two words') VALUES ('a', 1), ('b', -2)",
            "INSERT INTO orders (customer, 'two words') VALUES ('a', 1), ('b', -2)",
        ),
        (
            "read from orders limit 5 after 3 for consumer 'kafka:billing' partition 1",
            "READ FROM orders PARTITION 1 FOR CONSUMER 'kafka:billing' AFTER 3 LIMIT 5",
        ),
        (
            "READ FROM consumer FOR CONSUMER 'c'",
            "READ FROM consumer FOR CONSUMER 'c'",
        ),
        ("DELETE FROM orders:'a'", "DELETE orders:'a'"),
        (
            "DEFINE GROUP 'g' ON TOPIC t ACK DEADLINE 30s DEAD LETTER TO dead IN FLIGHT 5 DELIVERIES 3",
            "DEFINE GROUP 'g' ON TOPIC t ACK DEADLINE 30s DELIVERIES 3 IN FLIGHT 5 DEAD LETTER TO dead",
        ),
        (
            "NACK t FOR CONSUMER 'g' AT 1, 2 DELAY 5s",
            "NACK t FOR CONSUMER 'g' AT 1, 2 DELAY 5s",
        ),
        ("ack t for consumer 'g' at 7", "ACK t FOR CONSUMER 'g' AT 7"),
        (
            "DEFINE REPLICA second AT 'db-2.internal:9180'\n CLIENTS AT 'db-2.example:9080' KAFKA AT 'db-2.example:9092'\n NODE '9f2c4e1a70bb43d5a1c6e2f480937d55' ROLES serving, coordinating",
            "DEFINE REPLICA second AT 'db-2.internal:9180' CLIENTS AT 'db-2.example:9080' KAFKA AT 'db-2.example:9092' NODE '9f2c4e1a70bb43d5a1c6e2f480937d55' ROLES serving, coordinating",
        ),
        ("ALTER REPLICA second KAFKA NONE", "ALTER REPLICA second KAFKA NONE"),
        ("ALTER REPLICA second LEADS 2", "ALTER REPLICA second LEADS 2"),
        ("DEFINE NODE ROLES none", "DEFINE NODE ROLES NONE"),
        (
            "DEFINE USER billing ON shop.orders ROLE editor PASSWORD 'secret'",
            "DEFINE USER billing ON DATABASE shop.orders ROLE editor PASSWORD '********'",
        ),
        (
            "GRANT read, write ON orders TO billing",
            "GRANT read, write ON orders TO billing",
        ),
        (
            "REVOKE write ON orders FROM billing",
            "REVOKE write ON orders FROM billing",
        ),
        ("INFO FOR TOPIC topic", "INFO FOR TOPIC topic"),
        ("INFO FOR GROUP 'kafka:g'", "INFO FOR GROUP 'kafka:g'"),
    ] {
        assert_eq!(one(source).to_string(), printed);
    }
}

#[test]
fn values_print_as_they_read() {
    for (source, printed) in [
        ("none", "NONE"),
        ("Null", "NULL"),
        ("TRUE", "true"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("1.0", "1.0"),
        ("1e3", "1000.0"),
        ("-2.5E-3", "-0.0025"),
        ("dec 12.340", "dec 12.340"),
        ("dec -1", "dec -1"),
        ("'it\\'s'", "'it\\'s'"),
        ("\"a\\\"\\n\"", "'a\"\\n'"),
        ("0xDEADbeef", "0xdeadbeef"),
        ("0x", "0x"),
        ("7d", "168h"),
        (
            "datetime '2026-10-22T11:45:47.225Z'",
            "datetime '2026-10-22T11:45:47.225Z'",
        ),
        (
            "uuid '9F2C4E1A-70BB-43D5-A1C6-E2F480937D55'",
            "uuid '9f2c4e1a-70bb-43d5-a1c6-e2f480937d55'",
        ),
        ("[1, [], {},]", "[1, [], {}]"),
        (
            "{ value: 0x776562, key: 'source', 'two words': 2, from: NONE }",
            "{ from: NONE, key: 'source', 'two words': 2, value: 0x776562 }",
        ),
        ("-- first\n1 -- then\n", "1"),
    ] {
        let value = parse_literal(source).unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(value.to_string(), printed, "{source}");
    }
}

#[test]
fn refusals_say_what_and_where() {
    for (script, sentence) in [
        (
            "SELEKT",
            "a statement (USE, DEFINE, ALTER, DROP, CREATE, INSERT, READ, INFO, ..) was expected, not `SELEKT` (at 0..6)",
        ),
        ("USE", "NAMESPACE or DATABASE was expected, not the end (at 3..3)"),
        ("USE NAMESPACE from", "a name was expected, not `from` (at 14..18)"),
        ("USE NAMESPACE é", "TessariQL was expected, not 'é' (at 14..16)"),
        (
            "USE NAMESPACE a USE NAMESPACE b",
            "`;` was expected, not `USE` (at 16..19)",
        ),
        (
            "DEFINE TOPIC t RETAIN 1d RETAIN 2d",
            "the clause RETAIN is given twice (at 32..34)",
        ),
        (
            "DEFINE TOPIC t PARTITIONS 0 BY f",
            "0 is not from 1 to 100000 (at 26..27)",
        ),
        (
            "DEFINE TOPIC t RETAIN 5",
            "a duration was expected, not a whole number (at 22..23)",
        ),
        ("CREATE t = { a: 1, a: 2 }", "the field a is given twice (at 19..20)"),
        ("CREATE t = 5", "an object was expected, not a whole number (at 11..12)"),
        ("CREATE t = { a: $x }", "the parameter $x has no value (at 16..18)"),
        (
            "CREATE t = { a: 'x\\y' }",
            "the escapes of a string are \\n \\t \\r \\0 \\\\ \\' \\\" (at 18..20)",
        ),
        ("CREATE t = { a: 'x", "the string has no end (at 16..18)"),
        (
            "CREATE t = { a: 1. }",
            "a fraction needs a digit after the dot (at 16..18)",
        ),
        (
            "CREATE t = { a: 0xabc }",
            "bytes are 0x and an even number of hexadecimal digits (at 16..21)",
        ),
        (
            "CREATE t = { a: 9223372036854775808 }",
            "the number is out of range (at 16..35)",
        ),
        ("CREATE t = { a: 1e999 }", "the number is out of range (at 16..21)"),
        (
            "CREATE t = { a: dec 1e5 }",
            "an exact decimal has up to 28 digits and no exponent (at 20..23)",
        ),
        (
            "CREATE t = { a: datetime 'today' }",
            "this is not datetime and an RFC 3339 instant, years 0 to 9999 (at 25..32)",
        ),
        (
            "INSERT INTO t (a, b) VALUES (1)",
            "the row has 1 values for 2 fields (at 29..30)",
        ),
        (
            "INSERT INTO t (a, a) VALUES (1, 2)",
            "the field a is given twice (at 18..19)",
        ),
        (
            "READ FROM t FOR CONSUMER ''",
            "a reader's name cannot be empty (at 25..27)",
        ),
        (
            "DEFINE REPLICA r ROLES serving",
            "AT and the member's address was expected, not the end (at 30..30)",
        ),
        ("DEFINE REPLICA r AT 'a:1' ROLES king", "king is not a role (at 32..36)"),
        (
            "DEFINE USER u ROLE owner PASSWORD ''",
            "a password cannot be empty (at 34..36)",
        ),
        ("COMMIT", "there is no BEGIN before this (at 0..6)"),
        ("BEGIN; BEGIN; COMMIT", "BEGIN cannot stand within BEGIN (at 7..12)"),
        (
            "BEGIN; DEFINE DATABASE d",
            "there is no COMMIT or CANCEL for this BEGIN (at 0..5)",
        ),
    ] {
        assert_eq!(refusal(script).to_string(), sentence, "{script}");
    }
}

#[test]
fn an_error_anywhere_refuses_the_whole_script() {
    let error = refusal("DEFINE NAMESPACE a; DEFINE NAMESPACE b; DEFINE NAMESPACE");
    assert_eq!(error.span, Some(Span { start: 56, end: 56 }));
}

#[test]
fn bytes_that_are_no_text_are_refused_where_they_are() {
    let error = parse_bytes(b"USE \xff\xfe", &Parameters::new()).unwrap_err();
    assert_eq!(error.to_string(), "a script is UTF-8 (at 4..5)");
}

#[test]
fn parameters_stand_where_literals_do() {
    let parameters: Parameters = [("n", "3"), ("who", "'kafka:b'"), ("v", "{ a: [1] }"), ("for", "1h")]
        .into_iter()
        .map(|(name, source)| (name.to_owned(), parse_literal(source).unwrap()))
        .collect();
    let script =
        "READ FROM t FOR CONSUMER $who LIMIT $n; CREATE t = $v; CREATE t = { x: [$v, $n] }; DEFINE TOPIC u RETAIN $for";
    let printed: Vec<String> = parse(script, &parameters)
        .unwrap()
        .iter()
        .map(|located| located.statement.to_string())
        .collect();
    assert_eq!(
        printed,
        [
            "READ FROM t FOR CONSUMER 'kafka:b' LIMIT 3",
            "CREATE t = { a: [1] }",
            "CREATE t = { x: [{ a: [1] }, 3] }",
            "DEFINE TOPIC u RETAIN 1h",
        ]
    );
    // Names are not literals, and what a parameter holds is never read as more than one.
    assert!(parse("READ FROM $who", &parameters).is_err());
    assert!(parse_literal("1; DROP TOPIC t").is_err());
}

#[test]
fn nesting_and_size_are_bounded_with_parameters_counted() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(parse_literal(&nested(MAX_DEPTH + 1)).is_ok());
    assert_eq!(
        parse_literal(&nested(MAX_DEPTH + 2)).unwrap_err().kind,
        ErrorKind::TooDeep(MAX_DEPTH)
    );
    assert_eq!(
        parse_literal(&"[".repeat(5_000_000)).unwrap_err().kind,
        ErrorKind::TooDeep(MAX_DEPTH)
    );
    let deep = Parameters::from([("p".to_owned(), parse_literal(&nested(MAX_DEPTH)).unwrap())]);
    assert!(parse("CREATE t = { a: $p }", &deep).is_ok());
    assert!(matches!(
        parse("CREATE t = { a: [$p] }", &deep).unwrap_err().kind,
        ErrorKind::TooDeep(_)
    ));

    let wide = format!("[{}]", "0,".repeat(MAX_VALUES - 1));
    let wide = Parameters::from([("p".to_owned(), parse_literal(&wide).unwrap())]);
    assert!(matches!(
        parse("CREATE t = { a: $p, b: $p }", &wide).unwrap_err().kind,
        ErrorKind::TooManyValues(_)
    ));
    let long = " ".repeat(MAX_SCRIPT + 1);
    assert!(matches!(
        parse(&long, &Parameters::new()).unwrap_err().kind,
        ErrorKind::ScriptTooLarge(_)
    ));
}

#[test]
fn spans_are_bytes_of_the_statement() {
    let script = "USE NAMESPACE a; -- é\n  READ FROM t ;";
    let read = parse(script, &Parameters::new()).unwrap();
    let texts: Vec<&str> = read.iter().map(|one| &script[one.span.start..one.span.end]).collect();
    assert_eq!(texts, ["USE NAMESPACE a", "READ FROM t"]);
}

#[test]
fn secrets_are_not_printed_nor_debugged() {
    let statement = one("DEFINE USER u ROLE owner PASSWORD 'hunter2'");
    assert!(!format!("{statement} {statement:?}").contains("hunter2"));
    let Statement::DefineUser(user) = statement else {
        panic!("DEFINE USER reads as something else")
    };
    assert_eq!(user.credential, Credential::Password(Secret::new("hunter2".to_owned())));
}

#[test]
fn a_script_is_complete_at_its_last_semicolon() {
    for complete in [
        "",
        "  -- nothing\n",
        "USE NAMESPACE a;",
        "a; b; -- end",
        "CREATE t = { a: ';' };",
        "BEGIN; a; COMMIT;",
        "é",
        "'\\x",
    ] {
        assert!(is_complete(complete), "{complete}");
    }
    for open in [
        "USE NAMESPACE a",
        "a; b",
        "CREATE t = { a: 'x;",
        "CREATE t = \"",
        "BEGIN;",
        "BEGIN; a;",
        "BEGIN; a; COMMIT",
        "-- a;\nb",
        "'a\\",
    ] {
        assert!(!is_complete(open), "{open}");
    }
}
