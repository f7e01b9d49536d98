use super::*;
use proptest::prelude::*;

const LIMITS: CommandLimits = CommandLimits {
    bytes: 1 << 20,
    arguments: 1000,
};

type Read = Result<Vec<Vec<Vec<u8>>>, Malformed>;

fn own(command: &Command) -> Vec<Vec<u8>> {
    command.from(0).map(<[u8]>::to_vec).collect()
}

/// Reads what comes in these pieces.
fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>, limits: CommandLimits) -> Read {
    let (mut decoder, mut buffer) = (Decoder::default(), BytesMut::new());
    let mut commands = Vec::new();
    for piece in pieces {
        buffer.extend_from_slice(piece);
        while let Some(command) = decoder.next(&mut buffer, limits)? {
            commands.push(own(&command));
        }
    }
    Ok(commands)
}

fn whole(bytes: &[u8]) -> Read {
    read([bytes], LIMITS)
}

fn command(words: &[&str]) -> Vec<Vec<u8>> {
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

fn encode(arguments: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", arguments.len()).into_bytes();
    for argument in arguments {
        out.extend_from_slice(format!("${}\r\n", argument.len()).as_bytes());
        out.extend_from_slice(argument);
        out.extend_from_slice(b"\r\n");
    }
    out
}

#[test]
fn arrays_lines_and_nothing_at_all_come_in_any_mixture() {
    let bytes =
        b"*1\r\n$4\r\nPING\r\n\r\n*0\r\n*-1\r\nECHO  \"a b\\x41\\n\" 'it\\'s'\n\n*2\r\n$4\r\nECHO\r\n$0\r\n\r\n";
    let expected = vec![
        command(&["PING"]),
        command(&["ECHO", "a bA\n", "it's"]),
        command(&["ECHO", ""]),
    ];
    assert_eq!(whole(bytes), Ok(expected.clone()));
    for at in 0..=bytes.len() {
        let (before, after) = bytes.split_at(at);
        assert_eq!(read([before, after], LIMITS), Ok(expected.clone()), "split at {at}");
    }
    assert_eq!(read(bytes.chunks(1), LIMITS), Ok(expected), "byte by byte");
}

#[test]
fn what_is_no_command_is_refused_in_the_words_of_redis() {
    for (bytes, says) in [
        (&b"*x\r\n"[..], Malformed::Count),
        (b"*\r\n", Malformed::Count),
        (b"*+1\r\n", Malformed::Count),
        (b"*01\r\n", Malformed::Count),
        (b"*-0\r\n", Malformed::Count),
        (b"*1\n", Malformed::Count),
        (b"*00000000000000000000001\r\n", Malformed::Count),
        (b"*9223372036854775808\r\n", Malformed::Count),
        (b"*1\r\n$-1\r\n", Malformed::Length),
        (b"*1\r\n$9223372036854775808\r\n", Malformed::Length),
        (b"*1\r\n$ 1\r\n", Malformed::Length),
        (b"*1\r\n$01\r\n", Malformed::Length),
        (b"*1\r\n:1\r\n", Malformed::NoArgument(b':')),
        (b"*1\r\n$1\r\nabc", Malformed::NoEnd),
        (b"ECHO \"a\n", Malformed::Quotes),
        (b"ECHO \"a\"b\n", Malformed::Quotes),
        (b"ECHO 'a\n", Malformed::Quotes),
        (b"ECHO \"a\\\n", Malformed::Quotes),
        (b"\x16\x03\x01\x02\x00\x01", Malformed::Tls),
        (b"GET / HTTP/1.1\r\n", Malformed::Http),
        (b"POST / x\r\n", Malformed::Http),
        (b"Host: shop\r\n", Malformed::Http),
    ] {
        assert_eq!(whole(bytes), Err(says), "{}", bytes.escape_ascii());
    }
}

#[test]
fn claims_beyond_the_limits_are_refused_before_anything_comes() {
    let limits = CommandLimits {
        bytes: 100,
        arguments: 5,
    };
    let read = |bytes: &[u8]| read([bytes], limits);
    assert_eq!(read(b"*6\r\n"), Err(Malformed::Arguments(5)));
    assert_eq!(read(b"*9223372036854775807\r\n"), Err(Malformed::Arguments(5)));
    assert_eq!(read(b"*1\r\n$9223372036854775807\r\n"), Err(Malformed::Size(100)));
    assert_eq!(read(b"*1\r\n$90\r\n"), Err(Malformed::Size(100)));
    // Room for the arguments behind it counts, too.
    assert_eq!(read(b"*2\r\n$84\r\n"), Err(Malformed::Size(100)));
    assert_eq!(read(b"*1\r\n$89\r\n"), Ok(vec![]));
    assert_eq!(read(b"1 2 3 4 5 6\n"), Err(Malformed::Arguments(5)));
    assert_eq!(read(&[b'x'; 101]), Err(Malformed::Line));
    assert_eq!(read(b"*11111111111"), Ok(vec![]));
    assert_eq!(read(&[b'1'; 100]), Ok(vec![]));
    let number_without_end: Vec<u8> = std::iter::once(b'*').chain([b'1'; 30]).collect();
    assert_eq!(read(&number_without_end), Err(Malformed::Count));
}

#[test]
fn a_command_shows_no_more_of_itself_than_its_size() {
    let mut buffer = BytesMut::from(&b"AUTH ada s3cret\n"[..]);
    let command = Decoder::default().next(&mut buffer, LIMITS).unwrap().unwrap();
    assert!(!format!("{command:?}").contains("s3cret"));
    assert_eq!(
        (command.len(), command.get(2), command.get(3)),
        (3, Some(&b"s3cret"[..]), None)
    );
}

proptest! {
    #[test]
    fn what_is_written_is_read_however_it_is_cut(
        commands in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 1..6), 1..6),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6),
    ) {
        let bytes: Vec<u8> = commands.iter().flat_map(|command| encode(command)).collect();
        let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let pieces = ends.scan(0, |from, to| Some(&bytes[std::mem::replace(from, to)..to]));
        prop_assert_eq!(read(pieces, LIMITS), Ok(commands));
    }

    #[test]
    fn any_bytes_are_read_the_same_however_they_are_cut(
        bytes in prop::collection::vec(prop_oneof![Just(b'*'), Just(b'$'), Just(b'\r'), Just(b'\n'), Just(b'1'), Just(b'"'), any::<u8>()], 0..60),
        at in any::<prop::sample::Index>(),
    ) {
        let (before, after) = bytes.split_at(at.index(bytes.len() + 1));
        prop_assert_eq!(read([before, after], LIMITS), whole(&bytes));
    }
}
