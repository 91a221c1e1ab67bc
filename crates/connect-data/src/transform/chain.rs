//! Chain of a connector's transforms, in their order.
//!
//! Debezium gives a delete event and its tombstone the same headers object. A transform that adds headers in place
//! (`ExtractNewRecordState`) therefore adds them to the tombstone as well, even if it then refuses the delete, unless an
//! earlier transform has made a copy. The chain does the same: it stores the headers that were added to a delete event, for
//! the tombstone behind it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::debezium::activate_tracing::ActivateTracingSpan;
use super::debezium::timescale::Hypertables;
use super::debezium::unwrap::is_delete_event;
use super::error::{Problem, TransformError};
use super::predicate::Predicate;
use super::registry::{self, Step};
use super::settings::Settings;
use crate::source_record::{DatumHeader, SourceRecord};
use crate::trace::Tracer;
use crate::{OptionReader, Refused};

/// Transforms that are applied to each record.
#[derive(Debug, Clone, Default)]
pub struct Chain {
    links: Vec<Link>,
    predicates: Vec<String>,
    /// Headers that were added in place to the last delete event.
    added: Arc<Mutex<Vec<DatumHeader<'static>>>>,
}

/// Transform with its condition.
#[derive(Debug, Clone)]
struct Link {
    alias: String,
    class: String,
    condition: Option<Condition>,
    step: Step,
}

/// Handler of a record that an EventRouter selects; its first argument is the name of the EventRouter. Returns the record
/// for the next transform, or none to drop it.
pub type Route<'r, 'a, E> = dyn FnMut(&'a str, SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, E> + 'r;

#[derive(Debug, Clone)]
struct Condition {
    predicate: Arc<Predicate>,
    negate: bool,
}

impl Chain {
    /// Reads `transforms` and `predicates` with their options.
    ///
    /// # Errors
    /// When a transform or predicate is unknown, or lacks an option. The reader collects every mistake; this is the first
    /// one.
    pub fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
        let mut first = None;
        let mut predicates = HashMap::new();
        for alias in names(options, "predicates", &mut first) {
            match Predicate::read(&mut Settings::new(options, format!("predicates.{alias}"))) {
                Ok(predicate) => {
                    predicates.insert(alias, Some(Arc::new(predicate)));
                }
                Err(refused) => {
                    first.get_or_insert(refused);
                    predicates.insert(alias, None);
                }
            }
        }
        let mut links = Vec::new();
        for alias in names(options, "transforms", &mut first) {
            match link(options, alias, &predicates) {
                Ok(link) => links.push(link),
                Err(refused) => {
                    first.get_or_insert(refused);
                }
            }
        }
        let predicates = predicates.into_keys().collect();
        first.map_or_else(|| Ok(Self { links, predicates, added: Arc::default() }), Err)
    }

    /// Returns the option prefix of each transform and predicate: `transforms.NAME`, `predicates.NAME`. The options of the
    /// EventRouters are read elsewhere and not included.
    pub fn owners(&self) -> impl Iterator<Item = String> {
        let transforms = self.links.iter().filter(|link| !link.is_event_router());
        let transforms = transforms.map(|link| format!("transforms.{}", link.alias));
        transforms.chain(self.predicates.iter().map(|alias| format!("predicates.{alias}")))
    }

    /// Sets the tracer with which ActivateTracingSpan creates spans. That transform does nothing without a tracer.
    pub fn trace(&mut self, tracer: &Tracer) {
        for link in &mut self.links {
            if let Step::Spans(rules) = &link.step {
                link.step =
                    Step::Transform(Arc::new(ActivateTracingSpan::new(rules.clone(), tracer.clone())));
            }
        }
    }

    /// Returns the names and classes of the transforms, in their order.
    pub fn transforms(&self) -> impl Iterator<Item = (&str, &str)> {
        self.links.iter().map(|link| (link.alias.as_str(), link.class.as_str()))
    }

    /// Returns the topic to which the records of a topic go, if the transforms change nothing else. None also when one fails
    /// on the name.
    #[must_use]
    pub fn renamed(&self, topic: &str) -> Option<String> {
        self.links.iter().try_fold(topic.to_owned(), |topic, link| link.renamed(topic))
    }

    /// Returns the hypertables of the transforms. They must be filled from TimescaleDB's catalog before the first record of
    /// a chunk.
    pub fn hypertables(&self) -> impl Iterator<Item = &Hypertables> {
        self.links.iter().filter_map(|link| match &link.step {
            Step::Transform(transform) => transform.hypertables(),
            Step::EventRouter | Step::Spans(_) => None,
        })
    }

    /// Returns the names of the EventRouters, in their order.
    pub fn event_routers(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter(|link| link.is_event_router()).map(|link| link.alias.as_str())
    }

    /// Reports whether no other transform precedes an EventRouter.
    #[must_use]
    pub fn begins_with_routers(&self) -> bool {
        let others_first = self.links.iter().skip_while(|link| link.is_event_router());
        !others_first.into_iter().any(Link::is_event_router)
    }

    /// Returns the name of the EventRouter that selects this record, among those at the beginning of the chain.
    #[must_use]
    pub fn routes_at_once(&self, record: &SourceRecord<'_>) -> Option<&str> {
        let routers = self.links.iter().take_while(|link| link.is_event_router());
        routers.into_iter().find(|link| link.selects(record) == Ok(true)).map(|link| link.alias.as_str())
    }

    /// Returns the record after all transforms, or none when one drops it. EventRouters leave it unchanged.
    ///
    /// # Errors
    /// When a transform fails on the record.
    pub fn apply<'a>(&'a self, record: SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, TransformError> {
        self.apply_with(record, &mut |_, record| Ok(Some(record)))
    }

    /// Applies the transforms as [`Self::apply`] does; `route` handles the records that EventRouters select.
    ///
    /// # Errors
    /// When a transform or `route` fails on the record.
    pub fn apply_with<'a, E: From<TransformError>>(
        &'a self,
        mut record: SourceRecord<'a>,
        route: &mut Route<'_, 'a, E>,
    ) -> Result<Option<SourceRecord<'a>>, E> {
        if !self.links.iter().any(Link::adds_headers_in_place) {
            return apply_to(self.links.iter(), record, route);
        }
        let mut is_shared = is_delete_event(&record.value);
        if record.value.value.is_null() {
            record.headers.extend(self.lock_added().iter().cloned());
        } else {
            self.lock_added().clear();
        }
        for (passed, link) in self.links.iter().enumerate() {
            if !is_shared {
                return apply_to(self.links.iter().skip(passed), record, route);
            }
            if link.selects(&record).map_err(|problem| link.failed(problem))? {
                self.lock_added().extend(link.added_in_place(&record));
                is_shared = link.shares_headers(&record);
                let Some(next) = link.apply(record, route)? else { return Ok(None) };
                record = next;
            }
        }
        Ok(Some(record))
    }

    fn lock_added(&self) -> std::sync::MutexGuard<'_, Vec<DatumHeader<'static>>> {
        self.added.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Link {
    fn renamed(&self, topic: String) -> Option<String> {
        let Step::Transform(transform) = &self.step else {
            return matches!(self.step, Step::Spans(_)).then_some(topic);
        };
        let renaming = transform.renaming()?;
        let is_selected = self.condition.as_ref().map_or(Some(true), |condition| {
            condition.predicate.holds_for_topic(&topic).map(|holds| holds != condition.negate)
        })?;
        if !is_selected {
            return Some(topic);
        }
        Some(renaming.rename(&topic).ok()?.unwrap_or(topic))
    }

    fn selects(&self, record: &SourceRecord<'_>) -> Result<bool, Problem> {
        match &self.condition {
            Some(condition) => Ok(condition.predicate.holds(record)? != condition.negate),
            None => Ok(true),
        }
    }

    fn apply<'a, E: From<TransformError>>(
        &'a self,
        record: SourceRecord<'a>,
        route: &mut Route<'_, 'a, E>,
    ) -> Result<Option<SourceRecord<'a>>, E> {
        match &self.step {
            Step::EventRouter => route(&self.alias, record),
            Step::Spans(_) => Ok(Some(record)),
            Step::Transform(transform) => {
                transform.apply(record).map_err(|problem| self.failed(problem).into())
            }
        }
    }

    const fn is_event_router(&self) -> bool {
        matches!(self.step, Step::EventRouter)
    }

    fn adds_headers_in_place(&self) -> bool {
        matches!(&self.step, Step::Transform(transform) if transform.adds_headers_in_place())
    }

    fn added_in_place(&self, record: &SourceRecord<'_>) -> Vec<DatumHeader<'static>> {
        match &self.step {
            Step::Transform(transform) => transform.added_in_place(record),
            Step::EventRouter | Step::Spans(_) => Vec::new(),
        }
    }

    fn shares_headers(&self, record: &SourceRecord<'_>) -> bool {
        match &self.step {
            Step::Transform(transform) => transform.shares_headers(record),
            Step::Spans(_) => true,
            Step::EventRouter => false,
        }
    }

    fn failed(&self, problem: Problem) -> TransformError {
        TransformError { transform: self.alias.as_str().into(), class: self.class.as_str().into(), problem }
    }
}

