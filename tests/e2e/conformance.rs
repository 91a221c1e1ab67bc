//! The cases of `tests/cases`. Each is replayed: a relay in this process reads the recorded messages of PostgreSQL and
//! produces to librdkafka's mock broker. A spread of them, or all with `OUTBOXD_ALL_CASES=1`, also runs end to
//! end, against PostgreSQL and Kafka.

mod case;
mod cases;
mod configuration;
mod end_to_end;
mod outcome;
mod replay;
mod volatile;

#[test]
fn records_are_those_of_debezium() {
    replay::replay_all("relay");
}

#[test]
fn what_debeziums_own_tests_write_is_written_alike() {
    replay::replay_all("inventory");
}

#[test]
fn records_of_random_tables_are_those_of_debezium() {
    replay::replay_all("generated");
}

#[test]
fn change_events_are_those_of_debezium() {
    replay::replay_all("tables");
}

#[test]
fn end_to_end_first_quarter() {
    end_to_end::run_share(0);
}

#[test]
fn end_to_end_second_quarter() {
    end_to_end::run_share(1);
}

#[test]
fn end_to_end_third_quarter() {
    end_to_end::run_share(2);
}

#[test]
fn end_to_end_fourth_quarter() {
    end_to_end::run_share(3);
}
