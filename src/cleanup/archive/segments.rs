//! The segments of a table.

use std::path::PathBuf;
use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use super::column::{Column, columns, expression};
use super::convert::finish;
use super::segment::{Header, Segment};
use super::{aside, unix_seconds};
use crate::cleanup::catalog::Leaf;
use crate::cleanup::pass::PassError;
use crate::postgres::{Error, Sql};
use crate::wal::Oid;

/// The segments of a table, one after the other.
#[derive(Debug)]
pub(crate) struct Segments {
    folder: PathBuf,
    oid: Oid,
    table: String,
    columns: Vec<Column>,
    /// The one that rows are added to, once there is a row.
    open: Option<Arc<Segment>>,
    /// The Parquet files of those before it.
    done: Vec<PathBuf>,
}

impl Segments {
    pub(super) async fn of(sql: &Sql, folder: PathBuf, leaf: &Leaf) -> Result<Self, Error> {
        let columns = columns(sql, leaf.oid).await?;
        let (oid, table) = (leaf.oid, leaf.name.clone());
        Ok(Self { folder, oid, table, columns, open: None, done: Vec::new() })
    }

    pub(super) fn expression(&self, alias: &str) -> String {
        expression(&self.columns, alias)
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let open = self.open.iter().map(|segment| segment.path().to_owned());
        self.done.iter().cloned().chain(open).collect()
    }

    /// Returns whether the table still has the columns with which rows are archived.
    pub(super) async fn has_columns(&self, sql: &Sql) -> Result<bool, Error> {
        Ok(columns(sql, self.oid).await? == self.columns)
    }

    pub(super) async fn keep(&mut self, rows: Vec<String>) -> Result<(), PassError> {
        if rows.is_empty() {
            return Ok(());
        }
        let (open, folder) = (self.open.clone(), self.folder.clone());
        let (table, columns) = (self.table.clone(), self.columns.clone());
        let header = Header { table, columns, since: Some(unix_seconds()) };
        let segment = aside(move || {
            let segment = open.map_or_else(|| Segment::open(&folder, header).map(Arc::new), Ok)?;
            segment.append(&rows)?;
            Ok(segment)
        });
        self.open = Some(segment.await.map_err(PassError::Archive)?);
        Ok(())
    }

    /// Ends the segment if it is large or old enough.
    pub(super) async fn rotate(&mut self, stop: &CancellationToken) -> Result<(), PassError> {
        let Some(segment) = self.open.clone() else { return Ok(()) };
        if aside(move || segment.is_due(unix_seconds())).await.map_err(PassError::Archive)? {
            return self.close(stop).await;
        }
        Ok(())
    }

    /// Ends the segment.
    pub(super) async fn close(&mut self, stop: &CancellationToken) -> Result<(), PassError> {
        let Some(segment) = self.open.clone() else { return Ok(()) };
        let (path, stop) = (segment.path().to_owned(), stop.clone());
        let file = aside(move || finish(&segment, &stop)).await;
        self.done.extend(file.map_err(|error| PassError::Parquet(path, error))?);
        self.open = None;
        Ok(())
    }

    #[cfg(test)]
    pub(super) fn without_server(folder: PathBuf, table: &str, columns: Vec<Column>) -> Self {
        Self { folder, oid: Oid(1), table: table.to_owned(), columns, open: None, done: Vec::new() }
    }
}