fn apply_to<'a, E: From<TransformError>>(
    links: impl Iterator<Item = &'a Link>,
    mut record: SourceRecord<'a>,
    route: &mut Route<'_, 'a, E>,
) -> Result<Option<SourceRecord<'a>>, E> {
    for link in links {
        if link.selects(&record).map_err(|problem| link.failed(problem))? {
            let Some(next) = link.apply(record, route)? else { return Ok(None) };
            record = next;
        }
    }
    Ok(Some(record))
}

/// Returns the names in a list, each once. The first refusal of a repeated name is stored in `first`.
fn names(options: &mut OptionReader<'_>, key: &str, first: &mut Option<Refused>) -> Vec<String> {
    let text = options.filled(key).unwrap_or_default();
    let mut names: Vec<String> = Vec::new();
    for name in text.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        if names.iter().any(|known| known == name) {
            let refused = options.refuse(key, text.clone(), format!("{name:?} is named twice"));
            first.get_or_insert(refused);
            continue;
        }
        names.push(name.to_owned());
    }
    names
}

fn link(
    options: &mut OptionReader<'_>,
    alias: String,
    predicates: &HashMap<String, Option<Arc<Predicate>>>,
) -> Result<Link, Refused> {
    let mut settings = Settings::new(options, format!("transforms.{alias}"));
    let condition = condition(&mut settings, predicates);
    let class = settings.text("type").unwrap_or_default().trim().to_owned();
    let step = registry::read(&mut settings);
    Ok(Link { alias, class, condition: condition?, step: step? })
}

fn condition(
    settings: &mut Settings<'_, '_>,
    predicates: &HashMap<String, Option<Arc<Predicate>>>,
) -> Result<Option<Condition>, Refused> {
    let negate = settings.boolean("negate", false);
    let Some(name) = settings.text("predicate") else {
        return match negate {
            true => Err(settings.refuse("negate", "there is no predicate that it could negate")),
            false => Ok(None),
        };
    };
    match predicates.get(name.trim()) {
        Some(Some(predicate)) => Ok(Some(Condition { predicate: Arc::clone(predicate), negate })),
        // Its own mistake is already reported.
        Some(None) => Ok(None),
        None => Err(settings.refuse("predicate", "`predicates` does not name it")),
    }
}
