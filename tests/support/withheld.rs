use std::sync::Arc;

use super::proxy::{Protocol, Proxy, Tamper, Toward};
use super::relay::{Config, with};

/// A way to PostgreSQL on which nothing arrives from the first message with a given content on. A relay behind it has
/// never sent everything when a test ends it, however slow the machine is.
pub(crate) struct Withheld {
    proxy: Proxy,
    config: Config,
}

impl Withheld {
    /// Withholds what follows `content` from a relay with this configuration, on each of its connections.
    pub(crate) fn from(config: &Config, content: &str) -> Self {
        let port = config["database.port"].to_string().trim_matches('"').parse().unwrap();
        let proxy = Proxy::start(Protocol::Postgres, port);
        let content: Arc<[u8]> = content.as_bytes().into();
        proxy.tamper(Some(Arc::new(move || {
            Box::new(Withholding { content: Arc::clone(&content), withholds: Withholds::Nothing })
        })));
        let port = proxy.port().to_string();
        let settings = [("database.port", port.as_str()), ("database.sslmode", "disable")];
        Self { config: with(config.clone(), &settings), proxy }
    }

    /// Returns the configuration of a relay that takes this way.
    pub(crate) const fn config(&self) -> &Config {
        &self.config
    }

    /// Withholds nothing on the connections that begin from now on.
    pub(crate) fn end(&self) {
        self.proxy.tamper(None);
    }
}

struct Withholding {
    content: Arc<[u8]>,
    withholds: Withholds,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Withholds {
    Nothing,
    /// Rows and keepalives, whose position is behind the rows. A relay that ends the stream gets the server's
    /// answer.
    Stream,
    Everything,
}

impl Tamper for Withholding {
    fn message(&mut self, toward: Toward, message: &mut Vec<u8>) {
        if toward == Toward::Server {
            return;
        }
        let is_copy_data = message.first() == Some(&b'd');
        if self.withholds == Withholds::Nothing
            && message.windows(self.content.len()).any(|bytes| bytes == &*self.content)
        {
            let is_row = is_copy_data && message.get(5) == Some(&b'w');
            self.withholds = if is_row { Withholds::Stream } else { Withholds::Everything };
        }
        let is_withheld = match self.withholds {
            Withholds::Nothing => false,
            Withholds::Stream => is_copy_data,
            Withholds::Everything => true,
        };
        if is_withheld {
            message.clear();
        }
    }
}
