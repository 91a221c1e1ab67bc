//! `outboxd tail`: prints records as they arrive. It changes nothing, and joins no consumer group.

mod args;
mod decoded;
mod error;
mod filter;
mod line;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

pub(in crate::cli) use args::TailArgs;

use decoded::Decoded;
use error::TailError;
use filter::Filter;

use super::explain::{may_be_of, renaming, topics_of};
use crate::cli::run::assemble::{AssembleError, assemble};
use crate::cli::run::registries;
use crate::cli::shell::decoding;
use crate::cli::shell::decoding::MissingSchema;
use crate::cli::shell::notice::open_scan;
use crate::cli::shell::progress::Progress;
use crate::cli::{asynchronously, print, print_message};
use crate::config::KafkaConfig;
use crate::error::{Diagnose as _, Exit, chain};
use crate::kafka;
use crate::registry::Registries;
use crate::relay::RelayParts;

/// Runs `outboxd tail`.
pub(in crate::cli) fn tail(args: &TailArgs) -> Exit {
    asynchronously(follow(args)).err().unwrap_or(Exit::Ok)
}

/// Flag that ends the reading thread when its records are not needed any more.
struct Withdrawn(Arc<AtomicBool>);

impl Drop for Withdrawn {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

async fn follow(args: &TailArgs) -> Result<(), TailError> {
    let Source { options, topics, router, registries } = source(args).await?;
    let (filter, with_value, as_json) = (Filter::of(args), args.value, args.json);
    let (mut left, since) = (args.number, args.since);
    let over = Withdrawn(Arc::default());
    let stop = Arc::clone(&over.0);
    let reading = decoding::run(&registries, MissingSchema::UnreadForNow, move |mut decoder| {
        let scan = open_scan(&options, &topics, since, &Progress::hidden())?;
        if scan.partitions().is_empty() && router.is_none() {
            return Err(TailError::NoTopic(topics));
        }
        print_message(&if topics.is_empty() {
            "following topics that are made from now on".to_owned()
        } else {
            format!("following {}", topics.join(", "))
        });
        let follows = |topic: &str| match &router {
            Some(parts) => may_be_of(parts, topic),
            None => topics.iter().any(|named| named == topic),
        };
        let wanted = || !stop.load(Ordering::Relaxed);
        let outcome = scan.follow::<TailError>(since.is_some(), follows, wanted, |record| {
            let decoded = Decoded::of(record, with_value, &mut decoder)?;
            if !filter.takes(record, decoded.key.as_deref()) {
                return Ok(());
            }
            print(&if as_json { line::object(record, &decoded) } else { line::text(record, &decoded) });
            left = left.map(|left| left.saturating_sub(1));
            if left == Some(0) { Err(TailError::Enough) } else { Ok(()) }
        });
        match outcome {
            Err(TailError::Enough) => Ok(()),
            outcome => outcome,
        }
    });
    reading.await.map_err(|_| TailError::Aborted)?
}

/// Topics to follow.
struct Source {
    options: kafka::Options,
    /// Existing topics.
    topics: Vec<String>,
    /// Router whose topics are followed, when none is named.
    router: Option<Box<RelayParts>>,
    /// Registries with which keys and values are decoded.
    registries: Registries,
}

/// Returns what to follow. With topics that are named, only Kafka need be configured.
async fn source(args: &TailArgs) -> Result<Source, TailError> {
    if !args.topics.is_empty() {
        let mut sources = args.config.sources();
        sources
            .overrides
            .extend(args.bootstrap_servers.iter().map(|servers| format!("bootstrap.servers={servers}")));
        let mut config = KafkaConfig::load(&sources).map_err(|error| TailError::Config(Box::new(error)))?;
        config.options.open_stores().map_err(AssembleError::from)?;
        let registries = match named(args)? {
            Some(registries) => registries,
            None if args.config.is_empty() => Registries::default(),
            None => of_configuration(args),
        };
        return Ok(Source { options: config.options, topics: args.topics.clone(), router: None, registries });
    }
    if args.config.is_empty() {
        return Err(TailError::NoSource);
    }
    let mut parts = assemble(&args.config)?.parts;
    let topics = topics_of(&parts, args.http.as_ref()).await?;
    let is_renamed = renaming(&parts).is_some();
    let registries = named(args)?.unwrap_or_else(|| std::mem::take(&mut parts.registries));
    Ok(Source {
        options: parts.kafka.clone(),
        topics,
        router: (!is_renamed).then(|| Box::new(parts)),
        registries,
    })
}

/// Returns the registries of the configuration. The rest of the configuration may be another program's, and
/// so may these.
fn of_configuration(args: &TailArgs) -> Registries {
    registries::of_sources(&args.config.sources()).unwrap_or_else(|error| {
        let fix = error.fix().map(|fix| format!("\n  to fix: {fix}")).unwrap_or_default();
        print_message(&format!("values with a schema id are not decoded: {}{fix}", chain(&error)));
        Registries::default()
    })
}

fn named(args: &TailArgs) -> Result<Option<Registries>, TailError> {
    let address = args.schema_registry.clone();
    Ok(address.map(Registries::at).transpose()?)
}
