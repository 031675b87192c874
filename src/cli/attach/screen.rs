//! A conversation as a terminal shows it: frames in, text out.
//!
//! Knows neither the connection nor what was typed, and prints nothing itself. What came from a
//! model, a tool or another person never reaches the terminal with its control characters: they
//! could move the cursor and forge what stands there.
//!
//! Invariant: `column_zero` says whether the next character starts a line, provided that `entered`
//! is told of lines a terminal has echoed.

use std::fmt::Write as _;
use std::mem;

use crate::client::ServerFrame;
use crate::proto::payload::{Body, Call, Part, TurnStatus};

/// Turns frames into what is shown of them.
pub(super) struct Screen {
    colours: bool,
    column_zero: bool,
    /// Whether the prompt is the last thing shown.
    prompted: bool,
    /// Whether the step that runs has streamed text: then its `assistant/message` repeats it.
    streamed: bool,
    steps: u32,
    tokens: Option<(u64, u64)>,
}

/// What a frame means to whoever sits in front of it, apart from its words.
#[derive(Clone, Copy)]
enum Tone {
    Said,
    Aside,
    Asks,
    Wrong,
}

impl Screen {
    pub(super) fn new(colours: bool) -> Screen {
        Screen {
            colours,
            column_zero: true,
            prompted: false,
            streamed: false,
            steps: 0,
            tokens: None,
        }
    }

    /// What is shown of one frame; often nothing.
    pub(super) fn show(&mut self, frame: &ServerFrame) -> String {
        let mut out = String::new();
        match frame {
            ServerFrame::Event { body: Some(body), .. } => self.event(&mut out, body),
            ServerFrame::Event { kind, body: None, .. } => {
                self.line(&mut out, Tone::Aside, &format!("-- {kind}"));
            }
            ServerFrame::ReplayTruncated { requested_from_seq, from_seq } => {
                let text = format!(
                    "-- events {requested_from_seq} to {} are further back than the server \
                     replays; its GET /agents/AGENT/events has them",
                    from_seq.saturating_sub(1)
                );
                self.line(&mut out, Tone::Wrong, &text);
            }
            ServerFrame::Error { code, message } => {
                self.line(&mut out, Tone::Wrong, &format!("!! {code}: {message}"));
            }
            ServerFrame::Hello { .. } | ServerFrame::Other => {}
        }
        out
    }

    /// What invites the next line, once; what is typed behind it looks as a replay will show it.
    pub(super) fn prompt(&mut self) -> String {
        if self.prompted {
            return String::new();
        }
        let prompt = format!("{}{SAID}", self.end_line());
        (self.column_zero, self.prompted) = (false, true);
        prompt
    }

    /// A line was typed, and the terminal has shown it with its line feed.
    pub(super) fn entered(&mut self) {
        (self.column_zero, self.prompted) = (true, false);
    }

