//! What the service is configured to do, as the workers need it. Replaced as a whole on reload.

use crate::agent::{Approval, CancelStream, Concurrency, Rules, ToolTraits};
use crate::config::{self, Config, ToolConfig};
use crate::model::Provider;
use crate::proto::http_client::InvalidHeader;
use std::collections::BTreeMap;

/// The part of the configuration that turns go by.
pub struct Settings {
    /// What the turn machine goes by.
    pub rules: Rules,
    /// The providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// Sent as the system message.
    pub system_prompt: Option<String>,
    /// How much of a session a model request carries, in bytes of its log.
    pub history_bytes: usize,
}

impl Settings {
    /// What `config` says, with the embedding program's own providers beside the configured ones.
    ///
    /// # Errors
    /// The provider whose headers cannot be sent, by name.
    pub fn new(
        config: &Config,
        mut own: BTreeMap<String, Provider>,
    ) -> Result<Self, (String, InvalidHeader)> {
        for (name, provider) in &config.providers {
            match Provider::new(provider.clone()) {
                Ok(provider) => own.insert(name.clone(), provider),
                Err(error) => return Err((name.clone(), error)),
            };
        }
        own.entry("echo".to_owned()).or_insert(Provider::Echo);
        Ok(Self::with_providers(config, own))
    }

    /// What a configuration that was read anew says. Providers stay: what was learned about them,
    /// and requests under way, belong to the running ones.
    #[must_use]
    pub fn reloaded(&self, config: &Config) -> Self {
        Self::with_providers(config, self.providers.clone())
    }

    fn with_providers(config: &Config, providers: BTreeMap<String, Provider>) -> Self {
        Self {
            rules: Rules {
                floor: config.policy.clone(),
                approvals: config.approvals,
                cancel_stream: match config.cancel_stream {
                    config::CancelStream::Abort => CancelStream::Abort,
                    config::CancelStream::Finish => CancelStream::Finish,
                },
                tools: config.tools.iter().map(|tool| (tool.name.clone(), traits(tool))).collect(),
            },
            providers,
            system_prompt: config.system_prompt.clone(),
            history_bytes: config.history_bytes,
        }
    }
}

fn traits(tool: &ToolConfig) -> ToolTraits {
    ToolTraits {
        mutating: tool.mutating,
        approval: match tool.approval {
            config::ApprovalNeed::Never => Approval::Never,
            config::ApprovalNeed::Policy => Approval::Policy,
            config::ApprovalNeed::Always => Approval::Always,
        },
        concurrency: match tool.concurrency {
            config::Concurrency::Serial => Concurrency::Serial,
            config::Concurrency::Parallel => Concurrency::Parallel,
        },
    }
}
