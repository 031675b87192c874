//! The README's table of bounds, row by row: each names tests that reach its bound, and each of those
//! is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The first column of each row, and the tests that go up to the bound and beyond.
const ROWS: &[(&str, &[&str])] = &[
    (
        "request head",
        &[
            "a_head_of_8_kib_passes_and_one_byte_more_is_431",
            "a_handshake_or_a_body_that_trickles_has_the_same_deadlines",
            "a_head_that_never_ends_is_closed",
        ],
    ),
    (
        "a body that a request announces",
        &["a_handshake_or_a_body_that_trickles_has_the_same_deadlines"],
    ),
    (
        "connections",
        &[
            "beyond_the_connection_limit_it_is_503",
            "beyond_the_connection_limit_it_is_503_and_beyond_twice_that_nothing",
            "two_thousand_connections_from_one_address_leave_those_who_were_in_untouched",
        ],
    ),
    ("descriptors", &["out_of_descriptors_it_rests_and_recovers"]),
    ("agents that cannot be put aside", &["beyond_max_agents_it_is_internal_and_the_others_go_on"]),
    (
        "what one connection owns beside its ring",
        &[
            "whatever_a_peer_sends_its_connection_owns_3_mib_at_most",
            "a_message_in_a_million_fragments_with_pings_between_costs_what_it_weighs",
        ],
    ),
    (
        "client message, its fragments added up",
        &[
            "a_message_of_exactly_1_mib_is_accepted_and_one_byte_more_is_not",
            "fragments_are_added_up",
            "a_huge_message_is_discarded_as_it_comes_and_answered_once",
        ],
    ),
    ("JSON depth", &["a_document_is_128_deep_at_most"]),
    ("patterns of `set_policy`", &["policy_patterns_are_bounded_in_number_and_in_characters"]),
    (
        "roles of `set_model`",
        &["a_role_has_a_name_of_256_bytes_at_most", "the_table_of_roles_is_bounded"],
    ),
    (
        "texts that wait in an inbox",
        &["a_full_inbox_refuses_the_next_text_and_loses_none", "an_inbox_is_full_by_its_bytes_too"],
    ),
    (
        "frames that wait for their agent",
        &["a_flood_of_frames_is_read_only_as_fast_as_its_agent_takes_them"],
    ),
    (
        "pongs and errors that a client does not take",
        &[
            "a_peer_that_takes_no_answers_is_not_read",
            "a_client_that_sends_nonsense_without_reading_is_not_read_and_not_buffered",
        ],
    ),
    (
        "live events that a client does not take",
        &[
            "a_slow_live_reader_gets_whole_frames_then_lagged_then_4429",
            "a_burst_does_not_make_a_steady_reader_slow",
        ],
    ),
    (
        "events of one subscribe",
        &[
            "a_truncated_replay_says_where_it_begins",
            "a_window_that_just_fits_is_not_truncated",
            "a_reader_that_falls_replay_limit_behind_the_tip_is_slow_too",
        ],
    ),
    (
        "a replay or history that a client does not take",
        &[
            "a_reader_of_a_long_replay_may_be_as_slow_as_it_likes",
            "a_slow_reader_of_a_long_replay_is_waited_for_in_bounded_memory",
            "a_slow_reader_of_the_history_costs_no_memory_either",
            "a_peer_with_something_to_take_is_not_silent_but_stalled_after_ten_minutes",
            "the_last_piece_of_a_history_may_be_taken_as_slowly_as_the_others",
        ],
    ),
    (
        "log reads at once",
        &[
            "the_gate_lets_so_many_read_at_once_and_everyone_is_served",
            "a_storm_of_replays_serves_everyone_in_full",
        ],
    ),
    (
        "silence, also of a peer that is gone without a word",
        &[
            "a_silent_peer_is_pinged_and_after_three_heartbeats_dropped",
            "a_peer_that_answers_nothing_is_dropped",
        ],
    ),
    (
        "closing",
        &[
            "a_handshake_and_a_close_have_their_deadlines",
            "a_close_of_ours_that_is_not_answered_ends_as_soon",
            "sigterm_does_not_wait_for_a_client_that_takes_nothing",
        ],
    ),
    (
        "one event",
        &[
            "a_line_beyond_the_bound_is_never_written",
            "a_result_too_large_for_its_line_becomes_an_error",
        ],
    ),
    ("steps of a turn", &["a_26th_step_fails_the_turn"]),
    (
        "text and arguments of a step; its calls",
        &[
            "a_text_beyond_4_mib_fails_the_turn_and_says_which_bound",
            "text_over_the_bound_fails_the_turn_and_stops_the_request",
            "calls_over_a_bound_fail_the_turn_and_it_says_which",
        ],
    ),
    (
        "a line of an answer; its head; an error quoted of it",
        &[
            "a_line_may_be_a_mebibyte_and_no_longer",
            "a_head_of_64_kib_is_accepted_and_one_byte_more_is_not",
            "an_error_that_does_not_end_is_judged_by_what_was_heard",
        ],
    ),
    (
        "an answer that its agent has not taken",
        &["a_provider_is_read_only_as_fast_as_its_agent_takes_it"],
    ),
    (
        "a provider's time",
        &[
            "each_silence_has_its_own_time_out",
            "the_whole_answer_counts_its_attempts_and_waits",
            "comments_are_no_progress",
        ],
    ),
    (
        "requests to a provider at once",
        &["a_provider_is_asked_no_more_at_once_than_it_takes_and_turns_wait_in_order"],
    ),
    (
        "history sent to a model",
        &["a_history_beyond_its_bound_is_cut_at_whole_turns_and_the_open_one_is_always_there"],
    ),
    ("output of a tool", &["output_is_bounded_while_it_is_read_and_cut_at_a_character"]),
    ("a tool's time", &["after_a_time_out_nothing_of_the_group_is_left"]),
    (
        "idle agents in memory",
        &["idle_agents_beyond_the_bound_leave_memory_and_come_back_on_a_text"],
    ),
    (
        "a share of one round, for each connection",
        &[
            "four_floods_at_once_leave_a_quiet_client_its_answers_within_a_few_rounds",
            "a_client_that_takes_all_that_has_gathered_is_written_to_by_shares",
            "an_answer_that_has_all_come_is_read_by_one_share_a_round",
            "a_storm_of_connections_takes_its_share_of_a_round_too",
        ],
    ),
];

#[test]
fn every_bound_in_the_readme_has_a_test_that_reaches_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let section = readme.split("\n## Bounds\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter_map(|line| line.strip_prefix("| "));
    let named: Vec<&str> = rows.skip(1).filter_map(|row| row.split(" | ").next()).collect();
    assert_eq!(named, ROWS.iter().map(|(row, _)| *row).collect::<Vec<_>>());
    let mut tests = BTreeSet::new();
    for folder in ["src", "tests/it"] {
        collect(&root.join(folder), &mut tests);
    }
    for (row, reached_by) in ROWS {
        for test in *reached_by {
            assert!(tests.contains(*test), "{row}: there is no test {test}");
        }
    }
}

/// The names of the functions that follow a `#[test]`.
fn collect(folder: &Path, tests: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, tests);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(path).unwrap();
            let after = text.split("#[test]\n").skip(1);
            let names = after.filter_map(|rest| rest.split_once("fn ")?.1.split('(').next());
            tests.extend(names.map(str::to_owned));
        }
    }
}
