//! An event that is claimed in a transaction of the service, without Kafka.

use outboxd_inbox::postgres::{Claim, SCHEMA, claim, claim_with_sqlx};
use sqlx::postgres::PgPoolOptions;
use tokio::task::JoinSet;
use tokio_postgres::NoTls;

use crate::shop::Shop;
use crate::support::kafka::kafka;
use crate::support::postgres::postgres18;

#[test]
fn an_event_is_new_until_its_transaction_is_committed() {
    let shop = Shop::open(postgres18(), kafka());
    shop.execute(SCHEMA);
    shop.block_on(async {
        let (mut client, connection) = tokio_postgres::connect(shop.url(), NoTls).await.unwrap();
        let mut driver = JoinSet::new();
        driver.spawn(connection);
        for expected in [Claim::New, Claim::New, Claim::Repeat] {
            let transaction = client.transaction().await.unwrap();
            assert_eq!(claim(&transaction, "billing", "queue", "a").await.unwrap(), expected);
            assert_eq!(claim(&transaction, "billing", "queue", "a").await.unwrap(), Claim::Repeat);
            // The first one is rolled back.
            let is_first =
                transaction.query_one("SELECT count(*) FROM applied", &[]).await.unwrap().get::<_, i64>(0)
                    == 0;
            if is_first {
                transaction.rollback().await.unwrap();
                client.batch_execute("INSERT INTO applied (event_id) VALUES ('first')").await.unwrap();
            } else {
                transaction.commit().await.unwrap();
            }
        }
        let pool = PgPoolOptions::new().connect(shop.url()).await.unwrap();
        let mut transaction = pool.begin().await.unwrap();
        for (consumer, source, id, expected) in [
            ("billing", "queue", "a", Claim::Repeat),
            ("billing", "queue", "b", Claim::New),
            ("billing", "other queue", "a", Claim::New),
            ("shipping", "queue", "a", Claim::New),
        ] {
            let claimed = claim_with_sqlx(&mut transaction, consumer, source, id).await.unwrap();
            assert_eq!(claimed, expected, "{consumer} {source} {id}");
        }
        transaction.commit().await.unwrap();
        pool.close().await;
        drop(client);
        driver.join_next().await.unwrap().unwrap().unwrap();
    });
}
