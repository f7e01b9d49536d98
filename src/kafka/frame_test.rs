use super::*;
use futures::FutureExt;
use tokio::io::AsyncWriteExt;

const LIMIT: usize = 100 << 20;

struct Bench {
    reader: FrameReader,
    memory: Memory,
    pulse: Pulse,
}

fn bench() -> Bench {
    Bench {
        reader: FrameReader::new(Pool::new(64 << 20)),
        memory: Memory::new(256 << 20),
        pulse: Pulse::new(),
    }
}

impl Bench {
    async fn next<R: AsyncRead + Unpin>(&mut self, source: &mut R, limit: usize) -> Result<Frame, FrameError> {
        self.reader.next(source, limit, &self.memory, &self.pulse).await
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
        (&[0x16, 0x03, 0x01, 0x00], Some("a TLS client on a plain-text port")),
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
    bench.memory = Memory::new(TRUSTED + 10);
    let Bench { reader, memory, pulse } = &mut bench;
    let mut read = Box::pin(reader.next(&mut server, LIMIT, memory, pulse));
    assert!((&mut read).now_or_never().is_none());
    let (mut a, mut b) = (Held::default(), Held::default());
    memory.grow(&mut a, 10).now_or_never().unwrap();
    // This one goes beyond the budget, so the frame does not.
    memory.grow(&mut b, 1).now_or_never().unwrap();
    assert!(memory.grow(&mut Held::default(), 1).now_or_never().is_none());
}