    /// The line feed that is owed before anybody else prints.
    pub(super) fn end_line(&mut self) -> &'static str {
        self.prompted = false;
        if mem::replace(&mut self.column_zero, true) { "" } else { "\n" }
    }

    fn event(&mut self, out: &mut String, body: &Body) {
        match body {
            Body::TurnStart { .. } => {
                (self.steps, self.tokens) = (0, None);
            }
            Body::StepStart { .. } => {
                self.steps += 1;
                self.streamed = false;
            }
            Body::UserMessage { text } => self.line(out, Tone::Said, &prefixed(SAID, text)),
            Body::ContextInjected { text } => self.line(out, Tone::Said, &prefixed(">> ", text)),
            Body::AssistantChunk { text } => {
                if self.prompted {
                    out.push_str(self.end_line());
                }
                self.streamed = true;
                self.column_zero = text.ends_with('\n') || (text.is_empty() && self.column_zero);
                out.push_str(&harmless(text));
            }
            Body::AssistantMessage { parts } => self.message(out, parts),
            Body::ToolCall(call) => self.line(out, Tone::Aside, &format!("  -> {}", shown(call))),
            Body::ToolResult { outcome: Ok(content), .. } => {
                let text = format!("  <- {}", excerpt(&content.to_text()));
                self.line(out, Tone::Aside, &text);
            }
            Body::ToolResult { outcome: Err(error), .. } => {
                self.line(out, Tone::Wrong, &format!("  <- error: {}", excerpt(error)));
            }
            Body::ApprovalRequested(call) => {
                // Whoever decides about a call has to see all of it.
                let Call { id, name, args } = call;
                let text = format!("  ?? {name} {args}\n     /approve {id} or /deny {id} [REASON]");
                self.line(out, Tone::Asks, &text);
            }
            Body::ApprovalResolved { call_id, verdict, reason } => {
                let (verdict, reason) = (verdict.as_str(), because(reason.as_deref()));
                self.line(out, Tone::Aside, &format!("  {verdict} {call_id}{reason}"));
            }
            Body::StepEnd { usage, .. } => {
                if let Some(usage) = usage {
                    let (read, written) = self.tokens.unwrap_or_default();
                    self.tokens = Some((
                        read.saturating_add(usage.prompt_tokens),
                        written.saturating_add(usage.completion_tokens),
                    ));
                }
            }
            Body::TurnEnd { status, reason } => self.turn_end(out, *status, reason.as_deref()),
            Body::PolicyUpdated { patterns } if patterns.is_empty() => {
                self.line(out, Tone::Aside, "-- policy: no tool is allowed");
            }
            Body::PolicyUpdated { patterns } => {
                self.line(out, Tone::Aside, &format!("-- policy: {}", patterns.join(" ")));
            }
            Body::SessionTitled { title } => {
                self.line(out, Tone::Aside, &format!("-- title: {title}"));
            }
            Body::SessionCompacted { upto_seq, .. } => {
                self.line(out, Tone::Aside, &format!("-- summarized up to event {upto_seq}"));
            }
            Body::SessionForked { from, boundary } => {
                self.line(out, Tone::Aside, &format!("-- forked from {from} at event {boundary}"));
            }
            Body::SessionCreated => {}
        }
    }

    fn message(&mut self, out: &mut String, parts: &[Part]) {
        // A replay may begin behind the chunks.
        if !self.streamed {
            for part in parts {
                if let Part::Text(text) = part {
                    self.line(out, Tone::Said, text);
                }
            }
        }
        out.push_str(self.end_line());
        self.streamed = false;
    }

    fn turn_end(&mut self, out: &mut String, status: TurnStatus, reason: Option<&str>) {
        let mut text = format!("-- {}{}", status.as_str(), because(reason));
        if self.steps > 1 {
            write!(text, ", {} steps", self.steps).expect("a String takes every character");
        }
        if let Some((read, written)) = self.tokens {
            write!(text, ", {read} + {written} tokens").expect("a String takes every character");
        }
        let wrong = matches!(status, TurnStatus::Failed | TurnStatus::Rejected);
        self.line(out, if wrong { Tone::Wrong } else { Tone::Aside }, &text);
    }

    /// A line of its own; `text` may hold several.
    fn line(&mut self, out: &mut String, tone: Tone, text: &str) {
        out.push_str(self.end_line());
        let text = harmless(text.trim_end_matches('\n'));
        let code = match tone {
            Tone::Said => "",
            Tone::Aside => "2",
            Tone::Asks => "33",
            Tone::Wrong => "31",
        };
        if self.colours && !code.is_empty() {
            writeln!(out, "\x1b[{code}m{text}\x1b[0m").expect("a String takes every character");
        } else {
            writeln!(out, "{text}").expect("a String takes every character");
        }
    }
}

fn shown(call: &Call) -> String {
    format!("{} {}", call.name, excerpt(&call.args))
}

