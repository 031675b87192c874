//! What `cargo bench --bench counts` says of counts: which growth fails, and where it is only told.

#[path = "../../benches/counts/counts.rs"]
mod counts;

use counts::{Counts, Setting, totals};

fn setting() -> Setting {
    Setting {
        rustc: "rustc 1.95.0".into(),
        libc: "glibc 2.36".into(),
        valgrind: "valgrind-3.19.0".into(),
        processor: "x86_64 sse4.2 avx2".into(),
    }
}

fn counted(setting: Setting, counts: &[(&str, u64)]) -> Counts {
    let counts = counts.iter().map(|&(name, count)| (name.to_owned(), count)).collect();
    Counts { setting, counts }
}

#[test]
fn growth_of_more_than_a_tenth_fails_and_no_other_change_does() {
    for (before, now, expected) in [
        (1000, 1110, Some("11.0 % more")),
        (1000, 1101, Some("10.1 % more")),
        (1000, 1100, None),
        (1000, 1090, None),
        (1000, 1000, None),
        (1000, 1, None),
        (3, 4, Some("33.3 % more")),
        (0, 0, None),
        (0, 1, Some("more")),
        (u64::MAX, u64::MAX, None),
    ] {
        let committed = counted(setting(), &[("ws/a", before), ("ws/b", 7)]);
        let complaints = committed.complaints(&counted(setting(), &[("ws/a", now), ("ws/b", 7)]));
        match (expected, &complaints[..]) {
            (None, []) => {}
            (Some(growth), [complaint]) => {
                let (case, what) = complaint.split_once(": ").unwrap();
                assert_eq!(case, "ws/a");
                for part in [growth, &before.to_string(), &now.to_string(), counts::HOW_TO_ACCEPT] {
                    assert!(what.contains(part), "{part}: {complaint}");
                }
            }
            _ => panic!("{before} to {now}: {complaints:?}"),
        }
    }
}

#[test]
fn growth_is_only_told_where_anything_else_may_have_caused_it() {
    assert_eq!(setting().difference(&setting()), None);
    let others = [
        Setting { rustc: "rustc 1.96.0".into(), ..setting() },
        Setting { libc: "glibc 2.41".into(), ..setting() },
        Setting { valgrind: "valgrind-3.24.0".into(), ..setting() },
        Setting { processor: "x86_64 sse4.2".into(), ..setting() },
    ];
    let committed = counted(setting(), &[("ws/a", 1000)]);
    for other in others {
        let told = setting().difference(&other).unwrap();
        assert_eq!(told.matches("(here ").count(), 1, "{told}");
        let now = counted(other, &[("ws/a", 2000)]);
        assert_eq!(committed.complaints(&now), [""; 0], "{told}");
    }
}

#[test]
fn the_committed_cases_are_the_cases_there_are_under_every_setting() {
    let committed = counted(setting(), &[("ws/a", 1), ("ws/gone", 1)]);
    for processor in [setting().processor, "aarch64".into()] {
        let now = counted(Setting { processor, ..setting() }, &[("ws/a", 1), ("ws/new", 1)]);
        let complaints = committed.complaints(&now);
        assert_eq!(complaints.len(), 2, "{complaints:?}");
        assert!(complaints[0].starts_with("ws/gone: "), "{complaints:?}");
        assert!(complaints[1].starts_with("ws/new: "), "{complaints:?}");
        assert!(complaints.iter().all(|line| line.contains(counts::HOW_TO_ACCEPT)));
    }
}

#[test]
fn a_file_is_read_as_it_was_written_and_a_malformed_one_is_refused_in_one_line() {
    let written = counted(setting(), &[("ws/a", 1000), ("log/b", 7)]);
    let text = written.to_json();
    assert_eq!(Counts::parse(&text), Ok(written));
    assert!(text.ends_with("}\n") && text.lines().any(|line| line.contains("\"log/b\": 7")));
    for malformed in [
        String::new(),
        "[]".to_owned(),
        text.replace("1000", "-1"),
        text.replace("1000", "1e3"),
        text.replace("rustc\"", "gcc\""),
        text.replace("\"counts\"", "\"count\""),
        text[..text.len() / 2].to_owned(),
        text.repeat(2),
        format!("<<<<<<< ours\n{text}"),
    ] {
        let problem = Counts::parse(&malformed).unwrap_err();
        assert_eq!(problem.lines().count(), 1, "{problem}");
    }
}

#[test]
fn what_is_committed_can_be_read() {
    let committed = Counts::parse(include_str!("../../benches/counts/counts.json")).unwrap();
    assert!(committed.counts.values().all(|&count| count > 0));
    assert_eq!(committed.complaints(&committed), [""; 0]);
}

#[test]
fn of_what_callgrind_wrote_each_return_from_a_case_counts_and_the_rest_does_not() {
    let part = |trigger: &str, total: u64| {
        format!(
            "part: 1\ndesc: Trigger: {trigger}\nevents: Ir\nsummary: 9\n\nfn=(1) a\n0 9\n\ntotals: {total}\n"
        )
    };
    let dumps = [
        "# callgrind format\nversion: 1\n".to_owned(),
        part("--dump-after=counts::measured", 81),
        part("--dump-after=counts::measured", 7011),
        part("Program termination", 5),
    ];
    assert_eq!(totals(&dumps.concat()), [81, 7011]);
    assert_eq!(totals(""), [0; 0]);
}
