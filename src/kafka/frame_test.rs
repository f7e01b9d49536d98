use super::*;
use futures::FutureExt;
use tokio::io::AsyncWriteExt;

const LIMIT: usize = 100 << 20;

struct Bench {
    reader: FrameReader,
    arriving: Memory,
    whole: Memory,
    pulse: Pulse,
}

fn bench() -> Bench {
    Bench {
        reader: FrameReader::new(Pool::new(64 << 20)),
        arriving: Memory::new(256 << 20),
        whole: Memory::new(256 << 20),
        pulse: Pulse::new(true),
    }
}

impl Bench {
    async fn next<R: AsyncRead + Unpin>(&mut self, source: &mut R, limit: usize) -> Result<Frame, FrameError> {
        self.reader
            .next(source, limit, &self.arriving, &self.whole, &self.pulse)
            .await
    }
}

fn framed(content: &[u8]) -> Vec<u8> {
    let mut out = (content.len() as i32).to_be_bytes().to_vec();
    out.extend_from_slice(content);
    out
}

#[tokio::test]
async fn frames_of_all_sizes_in_chunks_of_all_sizes() {
    let sizes = [
        1usize, 3, 4, 5, 8188, 8189, 9000, 65_536, 65_537, 600_000, 2, 1_200_000, 7,
    ];
    let content = |n: usize| (0..n).map(|i| (i * 31 + n) as u8).collect::<Vec<u8>>();
    let stream: Vec<u8> = sizes.iter().flat_map(|n| framed(&content(*n))).collect();
    for chunk in [1usize, 7, 1000, 8192, 100_000, stream.len()] {
        if chunk < 7 && stream.len() > 100_000 {
            continue;
        }
        let (mut client, mut server) = tokio::io::duplex(1 << 16);
        let sent = stream.clone();
        let writer = tokio::spawn(async move {
            for part in sent.chunks(chunk) {
                client.write_all(part).await.unwrap();
            }
        });
        let mut bench = bench();
        for n in sizes {
            let frame = bench.next(&mut server, LIMIT).await.unwrap();
            assert!(frame.bytes[..] == content(n)[..], "{n} bytes in chunks of {chunk}");
        }
        assert!(matches!(bench.next(&mut server, LIMIT).await, Err(FrameError::End)));
        writer.await.unwrap();
    }
}

#[tokio::test]
async fn senseless_lengths_are_refused_with_a_hint() {
    let cases: [(&[u8], Option<&str>); 6] = [
        (&[0, 0, 0, 0], None),
        (&[0xff; 4], None),
        (&[0x7f, 0xff, 0xff, 0xff], None),
        (&[0x16, 0x03, 0x01, 0x00], Some("a TLS client on a port without TLS")),
        (b"GET / HTTP/1.1\r\n", Some("an HTTP client on the Kafka port")),
        (&[0, 8, 0, 1], None),
    ];
    for (sent, expected) in cases {
        let mut source = sent;
        match bench().next(&mut source, 512 << 10).await {
            Err(FrameError::Length { hint, .. }) => assert_eq!(hint, expected),
            _ => panic!("{sent:x?} was taken"),
        }
    }
}

#[tokio::test]
async fn a_cut_frame_is_no_frame() {
    for sent in [&[0u8][..], &[0, 0, 0, 5], &[0, 0, 0, 5, 1, 2]] {
        let mut source = sent;
        assert!(matches!(bench().next(&mut source, LIMIT).await, Err(FrameError::Cut)));
    }
}

#[tokio::test]
async fn a_claimed_length_takes_little_memory() {
    let (mut client, mut server) = tokio::io::duplex(1 << 16);
    client.write_all(&(LIMIT as i32).to_be_bytes()).await.unwrap();
    client.write_all(&[1; 1000]).await.unwrap();
    let mut bench = bench();
    bench.arriving = Memory::new(TRUSTED + 10);
    let Bench {
        reader,
        arriving,
        whole,
        pulse,
    } = &mut bench;
    let mut read = Box::pin(reader.next(&mut server, LIMIT, arriving, whole, pulse));
    assert!((&mut read).now_or_never().is_none());
    let (mut a, mut b) = (Held::default(), Held::default());
    arriving.grow(&mut a, 10).now_or_never().unwrap();
    // This one goes beyond the budget, so the frame does not.
    arriving.grow(&mut b, 1).now_or_never().unwrap();
    assert!(arriving.grow(&mut Held::default(), 1).now_or_never().is_none());
}

#[tokio::test]
async fn frames_that_never_end_do_not_keep_out_small_ones() {
    let mut bench = bench();
    bench.arriving = Memory::new(10);
    let (mut a, mut b) = (Held::default(), Held::default());
    bench.arriving.grow(&mut a, 10).now_or_never().unwrap();
    bench.arriving.grow(&mut b, 1).now_or_never().unwrap();
    let small = framed(&[7; 8000]);
    let frame = bench.next(&mut &small[..], LIMIT).now_or_never().unwrap().unwrap();
    assert_eq!(frame.bytes.len(), 8000);
}

#[tokio::test]
async fn trust_ends_where_memory_is_short() {
    let mut bench = bench();
    let large = framed(&vec![1; 4 << 20]);
    bench.next(&mut &large[..], LIMIT).await.unwrap();
    assert_eq!(bench.reader.trusted, 4 << 20);
    let (mut client, mut server) = tokio::io::duplex(1 << 16);
    client.write_all(&large[..1000]).await.unwrap();
    // Half of it is not free: a claim takes little again, though the connection sent as much before.
    bench.arriving = Memory::new(2 * TRUSTED + 1);
    let mut held = Held::default();
    bench.arriving.grow(&mut held, TRUSTED + 1).now_or_never().unwrap();
    let Bench {
        reader,
        arriving,
        whole,
        pulse,
    } = &mut bench;
    let mut read = Box::pin(reader.next(&mut server, LIMIT, arriving, whole, pulse));
    assert!((&mut read).now_or_never().is_none());
    assert!(
        arriving.longest_wait().is_none(),
        "the claim took what was left, and no more"
    );
}

#[tokio::test]
async fn a_tls_client_is_known_whatever_the_limit() {
    let hello: &[u8] = &[0x16, 0x03, 0x01, 0x02, 0x00, 0x01];
    match bench().next(&mut &hello[..], i32::MAX as usize).await {
        Err(FrameError::Length { hint: Some(hint), .. }) => assert!(hint.contains("without TLS")),
        _ => panic!("a ClientHello was taken"),
    }
}
