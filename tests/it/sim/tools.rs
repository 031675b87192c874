//! The tools of the embedding program: some run side by side, some need a verdict, some change
//! something, and all of them answer as chance has it.

use super::office::Office;
use super::plan::Plan;
use super::provider::Intended;
use super::random::Random;
use std::sync::{Arc, Mutex};
use terret_ws::agent::Approval;
use terret_ws::proto::payload::Content;
use terret_ws::tool::{ClosureTool, ToolCall};

/// Every tool of one seed.
pub(super) fn tools(plan: &Plan, random: &mut Random, office: &Office) -> Vec<ClosureTool> {
    let source = Arc::new(Mutex::new(random.fork()));
    let panics = plan.panics;
    let tool = |name: &str| {
        let (source, office) = (Arc::clone(&source), office.clone());
        ClosureTool::new(name, move |call: &ToolCall<'_>| {
            office.has_admitted(call);
            let choice = source.lock().expect("nothing panics while it is held").below(6);
            match choice {
                0 => Err("it broke\n".to_owned()),
                1 => Ok(Content::text("")),
                2 => Ok(Content::json("{\"a\":[1e400]}").expect("it is JSON")),
                // As a panic, but for the message to standard error.
                3 if panics => std::panic::resume_unwind(Box::new(Intended)),
                _ => Ok(Content::text(call.args)),
            }
        })
    };
    vec![
        tool("read_a").parallel(),
        tool("read_b").parallel(),
        tool("serial"),
        tool("strict").approval(Approval::Always),
        tool("parstrict").approval(Approval::Always).parallel(),
        tool("change").approval(Approval::Policy).mutating(),
    ]
}
