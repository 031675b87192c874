//! The two kinds of time: one that only goes forward, and one that people read.
//!
//! Neither reads a clock; time enters every machine as an argument. Deadlines are made of [`Mono`]
//! alone and [`Wall`] is only ever written into a record, so a wall clock that steps back changes
//! nothing but what the record says (cases.md, 9).

use std::fmt;

/// A point on a monotonic clock, in milliseconds since the server's start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mono(pub u64);

impl Mono {
    /// The point this many milliseconds later; the end of time if there is no such point.
    #[must_use]
    pub const fn add_ms(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// The point this many seconds later; the end of time if there is no such point.
    #[must_use]
    pub const fn add_s(self, s: u64) -> Self {
        self.add_ms(s.saturating_mul(1000))
    }

    /// Milliseconds that have passed since `earlier`, 0 if it lies in the future.
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A point in civil time, in microseconds since 1970-01-01T00:00:00Z.
///
/// It is written as the contract's `at`: ISO 8601 in UTC with exactly six decimals, 27 bytes. Points
/// outside of the years 0000 to 9999 are written as the nearest point inside of them, since the
/// envelope is read back by position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Wall(pub i64);

impl Wall {
    /// Bytes of a written point.
    pub const TEXT_LEN: usize = 27;
    /// The first point that can be written, 0000-01-01T00:00:00.000000Z.
    pub const FIRST: Self = Self(days_from_civil(0, 1, 1) * DAY_US);
    /// The last point that can be written, 9999-12-31T23:59:59.999999Z.
    pub const LAST: Self = Self(days_from_civil(10_000, 1, 1) * DAY_US - 1);

    /// The written form.
    pub fn to_text(self) -> [u8; Self::TEXT_LEN] {
        let us = self.0.clamp(Self::FIRST.0, Self::LAST.0);
        let (year, month, day) = civil_from_days(us.div_euclid(DAY_US));
        let in_day = us.rem_euclid(DAY_US);
        let in_s = in_day / SECOND_US;
        let mut text = *b"0000-00-00T00:00:00.000000Z";
        for (value, places) in [
            (year, 0..4),
            (month, 5..7),
            (day, 8..10),
            (in_s / 3600, 11..13),
            (in_s / 60 % 60, 14..16),
            (in_s % 60, 17..19),
            (in_day % SECOND_US, 20..26),
        ] {
            let mut rest = value.unsigned_abs();
            for place in places.rev() {
                text[place] = b'0' + (rest % 10) as u8;
                rest /= 10;
            }
        }
        text
    }

    /// Appends the written form.
    pub fn write(self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.to_text());
    }

    /// Reads exactly the form that [`Wall::to_text`] writes: no other zone, no other precision, no
    /// date that does not exist, no leap second.
    pub fn parse(text: impl AsRef<[u8]>) -> Option<Self> {
        let text: &[u8; Self::TEXT_LEN] = text.as_ref().try_into().ok()?;
        for (place, mark) in
            [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':'), (19, b'.'), (26, b'Z')]
        {
            if text[place] != mark {
                return None;
            }
        }
        let number = |places: std::ops::Range<usize>| {
            text[places].iter().try_fold(0_i64, |value, byte| {
                byte.is_ascii_digit().then(|| value * 10 + i64::from(byte - b'0'))
            })
        };
        let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
        let (hour, minute, second) = (number(11..13)?, number(14..16)?, number(17..19)?);
        let us = number(20..26)?;
        let days = days_from_civil(year, month, day);
        // A day that does not exist (month 13, February 30) comes back as another one.
        if civil_from_days(days) != (year, month, day) || hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        Some(Self(days * DAY_US + ((hour * 60 + minute) * 60 + second) * SECOND_US + us))
    }
}

impl fmt::Display for Wall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.to_text() {
            fmt::Write::write_char(f, char::from(byte))?;
        }
        Ok(())
    }
}

const SECOND_US: i64 = 1_000_000;
const DAY_US: i64 = 86_400 * SECOND_US;

// The civil calendar counts years from March, so that the leap day is the last of its year, in eras
// of 400 years, which all have the same number of days.
const ERA_YEARS: i64 = 400;
const ERA_DAYS: i64 = 146_097;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: i64 = 719_468;

/// Days since 1970-01-01 of a date in the proleptic Gregorian calendar.
const fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(ERA_YEARS);
    let year_of_era = year.rem_euclid(ERA_YEARS);
    let month_from_march = (month + 9) % 12;
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * ERA_DAYS + day_of_era - EPOCH_DAYS
}

/// Year, month and day of a day since 1970-01-01.
const fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + EPOCH_DAYS;
    let era = days.div_euclid(ERA_DAYS);
    let day_of_era = days.rem_euclid(ERA_DAYS);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * ERA_YEARS + year_of_era + (month <= 2) as i64;
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_points_are_written_as_the_contract_has_them() {
        for (us, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (1_787_026_211_123_456, "2026-08-18T04:10:11.123456Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (4_107_542_399_999_999, "2100-02-28T23:59:59.999999Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (Wall::FIRST.0, "0000-01-01T00:00:00.000000Z"),
            (Wall::LAST.0, "9999-12-31T23:59:59.999999Z"),
        ] {
            assert_eq!(Wall(us).to_string(), text);
            assert_eq!(Wall::parse(text), Some(Wall(us)), "{text}");
        }
    }

    #[test]
    fn a_point_no_four_digit_year_holds_is_written_as_the_nearest_that_one_does() {
        assert_eq!(Wall(i64::MIN).to_string(), Wall::FIRST.to_string());
        assert_eq!(Wall(i64::MAX).to_string(), Wall::LAST.to_string());
    }

    #[test]
    fn every_day_of_eight_centuries_follows_the_one_before() {
        let (mut year, mut month, mut day) = (1600, 1, 1);
        for days in days_from_civil(1600, 1, 1)..days_from_civil(2400, 1, 1) {
            assert_eq!(civil_from_days(days), (year, month, day));
            assert_eq!(days_from_civil(year, month, day), days);
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + i64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            day += 1;
            if day > length {
                (month, day) = (month + 1, 1);
            }
            if month > 12 {
                (year, month) = (year + 1, 1);
            }
        }
    }

    #[test]
    fn any_other_spelling_of_a_point_is_refused() {
        for text in [
            "",
            "2026-08-18T04:10:11Z",
            "2026-08-18T04:10:11.123Z",
            "2026-08-18T04:10:11.1234567Z",
            "2026-08-18 04:10:11.123456Z",
            "2026-08-18T04:10:11.123456z",
            "2026-08-18T04:10:11.12345+Z",
            "2026-13-18T04:10:11.123456Z",
            "2026-00-18T04:10:11.123456Z",
            "2026-02-29T04:10:11.123456Z",
            "2026-04-31T04:10:11.123456Z",
            "2026-08-00T04:10:11.123456Z",
            "2026-08-18T24:10:11.123456Z",
            "2026-08-18T04:60:11.123456Z",
            "2026-08-18T04:10:60.123456Z",
        ] {
            assert_eq!(Wall::parse(text), None, "{text}");
        }
    }

    #[test]
    fn monotonic_sums_stop_at_the_end_of_time() {
        assert_eq!(Mono(5).add_ms(7), Mono(12));
        assert_eq!(Mono(5).add_s(7), Mono(7005));
        assert_eq!(Mono(5).add_s(u64::MAX), Mono(u64::MAX));
        assert_eq!(Mono(7).since(Mono(5)), 2);
        assert_eq!(Mono(5).since(Mono(7)), 0);
    }
}
