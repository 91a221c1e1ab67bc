//! Results of a transform by schema.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use crate::Schema;

/// Maximum number of schemas, or texts, that a transform remembers; beyond it, all are forgotten.
const REMEMBERED_MAX: usize = 1_000;

/// Results of a transform by schema, each computed once. Schemas are distinguished by their addresses.
pub(in crate::transform) struct PerSchema<T> {
    made: Mutex<HashMap<usize, Made<T>>>,
}

/// Schema, and the result for it.
type Made<T> = (Arc<Schema>, Arc<T>);

/// Results of a transform by text, such as a topic's name.
pub(in crate::transform) struct PerText<T> {
    made: Mutex<HashMap<String, T>>,
}

impl<T> PerSchema<T> {
    /// Returns the stored result for this schema, or else that of `make`.
    pub(in crate::transform) fn get<E>(
        &self,
        schema: &Arc<Schema>,
        make: impl FnOnce(&Schema) -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        // The schema is stored beside its result, so that no other schema gets its address.
        let address = Arc::as_ptr(schema).addr();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, found)) = made.get(&address) {
            return Ok(Arc::clone(found));
        }
        let new = Arc::new(make(schema)?);
        forget_when_full(&mut made);
        made.insert(address, (Arc::clone(schema), Arc::clone(&new)));
        Ok(new)
    }
}

impl<T: Clone> PerText<T> {
    /// Returns the stored result for this text, or else that of `make`.
    pub(in crate::transform) fn get<E>(
        &self,
        text: &str,
        make: impl FnOnce(&str) -> Result<T, E>,
    ) -> Result<T, E> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(found) = made.get(text) {
            return Ok(found.clone());
        }
        let new = make(text)?;
        forget_when_full(&mut made);
        made.insert(text.to_owned(), new.clone());
        Ok(new)
    }
}

fn forget_when_full<K: Eq + Hash, V>(made: &mut HashMap<K, V>) {
    if made.len() >= REMEMBERED_MAX {
        made.clear();
    }
}

impl<T> Default for PerSchema<T> {
    fn default() -> Self {
        Self { made: Mutex::default() }
    }
}

impl<T> Default for PerText<T> {
    fn default() -> Self {
        Self { made: Mutex::default() }
    }
}

impl<T> fmt::Debug for PerSchema<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerSchema").finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for PerText<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PerText").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Kind;

    #[test]
    fn each_schema_is_worked_on_once() {
        let cache = PerSchema::<usize>::default();
        let schemas: Vec<_> = (0..2).map(|_| Arc::new(Schema::new(Kind::Int32))).collect();
        let mut calls = 0;
        for schema in schemas.iter().chain(&schemas) {
            let made = cache.get(schema, |_| {
                calls += 1;
                Ok::<_, ()>(calls)
            });
            assert!(made.is_ok());
        }
        assert_eq!(calls, 2);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let cache = PerText::<usize>::default();
        for number in 0..3 * REMEMBERED_MAX {
            assert_eq!(cache.get(&number.to_string(), |_| Ok::<_, ()>(number)), Ok(number));
            assert!(cache.made.lock().unwrap().len() <= REMEMBERED_MAX);
        }
        let failed = cache.get("new", |_| Err::<usize, _>("no"));
        assert_eq!(failed, Err("no"));
    }
}
