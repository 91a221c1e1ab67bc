//! Mistakes that are planted beside the crate: in the handler, in the options, in the tables behind its back, in the topic of the dead
//! letters. The oracle must find each within [`BUDGET`] seeds.

use outboxd_inbox::core::{Options, Order, Retry};

use crate::draw::{Draw, Operator, Step};
use crate::habit::Habit;
use crate::trial::Trial;

/// Seeds in which a mistake must be found.
pub(crate) const BUDGET: u64 = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Planted {
    /// A handler returns `Ok` and has written nothing.
    NothingWritten,
    /// A handler writes outside of its transaction, and fails after that.
    EffectBesideTransaction,
    /// A part of the effect is written outside of the transaction.
    BalanceBesideTransaction,
    /// A handler writes something else.
    OtherAmount,
    /// The order of keys is given up.
    NoOrder,
    /// An event that fails once is given up.
    NoRetry,
    /// Completed events are not remembered.
    NothingRemembered,
    /// Incomplete events are remembered.
    RememberedBefore,
    /// A parked event is deleted.
    ParkedDeleted,
    /// A dead letter is removed.
    DeadLetterRemoved,
    /// An effect of no event.
    EffectInvented,
}

use Planted::*;

impl Planted {
    pub(crate) const ALL: [Self; 11] = [
        NothingWritten,
        EffectBesideTransaction,
        BalanceBesideTransaction,
        OtherAmount,
        NoOrder,
        NoRetry,
        NothingRemembered,
        RememberedBefore,
        ParkedDeleted,
        DeadLetterRemoved,
        EffectInvented,
    ];

    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|planted| format!("{planted:?}") == name)
    }

    /// Returns the rule by which it must be found.
    pub(crate) fn rule(self) -> &'static str {
        match self {
            NothingWritten | RememberedBefore | ParkedDeleted | DeadLetterRemoved => "lost",
            EffectBesideTransaction | NothingRemembered => "repeated",
            BalanceBesideTransaction => "torn",
            OtherAmount => "altered",
            NoOrder => "reordered",
            NoRetry => "given up",
            EffectInvented => "invented",
        }
    }

    /// Returns a short run in which it matters.
    pub(crate) fn draw(self, seed: u64) -> Draw {
        let draw = Draw::of(seed);
        let (retry, park) = match self {
            ParkedDeleted => (Vec::new(), vec![3000]),
            _ => (vec![100, 300], Vec::new()),
        };
        Draw {
            dedupe: "ids",
            operator: Operator::Forgets,
            habits: vec![Habit::FailsOnce, Habit::Slow, Habit::Poison],
            steps: vec![Step::BackendsTerminated],
            batch: 1,
            retry,
            park,
            ..draw
        }
    }

    /// Plants the mistake in the process of the service.
    pub(crate) fn options(self, options: Options) -> Options {
        match self {
            NoOrder => Options { order: Order::None, ..options },
            NoRetry => Options { retry: Retry::new([]), ..options },
            _ => options,
        }
    }

    /// Plants the mistake before the consumers start, once the tables exist.
    pub(crate) fn in_the_beginning(self, trial: &Trial<'_>) {
        match self {
            NothingRemembered => trial.execute(
                "CREATE FUNCTION forget() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                     DELETE FROM inbox_message WHERE message_id = new.message_id; RETURN NULL;
                 END $$;
                 CREATE TRIGGER forget AFTER INSERT ON inbox_message FOR EACH ROW EXECUTE FUNCTION forget()",
            ),
            RememberedBefore => trial.execute(&format!(
                "INSERT INTO inbox_message (consumer, source, message_id) VALUES ('{0}', '{1}', 'e7')",
                trial.name(),
                trial.topic()
            )),
            _ => {}
        }
    }

    /// Plants the mistake while events are handled.
    pub(crate) fn in_the_middle(self, trial: &Trial<'_>) {
        if self == ParkedDeleted {
            trial.wait_until("SELECT count(*) > 0 FROM inbox_parked");
            trial.execute("DELETE FROM inbox_parked");
        }
    }

    /// Plants the mistake after all events have ended.
    pub(crate) fn in_the_end(self, trial: &Trial<'_>) {
        match self {
            DeadLetterRemoved => {
                let topic = trial.dead_letter_topic();
                trial.kafka().delete_records(&topic, 0, trial.kafka().record_count(&topic));
            }
            EffectInvented => trial
                .execute("INSERT INTO effects (id, k, number, amount) VALUES ('e-none', 'k1', 100000, 0)"),
            _ => {}
        }
    }
}
