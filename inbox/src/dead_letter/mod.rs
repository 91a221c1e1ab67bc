//! Dead letters: events that were given up, with the reason in their headers.
