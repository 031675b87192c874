//! What the service is configured to do, as the workers need it. Replaced as a whole on reload.

use crate::agent::{CancelStream, Hooks, NoHooks, Rules};
use crate::config::{self, Config};
use crate::disk::Retention;
use crate::model::Provider;
use crate::proto::http_client::InvalidHeader;
use crate::tool::{ClosureTool, Registry};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The part of the configuration that turns go by.
pub struct Settings {
    /// What the turn machine goes by.
    pub rules: Rules,
    /// What the embedding program has to say about turns.
    pub hooks: Arc<dyn Hooks>,
    /// An agent's job may run code of the embedding program, which takes as long as it likes.
    pub embeds_code: bool,
    /// The providers, by name.
    pub providers: BTreeMap<String, Provider>,
    /// The tools.
    pub tools: Registry,
    /// Sent as the system message.
    pub system_prompt: Option<String>,
    /// How much of a session a model request carries, in bytes of its log.
    pub history_bytes: usize,
    /// How much of a session is kept.
    pub retention: Retention,
}

impl Settings {
    /// What `config` says, with the embedding program's own providers and tools beside the
    /// configured ones.
    ///
    /// # Errors
    /// The provider whose headers cannot be sent, by name.
    pub fn new(
        config: &Config,
        mut own: BTreeMap<String, Provider>,
        tools: Vec<ClosureTool>,
    ) -> Result<Self, (String, InvalidHeader)> {
        for (name, provider) in &config.providers {
            match Provider::new(provider.clone()) {
                Ok(provider) => own.insert(name.clone(), provider),
                Err(error) => return Err((name.clone(), error)),
            };
        }
        own.entry("echo".to_owned()).or_insert(Provider::Echo);
        let tools = Registry::new(&config.tools, tools);
        Ok(Self::with(config, own, tools, Arc::new(NoHooks)))
    }

    /// The same, with these hooks.
    #[must_use]
    pub fn with_hooks(self, hooks: Arc<dyn Hooks>) -> Self {
        Self { hooks, embeds_code: true, ..self }
    }

    /// What a configuration that was read anew says. Providers stay: what was learned about them,
    /// and requests under way, belong to the running ones. So do the embedding program's tools and hooks.
    #[must_use]
    pub fn reloaded(&self, config: &Config) -> Self {
        let tools = self.tools.reloaded(&config.tools);
        let anew = Self::with(config, self.providers.clone(), tools, Arc::clone(&self.hooks));
        Self { embeds_code: self.embeds_code, ..anew }
    }

    fn with(
        config: &Config,
        providers: BTreeMap<String, Provider>,
        tools: Registry,
        hooks: Arc<dyn Hooks>,
    ) -> Self {
        Self {
            rules: Rules {
                floor: config.policy.clone(),
                approvals: config.approvals,
                cancel_stream: match config.cancel_stream {
                    config::CancelStream::Abort => CancelStream::Abort,
                    config::CancelStream::Finish => CancelStream::Finish,
                },
                tools: tools.traits(),
            },
            hooks,
            embeds_code: providers.values().any(|each| matches!(each, Provider::Custom(_))),
            providers,
            tools,
            system_prompt: config.system_prompt.clone(),
            history_bytes: config.history_bytes,
            retention: Retention {
                keep_events: config.log.keep_events,
                keep_days: config.log.keep_days,
            },
        }
    }
}