fn because(reason: Option<&str>) -> String {
    reason.map(|reason| format!(": {reason}")).unwrap_or_default()
}

fn prefixed(mark: &str, text: &str) -> String {
    let lines: Vec<String> = text.split('\n').map(|line| format!("{mark}{line}")).collect();
    lines.join("\n")
}

/// The beginning of a text, on one line; when that is not all, with the size of the whole.
fn excerpt(text: &str) -> String {
    let mut lines = text.trim_end().lines();
    let line = lines.next().unwrap_or_default();
    let mut shown: String = line.chars().take(EXCERPT_CHARS).collect();
    if shown.len() < line.len() || lines.next().is_some() {
        write!(shown, " ... ({} bytes)", text.len()).expect("a String takes every character");
    }
    shown
}

/// Stands before what a person says to wake the agent.
const SAID: &str = "> ";

/// With its arrow and its size it fits a line of 100 columns.
const EXCERPT_CHARS: usize = 72;

/// The text without what a terminal would obey; line feeds and tabs stay.
pub(super) fn harmless(text: &str) -> String {
    let obeyed = |c: char| c.is_control() && c != '\n' && c != '\t';
    text.chars().map(|c| if obeyed(c) { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::payload::{Content, Usage, Verdict};

    fn shown_of(bodies: &[Body]) -> String {
        let mut screen = Screen::new(false);
        let mut text: String = bodies
            .iter()
            .map(|body| {
                let kind = body.kind().to_owned();
                screen.show(&ServerFrame::Event { seq: 1, kind, body: Some(body.clone()) })
            })
            .collect();
        text.push_str(screen.end_line());
        text
    }

    fn call() -> Call {
        Call { id: "c1".into(), name: "get_weather".into(), args: r#"{"city":"Oslo"}"#.into() }
    }

    fn chunk(text: &str) -> Body {
        Body::AssistantChunk { text: text.into() }
    }

    fn message(text: &str) -> Body {
        Body::AssistantMessage { parts: vec![Part::Text(text.into()), Part::ToolCall(call())] }
    }

    fn turn_end(status: TurnStatus, reason: Option<&str>) -> Body {
        Body::TurnEnd { status, reason: reason.map(str::to_owned) }
    }

    #[test]
    fn a_turn_reads_as_a_conversation() {
        let usage = Some(Usage { prompt_tokens: 10, completion_tokens: 5, cost: None });
        let text = shown_of(&[
            Body::SessionCreated,
            Body::TurnStart { agent: "agent-s1".into() },
            Body::StepStart { n: 1, model: "a/b".into() },
            Body::UserMessage { text: "how warm\nis it?".into() },
            chunk("Let me "),
            chunk("look."),
            message("Let me look."),
            Body::ToolCall(call()),
            Body::ApprovalRequested(call()),
            Body::ApprovalResolved {
                call_id: "c1".into(),
                verdict: Verdict::Approved,
                reason: None,
            },
            Body::ToolResult { id: "c1".into(), outcome: Ok(Content::text("22C\nsunny")) },
            Body::StepEnd { n: 1, usage },
            Body::StepStart { n: 2, model: "a/b".into() },
            Body::ContextInjected { text: "in short".into() },
            chunk("22C."),
            Body::StepEnd { n: 2, usage },
            turn_end(TurnStatus::Completed, None),
        ]);
        assert_eq!(
            text,
            "> how warm\n> is it?\nLet me look.\n\
             \x20 -> get_weather {\"city\":\"Oslo\"}\n\
             \x20 ?? get_weather {\"city\":\"Oslo\"}\n\
             \x20    /approve c1 or /deny c1 [REASON]\n\
             \x20 approved c1\n\
             \x20 <- 22C ... (9 bytes)\n\
             >> in short\n22C.\n-- completed, 2 steps, 20 + 10 tokens\n"
        );
    }

    #[test]
    fn what_comes_behind_a_prompt_starts_a_line() {
        let mut screen = Screen::new(false);
        let mut shown = screen.prompt() + &screen.prompt();
        screen.entered();
        for body in [chunk("a"), message("a")] {
            let kind = body.kind().to_owned();
            shown += &screen.show(&ServerFrame::Event { seq: 1, kind, body: Some(body) });
            shown += &screen.prompt();
        }
        assert_eq!(shown, "> a\n> \n> ");
    }

    #[test]
    fn a_message_whose_chunks_were_missed_is_shown_itself() {
        assert_eq!(shown_of(&[message("all of it")]), "all of it\n");
        let step = || Body::StepStart { n: 1, model: "a/b".into() };
        assert_eq!(shown_of(&[step(), chunk("a"), message("a"), step(), message("b")]), "a\nb\n");
    }

    #[test]
    fn what_went_wrong_says_why() {
        for (body, text) in [
            (turn_end(TurnStatus::Failed, Some("503 busy")), "-- failed: 503 busy\n"),
            (turn_end(TurnStatus::Cancelled, None), "-- cancelled\n"),
            (
                Body::ToolResult { id: "c1".into(), outcome: Err("no such file".into()) },
                "  <- error: no such file\n",
            ),
            (
                Body::ApprovalResolved {
                    call_id: "c1".into(),
                    verdict: Verdict::Denied,
                    reason: Some("not now".into()),
                },
                "  denied c1: not now\n",
            ),
            (Body::PolicyUpdated { patterns: vec![] }, "-- policy: no tool is allowed\n"),
        ] {
            assert_eq!(shown_of(&[body]), text);
        }
    }

    #[test]
    fn protocol_frames_that_matter_are_shown() {
        let mut screen = Screen::new(false);
        let error = ServerFrame::Error { code: "not_running".into(), message: "no turn".into() };
        assert_eq!(screen.show(&error), "!! not_running: no turn\n");
        let truncated = ServerFrame::ReplayTruncated { requested_from_seq: 0, from_seq: 7 };
        assert!(screen.show(&truncated).starts_with("-- events 0 to 6 are further back"));
        let unknown = ServerFrame::Event { seq: 1, kind: "a/b".into(), body: None };
        assert_eq!(screen.show(&unknown), "-- a/b\n");
        assert_eq!(screen.show(&ServerFrame::Other), "");
    }

    #[test]
    fn a_terminal_is_never_sent_control_characters_of_others() {
        let text = shown_of(&[
            Body::UserMessage { text: "\x1b[2J".into() },
            chunk("a\x1b]0;x\x07\tb\r\nc\u{9b}1m"),
            message("a"),
            Body::ToolResult { id: "c1".into(), outcome: Err("\x08\x08".into()) },
            turn_end(TurnStatus::Failed, Some("\x1b[31m")),
        ]);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
    }

    #[test]
    fn colours_only_where_they_are_wanted() {
        let frame = ServerFrame::Error { code: "c".into(), message: "m".into() };
        assert_eq!(Screen::new(true).show(&frame), "\x1b[31m!! c: m\x1b[0m\n");
        assert_eq!(Screen::new(false).show(&frame), "!! c: m\n");
    }

    #[test]
    fn long_arguments_and_results_are_cut() {
        let text = excerpt(&"x".repeat(EXCERPT_CHARS + 1));
        assert_eq!(text, format!("{} ... (73 bytes)", "x".repeat(EXCERPT_CHARS)));
        assert_eq!(excerpt("one line\n\n"), "one line");
        assert_eq!(excerpt(""), "");
    }

    #[test]
    fn a_call_that_waits_for_a_verdict_is_shown_whole() {
        let args = format!("{{\"path\":\"{}\"}}", "x".repeat(10 * EXCERPT_CHARS));
        let call = Call { args: args.clone().into(), ..call() };
        let text = shown_of(&[Body::ApprovalRequested(call)]);
        assert!(text.contains(&args), "{text}");
    }
}
