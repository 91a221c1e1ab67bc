//! Tables that are altered while the catalog is asked for them.

use serde_json::Value;

use crate::changes::{config, topic};
use crate::support::kafka::kafka;
use crate::support::outbox::Outbox;
use crate::support::postgres::postgres18;
use crate::support::relay::Relay;

const ROWS: usize = 120;

/// Some of them in the moment between two looks at the catalog, if there were two.
#[test]
fn rows_have_all_columns_however_often_a_type_changes() {
    let db = Outbox::create_bare(postgres18(), "create table a (id int primary key, v text)");
    let relay = Relay::start(&config(&db, &[]));
    db.wait_until_streaming();
    for id in 0..ROWS {
        let kind = if id % 2 == 0 { "text" } else { "varchar(90)" };
        db.execute(&format!("insert into a values ({id}, 'x')"));
        db.execute(&format!("alter table a alter v type {kind}"));
    }
    for record in kafka().read(&topic(&db, "a"), ROWS) {
        let value: Value = serde_json::from_str(record.value()).unwrap();
        assert_eq!(value["after"]["v"], "x", "{}", record.value());
    }
    assert_eq!(relay.stop(), 0);
}
