//! Messages of the server.

use std::fmt;

use super::{DecodeError, Frame, Reader, Shortage};

/// A message of the server that can occur on a replication connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BackendMessage<'a> {
    /// `R`
    Authentication(Authentication<'a>),
    /// `K`: process id of the session's backend.
    BackendKeyData {
        /// Process id.
        process_id: i32,
    },
    /// `S`
    ParameterStatus {
        /// Name of the parameter.
        name: &'a str,
        /// Value of the parameter.
        value: &'a str,
    },
    /// `Z`
    ReadyForQuery,
    /// `T`: names of the columns.
    RowDescription(Vec<&'a str>),
    /// `D`: the columns of a row in text form.
    DataRow(Vec<Option<&'a [u8]>>),
    /// `C`
    CommandComplete,
    /// `W`: start of streaming in both directions.
    CopyBothResponse,
    /// `d`
    CopyData(&'a [u8]),
    /// `c`
    CopyDone,
    /// `E`
    ErrorResponse(ServerError),
    /// `N`
    NoticeResponse(ServerError),
}

/// Authentication request or result of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Authentication<'a> {
    /// Successful authentication.
    Ok,
    /// Request for the password in clear text.
    CleartextPassword,
    /// Request for the password hashed with this salt.
    Md5Password([u8; 4]),
    /// Request for SASL with one of these mechanisms.
    Sasl(Vec<&'a str>),
    /// The next SASL challenge.
    SaslContinue(&'a [u8]),
    /// The last SASL message.
    SaslFinal(&'a [u8]),
    /// An authentication method that is not supported.
    Unsupported(&'static str),
}

/// An error or notice of the server.
#[derive(Debug, Clone, PartialEq, Eq, Default, thiserror::Error)]
pub struct ServerError {
    /// `ERROR`, `FATAL`, `WARNING`, … in English, never translated.
    pub severity: String,
    /// SQLSTATE.
    pub code: String,
    /// Primary message.
    pub message: String,
    /// Detail, if there is one.
    pub detail: Option<String>,
    /// Hint, if there is one.
    pub hint: Option<String>,
    /// Source file of the server that reported it. Unlike the texts, it is never translated.
    pub file: Option<String>,
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (SQLSTATE {})", self.message, self.code)?;
        self.detail.iter().chain(&self.hint).try_for_each(|more| write!(f, "; {more}"))
    }
}

impl<'a> BackendMessage<'a> {
    /// Decodes a frame.
    ///
    /// # Errors
    /// When the tag is invalid on a replication connection, or a field is truncated.
    pub fn decode(frame: Frame<'a>) -> Result<Self, DecodeError> {
        let mut reader = Reader::new("backend message", frame.body);
        Ok(match frame.tag {
            b'd' => Self::CopyData(frame.body),
            b'R' => Self::Authentication(authentication(&mut reader)?),
            b'K' => Self::BackendKeyData { process_id: reader.i32()? },
            b'S' => Self::ParameterStatus { name: reader.cstr()?, value: reader.cstr()? },
            b'Z' => Self::ReadyForQuery,
            b'T' => Self::RowDescription(row_description(&mut reader)?),
            b'D' => Self::DataRow(data_row(&mut reader)?),
            b'C' => Self::CommandComplete,
            b'W' => Self::CopyBothResponse,
            b'c' => Self::CopyDone,
            b'E' => Self::ErrorResponse(server_error(&mut reader)?),
            b'N' => Self::NoticeResponse(server_error(&mut reader)?),
            other => return Err(reader.error(Shortage::UnknownTag(other))),
        })
    }
}

fn authentication<'a>(reader: &mut Reader<'a>) -> Result<Authentication<'a>, DecodeError> {
    reader.name("Authentication");
    Ok(match reader.u32()? {
        0 => Authentication::Ok,
        2 => Authentication::Unsupported("Kerberos V5"),
        3 => Authentication::CleartextPassword,
        5 => Authentication::Md5Password(reader.u32()?.to_be_bytes()),
        7 | 8 => Authentication::Unsupported("GSSAPI"),
        9 => Authentication::Unsupported("SSPI"),
        10 => {
            let mut mechanisms = Vec::new();
            while reader.left() > 1 {
                mechanisms.push(reader.cstr()?);
            }
            Authentication::Sasl(mechanisms)
        }
        11 => Authentication::SaslContinue(reader.rest()),
        12 => Authentication::SaslFinal(reader.rest()),
        _ => Authentication::Unsupported("an unknown method"),
    })
}

fn row_description<'a>(reader: &mut Reader<'a>) -> Result<Vec<&'a str>, DecodeError> {
    reader.name("RowDescription");
    let count = usize::from(reader.u16()?);
    let mut names = Vec::with_capacity(count.min(reader.left()));
    for _ in 0..count {
        names.push(reader.cstr()?);
        // Table, column, type, length, modifier and format of the field: all results here are read as text.
        reader.bytes(18)?;
    }
    Ok(names)
}

fn data_row<'a>(reader: &mut Reader<'a>) -> Result<Vec<Option<&'a [u8]>>, DecodeError> {
    reader.name("DataRow");
    let count = usize::from(reader.u16()?);
    let mut values = Vec::with_capacity(count.min(reader.left()));
    for _ in 0..count {
        let length = reader.i32()?;
        values.push(match usize::try_from(length) {
            Ok(length) => Some(reader.bytes(length)?),
            Err(_) => None,
        });
    }
    Ok(values)
}

