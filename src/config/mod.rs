//! Debezium's configuration, read from files, environment and command line.
