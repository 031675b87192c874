//! Every bound of the system in one place, named after what it bounds and in which unit.
//!
//! A bound an operator can set is a configuration key (`config`); what stands here is its default
//! or a bound nobody sets. Bounds that lean on one another are tied by `const` assertions.

// What a client may send (clarifications, section 1).

/// Payload bytes of one client message, all its fragments together. Exactly this many are accepted.
pub const CLIENT_MESSAGE_BYTES_MAX: usize = 1 << 20;
/// Nesting of a client's JSON document; this depth is accepted, one deeper is not.
pub const JSON_DEPTH_MAX: usize = 128;
/// Patterns of one `set_policy`.
pub const POLICY_PATTERNS_MAX: usize = 128;
/// Unicode scalar values of one policy pattern.
pub const POLICY_PATTERN_CHARS_MAX: usize = 256;
/// Characters of an agent id.
pub const SESSION_ID_CHARS_MAX: usize = 128;
/// Roles that clients may have pointed at a model, for the service or for one agent.
pub const ROLES_MAX: usize = 256;
/// Bytes of a role's name.
pub const ROLE_BYTES_MAX: usize = 256;
/// Bytes of a request head, from the first to the blank line.
pub const REQUEST_HEAD_BYTES_MAX: usize = 8 * 1024;

// What an operator may configure (design/interface).

/// Bytes of a bearer token; with the rest of a request head it fits `REQUEST_HEAD_BYTES_MAX`.
pub const TOKEN_BYTES_MAX: usize = 1024;
/// The longest duration that can be configured, in seconds: a year. Longer ones are slips.
pub const WAIT_S_MAX: u64 = 365 * 24 * 3600;
/// Characters of a tool's name.
pub const TOOL_NAME_CHARS_MAX: usize = 128;
/// The largest `max_output_bytes` of a tool.
pub const TOOL_OUTPUT_BYTES_MAX: usize = 1 << 20;
/// Characters of one piece of a scripted `text`.
pub const SCRIPT_PIECE_CHARS: usize = 8;

// What the log holds (design/log-format).

/// Bytes of one event's line.
pub const EVENT_BYTES_MAX: usize = 8 << 20;
/// Events of one append.
pub const BATCH_EVENTS_MAX: usize = 256;
/// Bytes of one append; a single larger event goes alone.
pub const BATCH_BYTES_MAX: usize = 256 * 1024;
/// Accepted texts that may wait in one session's inbox.
pub const INBOX_TEXTS_MAX: usize = 1024;
/// Bytes of text that may wait in one session's inbox.
pub const INBOX_BYTES_MAX: usize = 8 << 20;
/// Bytes of one session's inbox file; a longer one is written anew without what is spent.
pub const INBOX_FILE_BYTES_MAX: usize = 64 << 20;
/// A history of so many bytes is looked for in at most this many times as many bytes of log: what
/// lies between, chunks above all, is read over.
pub const HISTORY_SCAN_FACTOR: usize = 16;

/// Old segments of a session that one job removes.
pub const REMOVALS_MAX: usize = 256;
/// Sessions that one job of the sweep looks at for old segments.
pub const SWEEP_SESSIONS_MAX: usize = 64;
/// Between two jobs of a sweep through the sessions.
pub const SWEEP_S: u64 = 60;
/// From the end of one sweep to the beginning of the next: what is kept is counted in days.
pub const SWEEP_ROUND_S: u64 = 3600;

// What a turn may grow to (clarifications, section 4).

/// Steps of one turn; a further one fails it.
pub const TURN_STEPS_MAX: u32 = 25;
/// Text and arguments of one step's answer, together.
pub const STEP_BYTES_MAX: usize = 4 << 20;
/// Tool calls of one step.
pub const STEP_CALLS_MAX: usize = 128;

// What the turn machine lets through, so that every event it makes fits its line.

/// Text and arguments of one step's answer as they stand inside its event.
pub const STEP_JSON_BYTES_MAX: usize = 6 << 20;
/// A tool call's id, and its name.
pub const CALL_NAME_BYTES_MAX: usize = 1024;
/// A tool's result as it stands inside its event.
pub const TOOL_RESULT_BYTES_MAX: usize = 7 << 20;

