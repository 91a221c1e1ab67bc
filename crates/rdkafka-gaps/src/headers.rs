//! The headers of a record. `rdkafka` panics at a name that is not UTF-8.

use std::ffi::CStr;
use std::ptr;

use rdkafka::bindings::{rd_kafka_header_get_all, rd_kafka_headers_t};
use rdkafka::message::{BorrowedHeaders, BorrowedMessage, Header, Headers as _, Message as _};

/// Returns the headers of a record, in their order, without those whose name is not UTF-8.
pub fn of<'m>(message: &'m BorrowedMessage<'_>) -> impl Iterator<Item = Header<'m, &'m [u8]>> {
    let headers = message.headers();
    let count = headers.map_or(0, BorrowedHeaders::count);
    (0..count).filter_map(move |index| header(headers?, index))
}

fn header(headers: &BorrowedHeaders, index: usize) -> Option<Header<'_, &[u8]>> {
    let list = ptr::from_ref(headers).cast::<rd_kafka_headers_t>();
    let (mut name, mut value, mut size) = (ptr::null(), ptr::null(), 0);
    // SAFETY: a `BorrowedHeaders` is at the address of librdkafka's list, as rdkafka makes it, and lives as long as the record.
    // The other pointers are to values of this function.
    let error = unsafe { rd_kafka_header_get_all(list, index, &raw mut name, &raw mut value, &raw mut size) };
    if error as i32 != 0 || name.is_null() {
        return None;
    }
    // SAFETY: librdkafka stores each name with a zero behind it, as long as the list.
    let name = unsafe { CStr::from_ptr(name) };
    let value = (!value.is_null()).then(|| {
        // SAFETY: the value has this many bytes, as long as the list.
        unsafe { std::slice::from_raw_parts(value.cast::<u8>(), size) }
    });
    Some(Header { key: name.to_str().ok()?, value })
}
