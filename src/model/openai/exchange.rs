//! One step's request to a server, carried through its attempts: connect, write, read, wait and
//! try again.
//!
//! Four time-outs of their own (issue "Real models"): until the connection stands, until the first
//! event, between two events, and for the whole answer with all its attempts. A comment, a ping and
//! the head are no event, so a server that only keeps the connection busy does not keep us.
//!
//! Invariant: a connection stands exactly in [`Phase::Connecting`] and [`Phase::Reading`]; whoever
//! leaves them while it does asks for its end first.

use std::collections::VecDeque;
use std::sync::Arc;

use super::OpenAi;
use super::answer::{Answer, Heard, Spoilt};
use super::calls::Settled;
use super::delta::{Assembler, Whole};
use super::draft::Draft;
use super::learned::{Fact, Facts};
use crate::agent::Finish;
use crate::limits::{AFTER_FINISH_MS_MAX, ERROR_BODY_BYTES_MAX};
use crate::model::call::{Action, Net, Note};
use crate::model::retry::{self, Trouble};
use crate::model::{Request, refusal};
use crate::proto::http_client::{Progress, ResponseError, ResponseParser};
use crate::proto::time::Mono;

/// One step's request to a server.
#[derive(Debug)]
pub(in crate::model) struct Exchange {
    provider: Arc<OpenAi>,
    draft: Draft,
    tools: Box<[String]>,
    seed: u64,
    /// How this call's requests are written.
    facts: Facts,
    /// What this call turned over, each once, to be remembered if it helps.
    tried: Facts,
    /// Counted from 1.
    attempt: u32,
    /// When the whole answer is overdue.
    overdue: Option<Mono>,
    /// Something of the answer itself came.
    begun: bool,
    phase: Phase,
    said: VecDeque<Action>,
}

#[derive(Debug)]
enum Phase {
    /// The next poll asks for a connection.
    Due,
    Connecting {
        deadline: Mono,
    },
    Reading(Box<Reading>),
    /// Between two attempts.
    Resting {
        until: Mono,
    },
    Over,
}

/// An answer being read.
#[derive(Debug)]
struct Reading {
    parser: ResponseParser,
    body: Body,
    deadline: Mono,
    /// An event came; then the deadline is for the next one.
    heard: bool,
}

#[derive(Debug)]
enum Body {
    /// The head is not known.
    Unknown,
    /// The beginning of an error.
    Refusal(Vec<u8>),
    /// A success.
    Answer(Box<Answer>),
}

/// Whether the connection still stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Link {
    Standing,
    Gone,
}

/// Why an attempt failed.
struct Failure {
    trouble: Trouble,
    /// May hold secrets.
    reason: String,
    /// What the reason quotes was cut off.
    cut: bool,
    context_exceeded: bool,
    /// The wait that the server asked for.
    asked_ms: Option<u64>,
}

impl Exchange {
    pub(in crate::model) fn new(
        provider: &Arc<OpenAi>,
        request: &Request<'_>,
        model: &str,
        now: Mono,
        seed: u64,
    ) -> Exchange {
        Exchange {
            draft: Draft::new(provider, request, model),
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            seed,
            facts: provider.learned.facts(),
            tried: Facts::default(),
            attempt: 1,
            overdue: provider.config.answer_timeout_s.map(|s| now.add_s(s)),
            begun: false,
            phase: Phase::Due,
            said: VecDeque::new(),
            provider: Arc::clone(provider),
        }
    }

    pub(in crate::model) fn poll(&mut self, now: Mono) -> Action {
        if self.said.is_empty() {
            self.pass_time(now);
        }
        if let Some(action) = self.said.pop_front() {
            return action;
        }
        let deadline = match &self.phase {
            Phase::Due => {
                let deadline = now.add_s(self.provider.config.connect_timeout_s);
                self.phase = Phase::Connecting { deadline };
                let body = self.draft.filled(self.facts);
                let target = self.provider.target.clone();
                return Action::Connect { target, request: self.provider.request(&body) };
            }
            Phase::Connecting { deadline } => *deadline,
            Phase::Reading(reading) => reading.deadline,
            Phase::Resting { until } => *until,
            Phase::Over => return Action::Wait(None),
        };
        Action::Wait(Some(self.overdue.map_or(deadline, |overdue| overdue.min(deadline))))
    }

