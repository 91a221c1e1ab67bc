use std::fmt::Write as _;

use pg_replication::wal::Lsn;

/// The protocol's number for CopyData's XLogData, with three positions in front of the pgoutput message.
const XLOG_DATA: u8 = b'w';
/// The same for a keepalive.
const KEEPALIVE: u8 = b'k';
const COPY_DATA: u8 = b'd';

/// A length of -1, which stands for NULL.
const NULL: [u8; 4] = [0xff; 4];

/// A message of PostgreSQL's protocol, without its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) tag: u8,
    pub(crate) body: Vec<u8>,
}

impl Message {
    /// Reads a whole message with its type and length.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        Self { tag: bytes[0], body: bytes[5..].to_vec() }
    }

    /// Returns the message as it is sent.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.body.len() + 4).unwrap();
        [&[self.tag], &length.to_be_bytes()[..], &self.body].concat()
    }

    /// Returns the pgoutput message in XLogData.
    pub(crate) fn pgoutput(&mut self) -> Option<&mut [u8]> {
        let is_xlog_data = self.tag == COPY_DATA && self.body.first() == Some(&XLOG_DATA);
        if is_xlog_data { self.body.get_mut(25..) } else { None }
    }

    /// Returns the message as one line of a recording. In messages of the stream, positions and times are written as
    /// numbers.
    pub(super) fn line(&self) -> String {
        let tag = char::from(self.tag);
        match (self.tag, self.body.split_first()) {
            (COPY_DATA, Some((&XLOG_DATA, rest))) if rest.len() >= 24 => {
                let [start, end, at] = [0, 8, 16].map(|place| number(&rest[place..]));
                format!("w {} {} {at} {}", Lsn::new(start), Lsn::new(end), escape(&rest[24..]))
            }
            (COPY_DATA, Some((&KEEPALIVE, rest))) if rest.len() == 17 => {
                let [end, at] = [0, 8].map(|place| number(&rest[place..]));
                format!("k {} {at} {}", Lsn::new(end), rest[16])
            }
            _ if self.body.is_empty() => tag.to_string(),
            _ => format!("{tag} {}", escape(&self.body)),
        }
    }

    /// Parses the message of such a line.
    pub(super) fn of_line(line: &str) -> Self {
        let (tag, rest) = line.split_once(' ').unwrap_or((line, ""));
        let lsn = |text: &str| text.parse::<Lsn>().unwrap().get().to_be_bytes();
        let time = |text: &str| text.parse::<u64>().unwrap().to_be_bytes();
        let (tag, body) = match tag {
            "w" => {
                let parts: Vec<&str> = rest.splitn(4, ' ').collect();
                let [start, end] = [lsn(parts[0]), lsn(parts[1])];
                (COPY_DATA, [&[XLOG_DATA], &start[..], &end, &time(parts[2]), &unescape(parts[3])].concat())
            }
            "k" => {
                let parts: Vec<&str> = rest.split(' ').collect();
                let reply = [parts[2].parse().unwrap()];
                (COPY_DATA, [&[KEEPALIVE], &lsn(parts[0])[..], &time(parts[1]), &reply].concat())
            }
            tag => (tag.as_bytes()[0], unescape(rest)),
        };
        Self { tag, body }
    }
}

/// Reads eight bytes in network order.
pub(super) fn number(bytes: &[u8]) -> u64 {
    u64::from_be_bytes(bytes[..8].try_into().unwrap())
}

/// Escapes bytes as text of one line: printable ASCII stays as it is.
pub(super) fn escape(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, tail)) = rest.split_first() {
        let zeros = rest.iter().take(9).take_while(|&&byte| byte == 0).count();
        if let Some(tail) = rest.strip_prefix(&NULL) {
            text.push_str("\\N");
            rest = tail;
            continue;
        }
        rest = if zeros > 0 { &rest[zeros..] } else { tail };
        match byte {
            b'\\' => text.push_str("\\\\"),
            0 => write!(text, "\\{zeros}").unwrap(),
            b'\n' => text.push_str("\\n"),
            b' '..=b'~' => text.push(char::from(byte)),
            _ => write!(text, "\\x{byte:02x}").unwrap(),
        }
    }
    text
}

/// Returns the bytes of such a text.
pub(super) fn unescape(text: &str) -> Vec<u8> {
    let mut rest = text.bytes();
    let mut bytes = Vec::with_capacity(text.len());
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().unwrap() {
            b'N' => bytes.extend(NULL),
            zeros @ b'1'..=b'9' => bytes.extend(std::iter::repeat_n(0, usize::from(zeros - b'0'))),
            b'n' => bytes.push(b'\n'),
            b'x' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                bytes.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
            }
            byte => bytes.push(byte),
        }
    }
    bytes
}

#[test]
fn a_line_is_read_back_as_its_message() {
    let every_byte: Vec<u8> = (0..=255).collect();
    let bodies: [&[u8]; 8] =
        [b"", b"a \\1b\\N", &every_byte, b"w", &[b'w'; 40], &[b'k'; 18], &[0xff; 11], &[0; 25]];
    for body in bodies {
        for tag in [b'd', b'D'] {
            let message = Message { tag, body: body.to_vec() };
            let line = message.line();
            assert!(!line.contains('\n') && line.is_ascii(), "{line}");
            assert_eq!(Message::of_line(&line), message, "{line}");
            assert_eq!(Message::parse(&message.bytes()), message);
        }
    }
}
