//! The date as templates print it: `strftime` for `strftime_now`, in UTC.

use std::fmt::Write as _;
use std::time::{SystemTime, UNIX_EPOCH};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// A moment in the calendar.
struct Date {
    year: i64,
    /// 0 to 11
    month: usize,
    /// 1 to 31
    day: i64,
    /// 1 to 366
    day_of_year: i64,
    /// 0 is Sunday
    weekday: usize,
    hour: i64,
    minute: i64,
    second: i64,
}

impl Date {
    fn new(time: SystemTime) -> Self {
        let seconds = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_secs()).unwrap_or(0),
            Err(before) => -i64::try_from(before.duration().as_secs()).unwrap_or(0),
        };
        let (days, of_day) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
        let mut year = 1970 + days.div_euclid(366);
        while days_before(year + 1) <= days {
            year += 1;
        }
        let day_of_year = days - days_before(year);
        let leap = i64::from(days_before(year + 1) - days_before(year) == 366);
        let lengths = [31, 28 + leap, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut month, mut day) = (0, day_of_year);
        while day >= lengths[month] {
            day -= lengths[month];
            month += 1;
        }
        Self {
            year,
            month,
            day: day + 1,
            day_of_year: day_of_year + 1,
            weekday: (days + 4).rem_euclid(7) as usize,
            hour: of_day / 3600,
            minute: of_day / 60 % 60,
            second: of_day % 60,
        }
    }
}

/// Days from 1970-01-01 to the first day of a year, in the Gregorian calendar.
fn days_before(year: i64) -> i64 {
    let past = year - 1;
    365 * (year - 1970) + (past.div_euclid(4) - past.div_euclid(100) + past.div_euclid(400)) - 477
}

/// Formats a moment; `None` when the format has a directive we do not know. `%-d` and its like leave out the padding.
pub(super) fn strftime(format: &str, time: SystemTime) -> Option<String> {
    let date = Date::new(time);
    let mut out = String::new();
    let mut chars = format.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        let mut directive = chars.next()?;
        let bare = directive == '-';
        if bare {
            directive = chars.next()?;
        }
        let hour12 = (date.hour + 11) % 12 + 1;
        let (number, width) = match directive {
            'Y' => (date.year, 4),
            'y' => (date.year.rem_euclid(100), 2),
            'm' => (date.month as i64 + 1, 2),
            'd' => (date.day, 2),
            'j' => (date.day_of_year, 3),
            'H' => (date.hour, 2),
            'I' => (hour12, 2),
            'M' => (date.minute, 2),
            'S' => (date.second, 2),
            _ => {
                match directive {
                    'B' => out.push_str(MONTHS[date.month]),
                    'b' | 'h' => out.push_str(&MONTHS[date.month][..3]),
                    'A' => out.push_str(DAYS[date.weekday]),
                    'a' => out.push_str(&DAYS[date.weekday][..3]),
                    'p' => out.push_str(if date.hour < 12 { "AM" } else { "PM" }),
                    'F' => out.push_str(&strftime("%Y-%m-%d", time)?),
                    'T' => out.push_str(&strftime("%H:%M:%S", time)?),
                    'Z' => out.push_str("UTC"),
                    'z' => out.push_str("+0000"),
                    '%' => out.push('%'),
                    _ => return None,
                }
                continue;
            }
        };
        let width = if bare { 0 } else { width };
        write!(out, "{number:0width$}").ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(seconds: u64, format: &str) -> String {
        strftime(format, UNIX_EPOCH + Duration::from_secs(seconds)).unwrap()
    }

    #[test]
    fn known_moments() {
        assert_eq!(at(0, "%Y-%m-%d %H:%M:%S %A"), "1970-01-01 00:00:00 Thursday");
        // From `date -u -d @N`.
        assert_eq!(at(951_782_399, "%d %b %Y %j %a"), "28 Feb 2000 059 Mon");
        assert_eq!(at(951_782_400, "%F %T %y"), "2000-02-29 00:00:00 00");
        assert_eq!(at(1_735_689_599, "%B %-d, %Y %I:%M %p %j"), "December 31, 2024 11:59 PM 366");
        assert_eq!(at(4_102_444_800, "%Y-%m-%d %A 100%%"), "2100-01-01 Friday 100%");
    }

    #[test]
    fn an_unknown_directive_is_refused() {
        assert_eq!(strftime("%Q", UNIX_EPOCH), None);
        assert_eq!(strftime("50%", UNIX_EPOCH), None);
    }
}