fn server_error(reader: &mut Reader<'_>) -> Result<ServerError, DecodeError> {
    reader.name("ErrorResponse");
    let mut error = ServerError::default();
    loop {
        let field = reader.u8()?;
        if field == 0 {
            return Ok(error);
        }
        let text = reader.cstr_lossy()?;
        match field {
            b'S' if error.severity.is_empty() => error.severity = text,
            b'V' => error.severity = text,
            b'C' => error.code = text,
            b'M' => error.message = text,
            b'D' => error.detail = Some(text),
            b'H' => error.hint = Some(text),
            b'F' => error.file = Some(text),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_frame_is_decoded_or_refused(tag in prop::sample::select(b"RKSZTDCWdcEN?".to_vec()), body: Vec<u8>) {
            drop(BackendMessage::decode(Frame { tag, body: &body }));
        }
    }

    #[test]
    fn an_error_contains_the_message_of_the_server() {
        let body = b"SERREUR\0VERROR\0C42704\0Mpublication \"p\" does not exist\0Hmake it\0Ffile.c\0\0";
        let message = BackendMessage::decode(Frame { tag: b'E', body }).unwrap();
        let BackendMessage::ErrorResponse(error) = message else { panic!("{message:?}") };
        assert_eq!((error.severity.as_str(), error.code.as_str()), ("ERROR", "42704"));
        assert_eq!(error.file.as_deref(), Some("file.c"));
        assert_eq!(error.to_string(), r#"publication "p" does not exist (SQLSTATE 42704); make it"#);
    }

    #[test]
    fn messages_are_read_as_the_manual_lays_them_out() {
        let row_description = b"\0\x02id\0\0\0\0\0\0\0\0\0\0\x19\xFF\xFF\xFF\xFF\xFF\xFF\0\0\
            plan\0\0\0\0\0\0\0\0\0\0\x19\xFF\xFF\xFF\xFF\xFF\xFF\0\0";
        let cases: [(u8, &[u8], BackendMessage<'_>); 16] = [
            (b'R', b"\0\0\0\0", BackendMessage::Authentication(Authentication::Ok)),
            (b'R', b"\0\0\0\x03", BackendMessage::Authentication(Authentication::CleartextPassword)),
            (
                b'R',
                b"\0\0\0\x05\xFF\x02\x03\x04",
                BackendMessage::Authentication(Authentication::Md5Password([0xFF, 2, 3, 4])),
            ),
            (
                b'R',
                b"\0\0\0\x0ASCRAM-SHA-256-PLUS\0SCRAM-SHA-256\0\0",
                BackendMessage::Authentication(Authentication::Sasl(vec![
                    "SCRAM-SHA-256-PLUS",
                    "SCRAM-SHA-256",
                ])),
            ),
            (b'R', b"\0\0\0\x0Br=n", BackendMessage::Authentication(Authentication::SaslContinue(b"r=n"))),
            (b'R', b"\0\0\0\x0Cv=s", BackendMessage::Authentication(Authentication::SaslFinal(b"v=s"))),
            (b'R', b"\0\0\0\x07", BackendMessage::Authentication(Authentication::Unsupported("GSSAPI"))),
            (b'K', b"\0\0\0\x2A\0\0\0\x01", BackendMessage::BackendKeyData { process_id: 42 }),
            (b'S', b"TimeZone\0UTC\0", BackendMessage::ParameterStatus { name: "TimeZone", value: "UTC" }),
            (b'Z', b"I", BackendMessage::ReadyForQuery),
            (b'T', row_description, BackendMessage::RowDescription(vec!["id", "plan"])),
            (
                b'D',
                b"\0\x03\0\0\0\x01a\xFF\xFF\xFF\xFF\0\0\0\0",
                BackendMessage::DataRow(vec![Some(b"a"), None, Some(b"")]),
            ),
            (b'C', b"SELECT 1\0", BackendMessage::CommandComplete),
            (b'W', b"\0\0\0", BackendMessage::CopyBothResponse),
            (b'd', b"any", BackendMessage::CopyData(b"any")),
            (b'c', b"", BackendMessage::CopyDone),
        ];
        for (tag, body, expected) in cases {
            assert_eq!(BackendMessage::decode(Frame { tag, body }), Ok(expected), "{:?}", char::from(tag));
        }
    }

    #[test]
    fn messages_cut_short_are_refused() {
        let cases: [(u8, &[u8]); 7] = [
            (b'R', b"\0\0\0\x05\x01\x02\x03\x04"),
            (b'K', b"\0\0\0\x2A"),
            (b'S', b"TimeZone\0UTC\0"),
            (b'T', b"\0\x01id\0\0\0\0\0\0\0\0\0\0\x19\xFF\xFF\xFF\xFF\xFF\xFF\0\0"),
            (b'D', b"\0\x02\0\0\0\x01a\0\0\0\x01b"),
            (b'E', b"SERROR\0\0"),
            (b'N', b"SNOTICE\0\0"),
        ];
        for (tag, body) in cases {
            assert!(BackendMessage::decode(Frame { tag, body }).is_ok(), "{:?}", char::from(tag));
            for end in 0..body.len() {
                let cut = BackendMessage::decode(Frame { tag, body: &body[..end] });
                assert!(cut.is_err(), "{:?} cut at {end}: {cut:?}", char::from(tag));
            }
        }
    }
}
