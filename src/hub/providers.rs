//! Places with providers that answer only so many requests at once: first come, first served, across
//! all agents.
//!
//! An agent says when it comes home whether its model request wants a place or has one; everything
//! else follows from the difference. So a cancel, a failure and a panic all give a place back.
//!
//! Invariant: of each provider at most `max_concurrent_requests` places are taken, and nobody waits
//! while one is free.

use super::Hub;
use crate::conn::slab::Tag;
use crate::work::advance::Input;
use crate::work::agent::Place;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// The queues of all providers that have a bound.
#[derive(Default)]
pub(super) struct Providers {
    queues: HashMap<Arc<str>, Queue>,
}

#[derive(Default)]
struct Queue {
    taken: usize,
    /// Whoever no longer wants a place is passed over when its turn comes.
    waiting: VecDeque<Tag>,
}

impl Hub {
    /// An agent's request has, or wants, this place from now on.
    pub(super) fn set_provider_place(&mut self, agent: Tag, place: Option<Place>) {
        let bounded = |name: &str| self.provider_bound(name).is_some();
        let place = place.filter(|place| bounded(place.provider()));
        let Some(entry) = self.agents.get_mut(agent) else { return };
        if entry.provider_place() == place.as_ref() {
            return;
        }
        let stay = entry.stay();
        let granted = stay.mailbox.iter().any(|input| matches!(input, Input::Granted));
        if granted && matches!(place, Some(Place::Wanted(_))) {
            // The grant has crossed with it: what it wants is on its way.
            return;
        }
        let old = std::mem::replace(&mut stay.provider_place, place.clone());
        if let Some(Place::Taken(name)) = old {
            self.queue(&name).taken -= 1;
            self.grant(&name);
        }
        match place {
            Some(Place::Taken(name)) => self.queue(&name).taken += 1,
            Some(Place::Wanted(name)) => {
                self.queue(&name).waiting.push_back(agent);
                self.grant(&name);
            }
            None => {}
        }
    }

    /// Gives free places to those who wait longest.
    fn grant(&mut self, name: &Arc<str>) {
        let Some(bound) = self.provider_bound(name) else { return };
        while self.queue(name).taken < bound {
            let Some(agent) = self.queue(name).waiting.pop_front() else { return };
            let wanted = Place::Wanted(Arc::clone(name));
            if let Some(entry) = self.agents.get_mut(agent)
                && entry.provider_place() == Some(&wanted)
            {
                entry.stay().provider_place = Some(Place::Taken(Arc::clone(name)));
                self.queue(name).taken += 1;
                self.post(agent, Input::Granted);
            }
        }
    }

    fn queue(&mut self, name: &Arc<str>) -> &mut Queue {
        self.providers.queues.entry(Arc::clone(name)).or_default()
    }

    /// How many wait for a place with each provider that ever had somebody in it.
    pub(super) fn waiting_for_providers(&self) -> impl Iterator<Item = (&str, usize)> {
        self.providers.queues.iter().map(|(name, queue)| {
            let waits = |tag: &&Tag| self.waits_for(**tag) == Some(&**name);
            (&**name, queue.waiting.iter().filter(waits).count())
        })
    }

    fn provider_bound(&self, name: &str) -> Option<usize> {
        self.settings.providers.get(name)?.max_concurrent_requests()
    }

    /// The provider that an agent's request waits for, if it does.
    pub(super) fn waits_for(&self, agent: Tag) -> Option<&str> {
        match self.agents.get(agent)?.provider_place() {
            Some(Place::Wanted(name)) => Some(name),
            _ => None,
        }
    }
}
