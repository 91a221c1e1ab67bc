//! Connection to the Redis servers.

use std::fmt;
use std::sync::Arc;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::cluster::ClusterClient;
use redis::cluster_async::ClusterConnection;
use redis::sentinel::SentinelClient;
use redis::{Client, Cmd, ErrorKind, RedisError, RedisFuture, RetryMethod, ServerErrorKind, Value};
use tokio::sync::Mutex;

use super::error::Error;
use super::script::Script;

/// Maximum number of attempts at a script if the connection is lost: an idle connection may be found closed only when it is used.
const SENDS_MAX: u32 = 2;

/// Addresses of the Redis servers, and the connection to them, which all clones of this value share.
#[derive(Clone)]
pub struct Servers {
    shared: Arc<Mutex<Shared>>,
}

struct Shared {
    place: Place,
    link: Option<Link>,
    /// Number of connections opened so far. Of several callers that find a connection broken, only the first one drops it.
    opened: u64,
}

enum Place {
    One(Client),
    Sentinel(Box<SentinelClient>),
    Cluster(Box<ClusterClient>),
}

#[derive(Clone)]
enum Link {
    One(MultiplexedConnection),
    Cluster(ClusterConnection),
}

impl Servers {
    /// Creates a client of one server.
    #[must_use]
    pub fn one(client: Client) -> Self {
        Self::at(Place::One(client))
    }

    /// Creates a client of the master that Sentinel names. After a change of the master it connects to the new one.
    ///
    /// Redis replicates a write after it has acknowledged it: the new master may not have the last writes. Then only a fence that the
    /// resource itself compares prevents that an effect is applied twice.
    #[must_use]
    pub fn sentinel(client: SentinelClient) -> Self {
        Self::at(Place::Sentinel(Box::new(client)))
    }

    /// Creates a client of a cluster. Its replicas may lack the last writes too, as with [`Self::sentinel`].
    #[must_use]
    pub fn cluster(client: ClusterClient) -> Self {
        Self::at(Place::Cluster(Box::new(client)))
    }

    fn at(place: Place) -> Self {
        Self { shared: Arc::new(Mutex::new(Shared { place, link: None, opened: 0 })) }
    }

    /// Runs a script on a key.
    pub(crate) async fn run(&self, script: &Script, key: &str, arguments: &[&[u8]]) -> Result<Value, Error> {
        let mut sent = 0;
        loop {
            let (mut link, opened) = self.link().await.map_err(Error::Connect)?;
            sent += 1;
            let source = match run(&mut link, script, key, arguments).await {
                Ok(value) => return Ok(value),
                Err(source) => source,
            };
            if is_of_the_link(&source) {
                self.forget(opened).await;
                if sent < SENDS_MAX {
                    continue;
                }
            }
            return Err(Error::Script { script: script.name(), source });
        }
    }

    async fn link(&self) -> Result<(Link, u64), RedisError> {
        let mut shared = self.shared.lock().await;
        if let Some(link) = &shared.link {
            return Ok((link.clone(), shared.opened));
        }
        let link = match &mut shared.place {
            Place::One(client) => Link::One(client.get_multiplexed_async_connection().await?),
            Place::Sentinel(client) => Link::One(client.get_async_connection().await?),
            Place::Cluster(client) => Link::Cluster(client.get_async_connection().await?),
        };
        shared.opened += 1;
        shared.link = Some(link.clone());
        Ok((link, shared.opened))
    }

    async fn forget(&self, opened: u64) {
        let mut shared = self.shared.lock().await;
        if shared.opened == opened {
            shared.link = None;
        }
    }
}

async fn run(link: &mut Link, script: &Script, key: &str, arguments: &[&[u8]]) -> Result<Value, RedisError> {
    let by_hash = command("EVALSHA", script.hash(), key, arguments);
    match by_hash.query_async(link).await {
        Err(error) if error.kind() == ErrorKind::Server(ServerErrorKind::NoScript) => {
            command("EVAL", script.text(), key, arguments).query_async(link).await
        }
        other => other,
    }
}

fn command(name: &str, script: &str, key: &str, arguments: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(1).arg(key);
    for argument in arguments {
        command.arg(*argument);
    }
    command
}

/// Reports whether another connection may succeed: this one is lost, or leads to a server that is no longer a master.
fn is_of_the_link(error: &RedisError) -> bool {
    error.kind() == ErrorKind::Server(ServerErrorKind::ReadOnly)
        || error.is_io_error()
        || !matches!(error.retry_method(), RetryMethod::NoRetry)
}

impl ConnectionLike for Link {
    fn req_packed_command<'a>(&'a mut self, command: &'a Cmd) -> RedisFuture<'a, Value> {
        match self {
            Self::One(link) => link.req_packed_command(command),
            Self::Cluster(link) => link.req_packed_command(command),
        }
    }

    fn req_packed_commands<'a>(
        &'a mut self,
        pipeline: &'a redis::Pipeline,
        offset: usize,
        count: usize,
    ) -> RedisFuture<'a, Vec<Value>> {
        match self {
            Self::One(link) => link.req_packed_commands(pipeline, offset, count),
            Self::Cluster(link) => link.req_packed_commands(pipeline, offset, count),
        }
    }

    fn get_db(&self) -> i64 {
        match self {
            Self::One(link) => link.get_db(),
            Self::Cluster(link) => link.get_db(),
        }
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Servers")
    }
}
