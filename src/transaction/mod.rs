//! Begin … Commit: stamps each change with its place and hands it on.
