//! The store on which a command acts: a file, or AWS in a binary built with the feature `aws`.
//!
//! Only this module depends on the feature.

#[cfg(feature = "aws")]
mod aws;

use store::SqliteStore;

pub(crate) use aws::AwsAccount;

#[derive(Clone)]
pub(crate) enum AnyStore {
    File(SqliteStore),
    #[cfg(feature = "aws")]
    Aws(aws::AccountStore),
}

/// Evaluates the expression with the open store; it is compiled once for each type of store.
macro_rules! with_store {
    ($any_store:expr, |$store:ident| $body:expr) => {
        match $any_store {
            $crate::any_store::AnyStore::File($store) => $body,
            #[cfg(feature = "aws")]
            $crate::any_store::AnyStore::Aws($store) => $body,
        }
    };
}
pub(crate) use with_store;

/// Stands in for the account in a binary without AWS support.
#[cfg(not(feature = "aws"))]
mod aws {
    use super::AnyStore;
    use crate::error::CliError;
    use crate::input::Variable;

    /// An account that cannot be opened.
    #[derive(Debug, Clone)]
    pub(crate) enum AwsAccount {}

    impl AwsAccount {
        pub(crate) async fn open(_: Variable) -> Result<Self, CliError> {
            let text = "this binary was built without AWS support; run `cargo install --path crates/cli --features \
                        aws`";
            std::future::ready(Err(CliError::Usage(text.to_owned()))).await
        }

        pub(crate) fn store(&self) -> AnyStore {
            match *self {}
        }

        pub(crate) fn name(&self) -> String {
            match *self {}
        }
    }
}
