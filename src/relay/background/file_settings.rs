//! Settings whose values come from files and are read at the start alone: a changed file asks for a restart.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest as _, Sha256};
use tokio::time::{MissedTickBehavior, interval};

use crate::credentials::Reread;
use crate::telemetry::Status;

/// Time between two readings.
const INTERVAL: Duration = Duration::from_secs(30);

/// Settings with values of files, and the hashes of what was read at the start: the values may be secrets.
#[derive(Debug, Clone, Default)]
pub(crate) struct FileSettings(Arc<Vec<FileSetting>>);

struct FileSetting {
    key: String,
    source: Arc<dyn Reread>,
    hash: Hash,
}

type Hash = [u8; 32];

impl FileSettings {
    /// Reads the settings: key and source.
    pub(crate) fn new(settings: impl IntoIterator<Item = (String, Arc<dyn Reread>)>) -> Self {
        let read = |(key, source): (String, Arc<dyn Reread>)| {
            let hash = hash(source.reread().ok()?.expose());
            Some(FileSetting { key, source, hash })
        };
        Self(Arc::new(settings.into_iter().filter_map(read).collect()))
    }

    /// Returns the keys whose files have other values now. A file that cannot be read, or is replaced at this moment, has none.
    fn changed(&self) -> Vec<String> {
        let is_changed = |setting: &&FileSetting| {
            setting.source.reread().is_ok_and(|value| hash(value.expose()) != setting.hash)
        };
        self.0.iter().filter(is_changed).map(|setting| setting.key.clone()).collect()
    }

    /// Reads them again from time to time, and reports those that have changed. It never ends.
    pub(in crate::relay) async fn watch(&self, status: &Status) {
        if self.0.is_empty() {
            return std::future::pending().await;
        }
        let mut readings = interval(INTERVAL);
        readings.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            readings.tick().await;
            let settings = self.clone();
            // A reading that was aborted is made again.
            if let Ok(changed) = tokio::task::spawn_blocking(move || settings.changed()).await {
                status.changed_settings(changed);
            }
        }
    }
}

/// A hash shows whether a guess is right, so that it is not shown.
impl fmt::Debug for FileSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}

fn hash(value: &str) -> Hash {
    Sha256::digest(value).into()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::secret::Secret;

    /// The value of a file; None if it cannot be read.
    #[derive(Debug, Default)]
    struct File(Mutex<Option<&'static str>>);

    impl Reread for File {
        fn reread(&self) -> Result<Secret, Box<dyn std::error::Error + Send + Sync>> {
            self.0.lock().unwrap().map(Secret::new).ok_or_else(|| "gone".into())
        }
    }

    #[test]
    fn a_setting_whose_file_has_another_value_is_named() {
        let [first, second] = [(); 2].map(|()| Arc::new(File(Mutex::new(Some("a")))));
        let source = |file: &Arc<File>| Arc::clone(file) as Arc<dyn Reread>;
        let settings = FileSettings::new([
            ("database.hostname".to_owned(), source(&first)),
            ("topic.prefix".to_owned(), source(&second)),
        ]);
        let change = |file: &File, value| *file.0.lock().unwrap() = value;
        assert!(settings.changed().is_empty());
        change(&second, Some("b"));
        assert_eq!(settings.changed(), ["topic.prefix"]);
        change(&first, None);
        assert_eq!(settings.changed(), ["topic.prefix"]);
        change(&second, Some("a"));
        assert!(settings.changed().is_empty());
        assert_eq!(format!("{settings:?}"), "FileSettings([database.hostname, topic.prefix])");
    }
}