    /// What does not fit the phase came late, from a connection that was given up.
    pub(in crate::model) fn feed(&mut self, now: Mono, net: Net<'_>) {
        match (&mut self.phase, net) {
            (Phase::Connecting { .. }, Net::Connected) => {
                let deadline = now.add_s(self.provider.config.first_byte_timeout_s);
                let (parser, body) = (ResponseParser::new(), Body::Unknown);
                self.phase =
                    Phase::Reading(Box::new(Reading { parser, body, deadline, heard: false }));
            }
            (Phase::Connecting { .. }, Net::Failed(why)) => {
                self.not_connected(now, Link::Gone, Trouble::NoConnection, why);
            }
            (Phase::Connecting { .. }, Net::Eof) => {
                let why = "the connection was closed";
                self.not_connected(now, Link::Gone, Trouble::NoConnection, why);
            }
            (Phase::Connecting { .. }, Net::Untrusted(why)) => {
                self.not_connected(now, Link::Gone, Trouble::Final, why);
            }
            (Phase::Reading(_), Net::Bytes(bytes)) => self.read(now, bytes),
            (Phase::Reading(reading), Net::Eof) => {
                let end = reading.parser.eof();
                self.ended(now, Link::Gone, end.err());
            }
            (Phase::Reading(_), Net::Failed(_) | Net::Untrusted(_)) => {
                self.ended(now, Link::Gone, Some(ResponseError::Truncated));
            }
            _ => {}
        }
    }

    /// Acts on a deadline that has come.
    fn pass_time(&mut self, now: Mono) {
        let config = &self.provider.config;
        if let (Some(s), Some(overdue)) = (config.answer_timeout_s, self.overdue)
            && overdue <= now
            && !matches!(self.phase, Phase::Over)
        {
            return self.stopped(now, format!("the answer took more than {s} s"));
        }
        match &self.phase {
            Phase::Connecting { deadline } if *deadline <= now => {
                let why = format!("nobody answered within {} s", config.connect_timeout_s);
                self.not_connected(now, Link::Standing, Trouble::NoConnection, &why);
            }
            Phase::Reading(reading) if reading.deadline <= now => {
                let reason = if reading.heard {
                    format!("the answer fell silent for {} s", config.silence_timeout_s)
                } else {
                    format!("no answer within {} s", config.first_byte_timeout_s)
                };
                self.stopped(now, reason);
            }
            Phase::Resting { until } if *until <= now => self.phase = Phase::Due,
            _ => {}
        }
    }

    /// A time-out after connecting, which is final; but what was heard of an error is enough to
    /// judge it, and of an answer with its finish reason nothing is missing but the formal end.
    fn stopped(&mut self, now: Mono, reason: String) {
        match &self.phase {
            Phase::Reading(reading) => match &reading.body {
                Body::Refusal(_) => self.ended(now, Link::Standing, None),
                Body::Answer(answer) if answer.is_finished() => {
                    self.ended(now, Link::Standing, None);
                }
                Body::Answer(_) | Body::Unknown => {
                    self.fail(now, Link::Standing, Failure::last(reason));
                }
            },
            Phase::Connecting { .. } => self.fail(now, Link::Standing, Failure::last(reason)),
            Phase::Due | Phase::Resting { .. } | Phase::Over => {
                self.fail(now, Link::Gone, Failure::last(reason));
            }
        }
    }

    fn not_connected(&mut self, now: Mono, link: Link, trouble: Trouble, why: &str) {
        let target = &self.provider.target;
        let reason = format!("no connection to {}:{}: {why}", target.host, target.port);
        self.fail(now, link, Failure { trouble, ..Failure::last(reason) });
    }

