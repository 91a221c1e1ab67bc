//! The transforms of a connector, in their order.
//!
//! Debezium gives a delete event and its tombstone the same headers object. A transform that adds headers in place
//! (`ExtractNewRecordState`) so adds them to the tombstone as well, even if it then refuses the delete, unless one before it
//! has made a copy. The chain does the same: it keeps what was added to a delete event for the tombstone behind it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::activate_tracing::ActivateTracingSpan;
use super::error::{Problem, TransformError};
use super::predicate::Predicate;
use super::registry::{self, Step};
use super::settings::Settings;
use super::timescale::Hypertables;
use super::unwrap::is_delete_event;
use crate::connect::source_record::{DatumHeader, SourceRecord};
use crate::connect::{OptionReader, Refused};
use crate::trace::Tracer;

/// The transforms that a record passes.
#[derive(Debug, Clone, Default)]
pub(crate) struct Chain {
    links: Vec<Link>,
    predicates: Vec<String>,
    /// The headers that were added in place to the last delete event.
    added: Arc<Mutex<Vec<DatumHeader<'static>>>>,
}

/// One transform with its condition.
#[derive(Debug, Clone)]
struct Link {
    alias: String,
    class: String,
    condition: Option<Condition>,
    step: Step,
}

/// What the EventRouter of a name makes of a record that it takes.
pub(crate) type Route<'r, 'a, E> =
    dyn FnMut(&'a str, SourceRecord<'a>) -> Result<Option<SourceRecord<'a>>, E> + 'r;

#[derive(Debug, Clone)]
struct Condition {
    predicate: Arc<Predicate>,
    negate: bool,
}

impl Chain {
    /// Reads `transforms` and `predicates` with their options.
    ///
    /// # Errors
    /// When a transform or predicate is not known here, or misses an option. Every mistake is kept by the reader; this
    /// is the first one.
    pub(crate) fn read(options: &mut OptionReader<'_>) -> Result<Self, Refused> {
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

    /// What the options of each transform and predicate stand below: `transforms.NAME`, `predicates.NAME`. Those of the
    /// EventRouter are read elsewhere.
    pub(crate) fn owners(&self) -> impl Iterator<Item = String> {
        let transforms = self.links.iter().filter(|link| !link.is_event_router());
        let transforms = transforms.map(|link| format!("transforms.{}", link.alias));
        transforms.chain(self.predicates.iter().map(|alias| format!("predicates.{alias}")))
    }

    /// Lets ActivateTracingSpan make spans.
    pub(crate) fn trace(&mut self, tracer: &Tracer) {
        for link in &mut self.links {
            if let Step::Spans(rules) = &link.step {
                link.step =
                    Step::Transform(Arc::new(ActivateTracingSpan::new(rules.clone(), tracer.clone())));
            }
        }
    }

    /// The names and classes of the transforms, in their order.
    pub(crate) fn transforms(&self) -> impl Iterator<Item = (&str, &str)> {
        self.links.iter().map(|link| (link.alias.as_str(), link.class.as_str()))
    }

    /// Where the records of a topic go, when that is all that the transforms change of them. None also when one fails on it.
    #[must_use]
    pub(crate) fn renamed(&self, topic: &str) -> Option<String> {
        self.links.iter().try_fold(topic.to_owned(), |topic, link| link.renamed(topic))
    }

    /// What the transforms must know of TimescaleDB's catalog, before a record of a chunk comes.
    pub(crate) fn hypertables(&self) -> impl Iterator<Item = &Hypertables> {
        self.links.iter().filter_map(|link| match &link.step {
            Step::Transform(transform) => transform.hypertables(),
            Step::EventRouter | Step::Spans(_) => None,
        })
    }

    /// The names of the EventRouters, in their order.
    pub(crate) fn event_routers(&self) -> impl Iterator<Item = &str> {
        self.links.iter().filter(|link| link.is_event_router()).map(|link| link.alias.as_str())
    }

    /// Whether no other transform stands before the last EventRouter.
    #[must_use]
    pub(crate) fn begins_with_routers(&self) -> bool {
        let others_first = self.links.iter().skip_while(|link| link.is_event_router());
        !others_first.into_iter().any(Link::is_event_router)
    }

    /// The name of the EventRouter that takes records like this one, as far as is known before the transforms that stand before it.
    #[must_use]
    pub(crate) fn routes_at_once(&self, record: &SourceRecord<'_>) -> Option<&str> {
        let routers = self.links.iter().take_while(|link| link.is_event_router());
        routers.into_iter().find(|link| link.selects(record) == Ok(true)).map(|link| link.alias.as_str())
    }

    /// The record behind all transforms, or none when one drops it. EventRouters let it pass.
    ///
    /// # Errors
    /// When a transform cannot work on the record.
    pub(crate) fn apply<'a>(
        &'a self,
        record: SourceRecord<'a>,
    ) -> Result<Option<SourceRecord<'a>>, TransformError> {
        self.apply_with(record, &mut |_, record| Ok(Some(record)))
    }

    /// The same; `route` is what the EventRouters make of the records that they take.
    ///
    /// # Errors
    /// When a transform cannot work on the record, or `route` cannot.
    pub(crate) fn apply_with<'a, E: From<TransformError>>(
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

/// The names in a list, each once.
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
        // Its own mistake is told already.
        Some(None) => Ok(None),
        None => Err(settings.refuse("predicate", "`predicates` does not name it")),
    }
}