// What a model provider may send (clarifications, section 4).

/// One line of a server-sent event stream.
pub const SSE_LINE_BYTES_MAX: usize = 1 << 20;
/// A response head.
pub const RESPONSE_HEAD_BYTES_MAX: usize = 64 * 1024;
/// The line that says how long a chunk of a body is, with its extensions.
pub const CHUNK_LINE_BYTES_MAX: usize = 4 * 1024;
/// How much of an error body is read.
pub const ERROR_BODY_BYTES_MAX: usize = 4 * 1024;

/// A whole answer that came as one JSON document instead of a stream.
pub const WHOLE_ANSWER_BYTES_MAX: usize = 2 * STEP_BYTES_MAX;
/// Text of one piece of an answer; a provider's longer ones are cut.
pub const TEXT_PIECE_BYTES_MAX: usize = 64 * 1024;
/// How much is quoted of arguments that are no JSON object.
pub const ARGS_QUOTE_CHARS_MAX: usize = 200;
/// How much of what a server said becomes part of a reason.
pub const REASON_CHARS_MAX: usize = 1000;
/// Members of tool calls kept for the provider that sent them, all its calls together.
pub const KEPT_MEMBERS_BYTES_MAX: usize = 4 << 20;
/// The wait before a second attempt; it doubles with each further one.
pub const RETRY_FIRST_MS: u64 = 500;
/// The longest wait that we choose ourselves, before jitter.
pub const RETRY_LAST_MS: u64 = 60_000;
/// The longest wait that a server may ask for.
pub const RETRY_AFTER_MS_MAX: u64 = 60_000;
/// How long the end of a stream may follow its finish reason; usage comes in between.
pub const AFTER_FINISH_MS_MAX: u64 = 10_000;

// What the reactor gives away (design/architecture).

/// Bytes one source may move in one round of the reactor.
pub const ROUND_BYTES: usize = 64 * 1024;
/// Bytes one client's socket may take in one go.
pub const WRITE_BYTES: usize = 2 * BATCH_BYTES_MAX;
/// Events of one replay piece.
pub const PIECE_EVENTS_MAX: u32 = 1024;
/// Bytes of one replay piece; a single larger event goes alone.
pub const PIECE_BYTES_MAX: usize = 256 * 1024;
/// Spaces of pieces that are kept to be used again.
pub const SPARE_PIECES_MAX: usize = 4;
/// A ring that holds less than this asks for the next replay piece.
pub const RING_LOW_WATER_BYTES: usize = 64 * 1024;
/// Unsent protocol frames (errors, pongs) beyond which a peer is not read.
pub const PROTOCOL_BYTES_MAX: usize = 64 * 1024;
/// Provider bytes that may wait for their agent before the provider is no longer read.
pub const UPSTREAM_BYTES_MAX: usize = 256 * 1024;
/// Bytes of client frames that may wait for their agent before its client is no longer read.
pub const MAILBOX_FRAME_BYTES_MAX: usize = 256 * 1024;
/// What each waiting client frame counts for beyond its text.
pub const FRAME_ALLOWANCE_BYTES: usize = 256;
/// Agents with nothing to do that stay in memory, so that their next text finds them there.
pub const IDLE_RESIDENTS_MAX: usize = 1024;
/// Connections accepted in one round before others get their turn.
pub const ACCEPTS_PER_ROUND: usize = 256;
/// TLS handshakes moved on in one round: each step is up to half a millisecond of arithmetic.
pub const HANDSHAKES_PER_ROUND: usize = 32;
/// The backlog asked of the kernel, which cuts it to its own bound.
pub const LISTEN_BACKLOG: i32 = 4096;
/// Descriptors kept for what is neither a connection nor a log: the poll, the lock, workers' reads.
pub const DESCRIPTORS_RESERVED: usize = 32;
/// Logs that hold a descriptor at once, even where the limit allows more.
pub const OPEN_FILES_MAX: usize = 4096;
/// Workers when the configuration names no number, on a machine of few cores.
pub const WORKERS_DEFAULT_MIN: usize = 4;
/// Answers of short jobs that a worker announces together while more jobs wait.
pub const ANSWERS_UNHEARD_MAX: usize = 32;
/// A handshake must be complete after this long.
pub const HANDSHAKE_S: u64 = 10;
/// A close must be answered after this long.
pub const CLOSE_S: u64 = 5;
/// A peer that takes no byte of a ring that is not empty is dropped after this long.
pub const STALLED_READER_S: u64 = 600;
/// Heartbeats a silent peer may miss.
pub const HEARTBEATS_MISSED_MAX: u64 = 3;
/// How long a tool may take to end after SIGTERM before it gets SIGKILL.
pub const TOOL_END_S: u64 = 2;
/// How long an ending server waits for processes that it has killed.
pub const TOOLS_KILLED_MS: u64 = 200;
/// How much is kept of what a tool writes to standard error: its end.
pub const TOOL_ERRORS_BYTES_MAX: usize = 4 * 1024;
/// How much may stand in a pipe whose writer has ended: the kernel's bound for one that is not root's.
pub const PIPE_BYTES_MAX: usize = 1 << 20;
/// How often it is looked whether a group of processes that outlived its tool is still there.
pub const GROUP_LOOK_MS: u64 = 1000;
/// The same while the server waits for nothing else.
pub const GROUP_LOOK_STOPPING_MS: u64 = 20;
/// How long a resolved name is remembered.
pub const NAME_CACHE_S: u64 = 60;

