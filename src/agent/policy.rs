//! The rules of a deployment about tools: what is mounted, what may be called, what a human must
//! decide, what may run side by side.
//!
//! Knows no turn. The order of the checks is the machine's (clarifications, section 4: allow list,
//! known tool, arguments, approval).

use std::collections::BTreeMap;

use super::fnmatch::fnmatch;

/// What holds for every agent of a deployment until the configuration is reloaded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules {
    /// The allow list in force until a session's first `policy/updated`. Empty: every call denied.
    pub floor: Vec<String>,
    /// Whether the approvals row is mounted; without it nothing ever parks.
    pub approvals: bool,
    /// What a cancel does to an answer that is streaming.
    pub cancel_stream: CancelStream,
    /// The tools by name.
    pub tools: BTreeMap<String, ToolTraits>,
}

/// What the machine needs to know of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ToolTraits {
    /// It changes something.
    pub mutating: bool,
    /// Whether its calls need a human's decision.
    pub approval: Approval,
    /// Whether it may run beside its neighbours.
    pub concurrency: Concurrency,
}

/// When a tool's call needs a human's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Approval {
    /// Never.
    #[default]
    Never,
    /// When the tool is mutating.
    Policy,
    /// Always.
    Always,
}

/// How a tool's calls stand to their neighbours in a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Concurrency {
    /// Alone: a barrier of one.
    #[default]
    Serial,
    /// Together with the parallel calls beside it.
    Parallel,
}

/// What a cancel does to an answer that is streaming.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CancelStream {
    /// The request is aborted; what has streamed so far is the step's text.
    #[default]
    Abort,
    /// An answer that has begun is heard to its end; its calls are truncated.
    Finish,
}

impl Rules {
    /// Whether calls of this tool may run beside their neighbours. An unknown tool runs alone.
    pub fn is_parallel(&self, tool: &str) -> bool {
        self.tools.get(tool).is_some_and(|traits| traits.concurrency == Concurrency::Parallel)
    }

    /// Whether a call of a tool like this one waits for a human.
    pub fn needs_approval(&self, traits: ToolTraits) -> bool {
        self.approvals
            && match traits.approval {
                Approval::Never => false,
                Approval::Policy => traits.mutating,
                Approval::Always => true,
            }
    }
}

/// Whether any pattern of the allow list matches the tool's name.
pub fn allows(patterns: &[String], tool: &str) -> bool {
    patterns.iter().any(|pattern| fnmatch(pattern, tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_list_allows_nothing() {
        assert!(!allows(&[], "t"));
        assert!(allows(&["a".into(), "t*".into()], "tool"));
        assert!(!allows(&["a".into(), "T*".into()], "tool"));
    }

    #[test]
    fn approval_is_needed_only_where_the_row_is_mounted() {
        let rows = [
            (Approval::Never, false, false),
            (Approval::Never, true, false),
            (Approval::Policy, false, false),
            (Approval::Policy, true, true),
            (Approval::Always, false, true),
            (Approval::Always, true, true),
        ];
        for (approval, mutating, needed) in rows {
            let traits = ToolTraits { mutating, approval, ..ToolTraits::default() };
            let mounted = Rules { approvals: true, ..Rules::default() };
            assert_eq!(mounted.needs_approval(traits), needed, "{traits:?}");
            assert!(!Rules::default().needs_approval(traits), "{traits:?}");
        }
    }
}
