//! `java.util.Date` as text, in UTC: the default time zone of a worker.

use std::io::Write as _;

use crate::column::{civil_date, civil_days};

const MILLIS_PER_DAY: i64 = 86_400_000;
pub(crate) const WEEKDAYS: [&str; 7] = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
pub(crate) const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Writes `Date.toString()`: `Tue Jan 02 03:04:05 UTC 2024`. Years before Christ have no sign, and dates before the
/// introduction of the Gregorian calendar are in the Julian one.
pub(crate) fn write_string(out: &mut Vec<u8>, millis: i64) {
    let days = millis.div_euclid(MILLIS_PER_DAY);
    let (year, month, day) = calendar_date(days);
    let weekday = name(&WEEKDAYS, (days + 4).rem_euclid(7));
    let month = name(&MONTHS, month - 1);
    let year_of_era = if year > 0 { year } else { 1 - year };
    let [hours, minutes, seconds, _] = clock(millis);
    let _infallible =
        write!(out, "{weekday} {month} {day:02} {hours:02}:{minutes:02}:{seconds:02} UTC {year_of_era}");
}

/// Writes a date as Connect's `Values` prints it: a moment before 1970-01-02 as a time, one at midnight as a date, any
/// other as a timestamp.
pub(crate) fn write_header(out: &mut Vec<u8>, millis: i64) {
    let [hours, minutes, seconds, fraction] = clock(millis);
    if millis < MILLIS_PER_DAY {
        let _infallible = write!(out, "{hours:02}:{minutes:02}:{seconds:02}.{fraction:03}Z");
        return;
    }
    let (year, month, day) = civil_date(millis / MILLIS_PER_DAY);
    let _infallible = write!(out, "{year:04}-{month:02}-{day:02}");
    if millis % MILLIS_PER_DAY != 0 {
        let _infallible = write!(out, "T{hours:02}:{minutes:02}:{seconds:02}.{fraction:03}Z");
    }
}

/// Returns year, month and day in Java's calendar: the Gregorian one since its introduction, the Julian one before.
pub(crate) const fn calendar_date(days: i64) -> (i64, i64, i64) {
    if days < civil_days(1582, 10, 15) { julian_date(days) } else { civil_date(days) }
}

/// Returns the days from the Unix epoch to a date of Java's calendar. The day may be outside of the month, as in Java's lenient
/// calendar.
pub(crate) fn calendar_days(year: i64, month: i64, day: i64) -> Option<i64> {
    let days = civil_days(year, month, 1).checked_add(day.checked_sub(1)?)?;
    if days >= civil_days(1582, 10, 15) {
        return Some(days);
    }
    julian_days(year, month).checked_add(day - 1)
}

/// Returns hours, minutes, seconds and milliseconds of the day.
pub(crate) const fn clock(millis: i64) -> [i64; 4] {
    let of_day = millis.rem_euclid(MILLIS_PER_DAY);
    [of_day / 3_600_000, of_day / 60_000 % 60, of_day / 1000 % 60, of_day % 1000]
}

fn name(names: &[&'static str], index: i64) -> &'static str {
    usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default()
}

/// Returns year, month and day in the Julian calendar, 1 BC being the year 0.
const fn julian_date(days: i64) -> (i64, i64, i64) {
    // Days since March 1st of the year -4800.
    let days = days + 2_440_588 + 32_082;
    let years = (4 * days + 3).div_euclid(1461);
    let day_of_year = days - (1461 * years).div_euclid(4);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    (years - 4800 + month_from_march / 10, month_from_march + 3 - 12 * (month_from_march / 10), day)
}

/// Returns the days from the Unix epoch to the first day of a month in the Julian calendar.
const fn julian_days(year: i64, month: i64) -> i64 {
    let (years, month_from_march) =
        if month > 2 { (year + 4800, month - 3) } else { (year + 4799, month + 9) };
    (1461 * years).div_euclid(4) + (153 * month_from_march + 2) / 5 - 32_082 - 2_440_588
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_of_dates_are_read_back() {
        for days in (-3_000_000..100_000).step_by(97).chain(-141_430..-141_420) {
            let (year, month, day) = calendar_date(days);
            assert_eq!(calendar_days(year, month, day), Some(days), "{year}-{month}-{day}");
        }
    }

    #[test]
    fn dates_print_as_java_prints_them() {
        // Seen in Debezium's records with time.precision.mode=connect.
        let cases = [
            (1_704_164_645_123, "Tue Jan 02 03:04:05 UTC 2024", "2024-01-02T03:04:05.123Z"),
            (1_704_153_600_000, "Tue Jan 02 00:00:00 UTC 2024", "2024-01-02"),
            (11_045_123, "Thu Jan 01 03:04:05 UTC 1970", "03:04:05.123Z"),
            (86_400_000, "Fri Jan 02 00:00:00 UTC 1970", "1970-01-02"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969", "23:59:59.999Z"),
            (-14_831_769_599_500, "Mon Dec 23 00:00:00 UTC 1499", "00:00:00.500Z"),
            (-12_219_724_800_000, "Sun Sep 30 00:00:00 UTC 1582", "00:00:00.000Z"),
            (-63_517_780_800_000, "Fri Mar 17 12:00:00 UTC 44", "12:00:00.000Z"),
            (253_402_300_800_000, "Sat Jan 01 00:00:00 UTC 10000", "10000-01-01"),
            (9_223_372_036_825_200, "Sun Jan 10 04:00:25 UTC 294247", "294247-01-10T04:00:25.200Z"),
            (-9_223_372_036_832_400, "Sun Dec 10 19:59:27 UTC 290303", "19:59:27.600Z"),
            (-2_147_472_692 * MILLIS_PER_DAY, "Wed Mar 02 00:00:00 UTC 5877491", "00:00:00.000Z"),
        ];
        for (millis, string, header) in cases {
            let mut written = (Vec::new(), Vec::new());
            write_string(&mut written.0, millis);
            write_header(&mut written.1, millis);
            assert_eq!((written.0.as_slice(), written.1.as_slice()), (string.as_bytes(), header.as_bytes()));
        }
    }
}
