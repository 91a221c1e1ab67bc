//! The password of one login; a refused one is requested again from its source.

use crate::credentials::Credential;
use crate::postgres::{Error, ServerOptions};
use crate::secret::Secret;
use crate::wire::ServerError;

/// The credential of one login. If the server refuses it and the source has another one by then, that is tried immediately.
pub(in crate::postgres) struct Login<'a> {
    options: &'a ServerOptions,
    credential: Option<Credential>,
    is_second: bool,
}

impl<'a> Login<'a> {
    /// Asks for the credential of this moment.
    ///
    /// # Errors
    /// When the source fails.
    pub(in crate::postgres) async fn begin(options: &'a ServerOptions) -> Result<Self, Error> {
        Ok(Self { options, credential: fetch(options).await?, is_second: false })
    }

    pub(in crate::postgres) fn password(&self) -> Option<&Secret> {
        self.credential.as_ref().map(|credential| &credential.value)
    }

    /// Asks for another credential after a failure. With Ok the caller tries again.
    ///
    /// # Errors
    /// The failure, when there is no other credential, or when it has another cause.
    pub(super) async fn renew_after(&mut self, error: Error) -> Result<(), Error> {
        let (Some(source), Some(refused)) = (self.options.password.renewable(), &self.credential) else {
            return Err(error);
        };
        if !error.refuses_credential() {
            return Err(error);
        }
        self.options.password.forget(refused).await;
        if self.is_second {
            return Err(error.renewable(source));
        }
        let credential = fetch(self.options).await?;
        if credential.as_ref().is_none_or(|credential| credential.value == refused.value) {
            return Err(error.renewable(source));
        }
        (self.credential, self.is_second) = (credential, true);
        Ok(())
    }
}

async fn fetch(options: &ServerOptions) -> Result<Option<Credential>, Error> {
    let fetched = options.password.fetch(&options.target()).await;
    fetched.map_err(|source| Error::Credential { address: options.address(), source })
}

/// Reports whether the server refuses the password or token itself: by 28P01 or, as PAM does, by 28000 with this text. A role
/// that may not log in and a line that is missing in `pg_hba.conf` have 28000 too.
pub(in crate::postgres) fn refuses_credential(refusal: &ServerError) -> bool {
    match refusal.code.as_str() {
        "28P01" => true,
        "28000" => refusal.message.contains("authentication failed for user"),
        _ => false,
    }
}
