//! A throwaway PostgreSQL, for the demo and the tests.
