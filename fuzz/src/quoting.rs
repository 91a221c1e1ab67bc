use pg_replication::replication::{CreateSlot, SlotKind, StartReplication};

// Names are read back by a reader of the server's own grammar (repl_scanner.l, and SplitIdentifierString for the publication):
// a double quote or an apostrophe stands for itself when it is doubled, and nothing else is special.
pub fn quoting(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let names: Vec<&str> = text.split('\n').collect();
    let &[slot, publication, option, value] = names.as_slice() else { return };
    // A server's string ends there: such a name is refused before it is sent.
    if text.contains('\0') {
        return;
    }
    let more = [(option.to_owned(), value.to_owned())];
    let command = StartReplication { slot, publication, messages: true, more: &more }.text();
    let mut rest = command.as_str();
    take(&mut rest, "START_REPLICATION SLOT ");
    assert_eq!(quoted(&mut rest, '"'), slot);
    take(&mut rest, " LOGICAL 0/0 (\"proto_version\" '1', \"publication_names\" ");
    let list = quoted(&mut rest, '\'');
    let mut list = list.as_str();
    assert_eq!((quoted(&mut list, '"').as_str(), list), (publication, ""));
    take(&mut rest, ", \"messages\" 'true', ");
    assert_eq!(quoted(&mut rest, '"'), option);
    take(&mut rest, " ");
    assert_eq!(quoted(&mut rest, '\''), value);
    assert_eq!(rest, ")");

    let command = CreateSlot { slot, kind: SlotKind::Permanent { failover: false } }.text();
    let mut rest = command.as_str();
    take(&mut rest, "CREATE_REPLICATION_SLOT ");
    assert_eq!((quoted(&mut rest, '"').as_str(), rest), (slot, " LOGICAL pgoutput NOEXPORT_SNAPSHOT"));
}

fn take(rest: &mut &str, text: &str) {
    *rest = rest.strip_prefix(text).unwrap_or_else(|| panic!("{text:?} is not at {rest:?}"));
}

fn quoted(rest: &mut &str, quote: char) -> String {
    take(rest, quote.encode_utf8(&mut [0; 4]));
    let mut text = String::new();
    loop {
        let (before, behind) = rest.split_once(quote).unwrap_or_else(|| panic!("no end of {rest:?}"));
        text.push_str(before);
        *rest = behind;
        match rest.strip_prefix(quote) {
            Some(after) => *rest = after,
            None => return text,
        }
        text.push(quote);
    }
}