    fn read(&mut self, now: Mono, bytes: &[u8]) {
        let Phase::Reading(reading) = &mut self.phase else { return };
        let mut body = Vec::new();
        let progress = reading.parser.push(bytes, &mut body);
        if let (Body::Unknown, Some(status)) = (&reading.body, reading.parser.status()) {
            if (200..300).contains(&status) {
                let news = self.provider.learned.remember(self.tried, self.facts);
                let note = |fact| Note::Learned { fact, holds: self.facts.has(fact) };
                self.said.extend(news.iter().map(note).map(Action::Note));
                let assembler = Assembler::new(self.tools.clone(), self.seed);
                reading.body = Body::Answer(Box::new(Answer::new(assembler)));
            } else {
                reading.deadline = now.add_s(self.provider.config.silence_timeout_s);
                reading.body = Body::Refusal(Vec::new());
            }
        }
        match &mut reading.body {
            Body::Unknown => {}
            Body::Refusal(held) => {
                let left = ERROR_BODY_BYTES_MAX - held.len();
                held.extend_from_slice(&body[..left.min(body.len())]);
                if held.len() == ERROR_BODY_BYTES_MAX {
                    return self.ended(now, Link::Standing, None);
                }
            }
            Body::Answer(answer) => {
                let mut heard = Heard::default();
                let pushed = answer.push(&body, &mut heard);
                if heard.progress {
                    let silence_ms = self.provider.config.silence_timeout_s.saturating_mul(1000);
                    let grace_ms =
                        if answer.is_finished() { AFTER_FINISH_MS_MAX } else { u64::MAX };
                    reading.deadline = now.add_ms(silence_ms.min(grace_ms));
                    reading.heard = true;
                }
                let done = answer.is_done();
                self.say(heard);
                if let Err(spoilt) = pushed {
                    return self.spoilt(now, Link::Standing, spoilt, None);
                }
                if done {
                    return self.ended(now, Link::Standing, None);
                }
            }
        }
        match progress {
            Ok(Progress::Complete) => self.ended(now, Link::Standing, None),
            Ok(Progress::Head | Progress::Body) => {}
            Err(fault) => self.ended(now, Link::Standing, Some(fault)),
        }
    }

    /// Whether a delta has been seen.
    pub(in crate::model) fn has_begun(&self) -> bool {
        self.begun
    }

    fn say(&mut self, heard: Heard) {
        if heard.begun {
            // Nothing is retried any more, so the request is not needed again.
            self.draft = Draft::default();
            self.begun = true;
        }
        self.said.extend(heard.texts.into_iter().map(Action::Text));
    }

    /// Nothing more will be read, for a fault of the transfer or because nothing more is needed.
    fn ended(&mut self, now: Mono, link: Link, fault: Option<ResponseError>) {
        let Phase::Reading(reading) = std::mem::replace(&mut self.phase, Phase::Over) else {
            return;
        };
        let Reading { parser, body, .. } = *reading;
        match body {
            Body::Unknown => {
                let fault = fault.unwrap_or(ResponseError::Truncated);
                self.fail(now, link, Failure::transfer(fault));
            }
            Body::Refusal(held) => self.refused(now, link, &parser, &held),
            Body::Answer(answer) => {
                let mut heard = Heard::default();
                let ended = answer.end(&mut heard);
                self.say(heard);
                match ended {
                    Ok(whole) => self.finish(link, whole),
                    Err(spoilt) => self.spoilt(now, link, spoilt, fault),
                }
            }
        }
    }

    fn finish(&mut self, link: Link, whole: Whole) {
        let mut calls = Vec::with_capacity(whole.calls.len());
        for Settled { call, members } in whole.calls {
            if let (false, Ok(args)) = (members.is_empty(), &call.args) {
                self.provider.kept().keep(&call.id, &call.name, args, &members);
            }
            calls.push(call);
        }
        self.leave(link);
        self.said.push_back(Action::Finished(Finish { calls, usage: whole.usage }));
        self.phase = Phase::Over;
    }

    fn spoilt(&mut self, now: Mono, link: Link, spoilt: Spoilt, fault: Option<ResponseError>) {
        let Spoilt { trouble, reason, context_exceeded } = spoilt;
        let failure = match fault {
            // How the transfer ended says more than that something is missing.
            Some(fault) if trouble != Trouble::Final => Failure::transfer(fault),
            _ => Failure { trouble, context_exceeded, ..Failure::last(reason) },
        };
        self.fail(now, link, failure);
    }

