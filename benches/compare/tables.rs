//! `--shape tables`: change events of tables of twelve columns under `REPLICA IDENTITY FULL`, instead of an outbox.

use clap::ValueEnum;

use crate::options::{Options, Shape};
use crate::support::outbox::Outbox;
use crate::support::registry::registry;
use crate::support::relay::{Config, with};

/// One row in this number is deleted with `--mix`.
const DELETED: u64 = 4;

const COLUMNS: &str =
    "id bigint PRIMARY KEY, customer int, status text, amount numeric(12,2), rate float8, paid boolean,
    placed_at timestamptz, due date, token uuid, note text, lines jsonb, changed_at timestamp";

/// Of row `n`, as `format` takes them.
const VALUES: &str = r#"n, n %% 1000, 'placed', n * 0.01, n / 3.0, n %% 2 = 0,
    '2026-01-02 03:04:05.678901+00'::timestamptz + n * interval '1 s', '2026-01-02'::date + n::int %% 300,
    md5(n::text)::uuid, $3, '[{"sku": "tea", "price": 7.25, "quantity": 2}]'::jsonb, '2026-01-02 03:04:05.678901'"#;

/// Format of keys and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Form {
    /// JSON without schemas
    Json,
    /// JSON with schemas
    Schemas,
    /// Avro, with a schema registry of the tests
    Avro,
}

/// The tables of a comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tables {
    count: u64,
    mix: bool,
    form: Form,
}

impl Tables {
    /// Returns the tables if the user wants them.
    pub(crate) fn wanted(options: &Options) -> Option<Self> {
        let &Options { tables: count, mix, form, .. } = options;
        (options.shape == Shape::Tables).then_some(Self { count, mix, form })
    }

    fn names(self) -> impl Iterator<Item = String> {
        (0..self.count).map(|number| format!("t{number}"))
    }

    /// Makes them and their publication.
    pub(crate) fn create(self, db: &Outbox, publication: &str) {
        let names: Vec<_> = self.names().collect();
        for name in &names {
            db.execute(&format!("CREATE TABLE {name} ({COLUMNS}); ALTER TABLE {name} REPLICA IDENTITY FULL"));
        }
        db.execute(&format!("CREATE PUBLICATION {publication} FOR TABLE {}", names.join(", ")));
    }

    /// Returns a script of one statement a transaction: rows are inserted, and with `--mix` updated and some of them
    /// deleted.
    pub(crate) fn script(self, options: &Options, filling: u64) -> String {
        let Self { count, mix, .. } = self;
        let Options { rows, per_transaction, .. } = options;
        format!(
            "DO $do$ DECLARE filling text := repeat('x', {filling}); name text; high bigint; BEGIN
               FOR low IN 0..{rows}::bigint - 1 BY {per_transaction} LOOP
                 name := 't' || (low / {per_transaction}) % {count};
                 high := least(low + {per_transaction}, {rows}) - 1;
                 EXECUTE format($$INSERT INTO %I SELECT {VALUES} FROM generate_series($1, $2) AS n$$, name)
                   USING low, high, filling;
                 COMMIT;
                 IF {mix} THEN
                   EXECUTE format('UPDATE %I SET status = ''paid'', amount = amount + 1 WHERE id BETWEEN $1 AND $2', name)
                     USING low, high;
                   COMMIT;
                   EXECUTE format('DELETE FROM %I WHERE id BETWEEN $1 AND $2 AND id %% {DELETED} = 0', name)
                     USING low, high;
                   COMMIT;
                 END IF;
               END LOOP;
             END $do$"
        )
    }

    /// Returns the number of records of each table, in the tables' order.
    pub(crate) fn records(self, options: &Options) -> Vec<u64> {
        let mut records: Vec<u64> = self.names().map(|_| 0).collect();
        let per_transaction = options.per_transaction;
        for (low, table) in (0..options.rows)
            .step_by(usize::try_from(per_transaction).unwrap())
            .zip((0..records.len()).cycle())
        {
            let rows = low..options.rows.min(low + per_transaction);
            let inserted = rows.end - rows.start;
            let deleted = u64::try_from(rows.filter(|id| id % DELETED == 0).count()).unwrap();
            records[table] += if self.mix { 2 * inserted + deleted } else { inserted };
        }
        records
    }

    /// Returns the topics of a connector, in the tables' order.
    pub(crate) fn topics(self, prefix: &str) -> Vec<String> {
        self.names().map(|table| format!("{prefix}.public.{table}")).collect()
    }

    /// Returns the configuration of an outbox, without the outbox.
    pub(crate) fn config(self, mut config: Config) -> Config {
        config.retain(|key, _| !key.starts_with("transforms"));
        let config = with(config, &[("table.include.list", r"public\.t[0-9]+")]);
        let (class, own) = match self.form {
            Form::Json => {
                ("org.apache.kafka.connect.json.JsonConverter", ("schemas.enable", "false".to_owned()))
            }
            Form::Schemas => {
                ("org.apache.kafka.connect.json.JsonConverter", ("schemas.enable", "true".to_owned()))
            }
            Form::Avro => {
                ("io.confluent.connect.avro.AvroConverter", ("schema.registry.url", registry().url()))
            }
        };
        ["key.converter", "value.converter"]
            .into_iter()
            .fold(config, |config, key| with(config, &[(key, class), (&format!("{key}.{}", own.0), &own.1)]))
    }
}