const _: () = assert!(2 * TOKEN_BYTES_MAX <= REQUEST_HEAD_BYTES_MAX);
// A tool's output, escaped at worst sixfold, still fits one event.
const _: () = assert!(TOOL_OUTPUT_BYTES_MAX * 6 + 4096 <= EVENT_BYTES_MAX);
const _: () = assert!(BATCH_BYTES_MAX <= EVENT_BYTES_MAX);
// Tools are ended, the hard way too, before a stopping server has waited long enough.
const _: () = assert!(TOOL_END_S < CLOSE_S);
const _: () = assert!(CLIENT_MESSAGE_BYTES_MAX < INBOX_BYTES_MAX);
// All texts that may wait, escaped at worst sixfold, fit an inbox file that was just written anew.
const _: () = assert!(INBOX_BYTES_MAX * 6 + INBOX_TEXTS_MAX * 256 <= INBOX_FILE_BYTES_MAX);
// A client's text, escaped at worst sixfold, still fits one event with its envelope.
const _: () = assert!(CLIENT_MESSAGE_BYTES_MAX * 6 + 4096 <= EVENT_BYTES_MAX);
// So does a step's text with its arguments in the message that repeats them: see `agent`.
const _: () = assert!(STEP_BYTES_MAX < EVENT_BYTES_MAX);
// A step's message with the ids and names of its calls fits one event.
const _: () = assert!(
    STEP_JSON_BYTES_MAX + STEP_CALLS_MAX * (12 * CALL_NAME_BYTES_MAX + 64) + 4096
        <= EVENT_BYTES_MAX
);
const _: () = assert!(STEP_BYTES_MAX <= STEP_JSON_BYTES_MAX);
// So does a result, and a call denied with the longest reason.
const _: () = assert!(TOOL_OUTPUT_BYTES_MAX * 6 <= TOOL_RESULT_BYTES_MAX);
const _: () = assert!(TOOL_RESULT_BYTES_MAX + 6 * CALL_NAME_BYTES_MAX + 4096 <= EVENT_BYTES_MAX);
const _: () =
    assert!(CLIENT_MESSAGE_BYTES_MAX * 6 + 12 * CALL_NAME_BYTES_MAX + 4096 <= EVENT_BYTES_MAX);
// A piece of a provider's text, escaped at worst sixfold, is a small part of an event.
const _: () = assert!(TEXT_PIECE_BYTES_MAX * 6 + 4096 <= EVENT_BYTES_MAX);