    fn refused(&mut self, now: Mono, link: Link, head: &ResponseParser, body: &[u8]) {
        let code = head.status().expect("the head was read before its body");
        let text = String::from_utf8_lossy(body);
        let context_exceeded = code != 429 && refusal::names_context(&text);
        let header = |name: &str| head.header(name);
        let cut = body.len() >= ERROR_BODY_BYTES_MAX;
        let mut said = refusal::said(body);
        if let (true, Some(place)) = ((300..400).contains(&code), header("location")) {
            said = format!("moved to {place}");
        }
        let reason = refusal::reason(code, &said);
        if matches!(code, 400 | 422) && !context_exceeded && self.adapt(&text) {
            self.leave(link);
            self.note_retry(&reason, cut, 0);
            self.phase = Phase::Due;
            return;
        }
        let trouble = if context_exceeded {
            Trouble::Final
        } else {
            let quota_spent = refusal::names_spent_quota(&text);
            Trouble::Status { code, told: retry::told(header), quota_spent }
        };
        let last = Failure::last(reason);
        let asked_ms = retry::asked_ms(header);
        self.fail(now, link, Failure { trouble, cut, context_exceeded, asked_ms, ..last });
    }

    /// Turns over what a refusal names, once a call; the attempt does not count, because the server
    /// has only been misunderstood.
    fn adapt(&mut self, text: &str) -> bool {
        type Names = fn(&str) -> bool;
        let learnable: [(Fact, Names); 3] = [
            (Fact::RefusesStreamOptions, refusal::names_stream_options),
            (Fact::WantsNineLetterIds, refusal::names_call_ids),
            (Fact::WantsNullContent, refusal::names_content),
        ];
        let found = learnable.into_iter().find(|&(fact, names)| {
            // Of the two contents either may be the one that is refused.
            let open = fact == Fact::WantsNullContent || !self.facts.has(fact);
            open && !self.tried.has(fact) && self.draft.depends_on(fact) && names(text)
        });
        if let Some((fact, _)) = found {
            self.facts = self.facts.flipped(fact);
            self.tried = self.tried.flipped(fact);
        }
        found.is_some()
    }

    fn fail(&mut self, now: Mono, link: Link, failure: Failure) {
        self.leave(link);
        let Failure { trouble, reason, cut, context_exceeded, asked_ms } = failure;
        let left = self.provider.config.max_attempts.saturating_sub(self.attempt);
        if retry::again(trouble, self.begun, left) {
            let ms = retry::wait_ms(self.attempt, asked_ms, self.seed);
            self.note_retry(&reason, cut, ms);
            self.attempt += 1;
            self.phase = Phase::Resting { until: now.add_ms(ms) };
            return;
        }
        let reason = match (self.provider.fit_for_people(&reason, cut), self.attempt) {
            (reason, 1) => reason,
            (reason, attempt) => format!("{reason} (attempt {attempt})"),
        };
        // An answer that has begun cannot begin again with half the history.
        let context_exceeded = context_exceeded && !self.begun;
        self.said.push_back(Action::Failed { reason, context_exceeded });
        self.phase = Phase::Over;
    }

    fn note_retry(&mut self, reason: &str, cut: bool, wait_ms: u64) {
        let reason = self.provider.fit_for_people(reason, cut);
        let note = Note::Retried { reason, attempt: self.attempt, wait_ms };
        self.said.push_back(Action::Note(note));
    }

    fn leave(&mut self, link: Link) {
        if link == Link::Standing {
            self.said.push_back(Action::Disconnect);
        }
    }
}

impl Failure {
    /// One that no further attempt would change.
    fn last(reason: String) -> Failure {
        Failure {
            trouble: Trouble::Final,
            reason,
            cut: false,
            context_exceeded: false,
            asked_ms: None,
        }
    }

    fn transfer(fault: ResponseError) -> Failure {
        let trouble = match fault {
            ResponseError::NoAnswer | ResponseError::Truncated => Trouble::Lost,
            _ => Trouble::Final,
        };
        let reason = format!("the provider's answer {fault}");
        Failure { trouble, ..Failure::last(reason) }
    }
}
