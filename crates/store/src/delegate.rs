//! Delegation of [`Queue`](crate::Queue) and [`Blobs`](crate::Blobs) to a field.

/// Writes methods of [`Queue`](crate::Queue) or [`Blobs`](crate::Blobs) for a wrapper. Each calls the same method of the
/// named field. The wrapper writes the methods that it changes by hand.
///
/// ```
/// use store::{Queue, SqliteStore, StoreError};
/// # use countersign_store as store;
///
/// struct FullQueue {
///     queue: SqliteStore,
/// }
///
/// impl Queue for FullQueue {
///     async fn send(&self, _: &domain::Outgoing) -> Result<(), StoreError> {
///         Err(StoreError::Busy { doing: "send a message" })
///     }
///
///     store::delegate!(queue: receive, extend, delete, dead_letters, redrive, depth, visible);
/// }
/// ```
#[macro_export]
macro_rules! delegate {
    ($field:ident: $($method:ident),+) => { $($crate::delegate!(@$method $field);)+ };

    (@send $f:ident) => {
        $crate::delegate!(@method $f.send(message: &$crate::domain::Outgoing) -> ());
    };
    (@send_all $f:ident) => {
        async fn send_all(&self, messages: &[$crate::domain::Outgoing]) -> Vec<Result<(), $crate::StoreError>> {
            self.$f.send_all(messages).await
        }
    };
    (@receive $f:ident) => {
        $crate::delegate!(@method $f.receive(
            queue: $crate::domain::QueueName,
            max: usize,
            visibility: $crate::domain::Millis,
            wait: ::std::time::Duration
        ) -> Vec<$crate::Delivery>);
    };
    (@extend $f:ident) => {
        $crate::delegate!(@method $f.extend(
            handle: &$crate::Handle,
            visibility: $crate::domain::Millis
        ) -> bool);
    };
    (@delete $f:ident) => { $crate::delegate!(@method $f.delete(handle: &$crate::Handle) -> bool); };
    (@dead_letters $f:ident) => {
        $crate::delegate!(@method $f.dead_letters(limit: u32) -> Vec<$crate::DeadLetter>);
    };
    (@redrive $f:ident) => { $crate::delegate!(@method $f.redrive(limit: u32) -> u32); };
    (@depth $f:ident) => { $crate::delegate!(@method $f.depth(queue: $crate::domain::QueueName) -> u64); };
    (@visible $f:ident) => { $crate::delegate!(@method $f.visible(queue: $crate::domain::QueueName) -> u64); };

    (@put_blob $f:ident) => {
        $crate::delegate!(@method $f.put_blob(
            kind: $crate::BlobKind,
            tenant: &$crate::domain::TenantId,
            bytes: Vec<u8>
        ) -> $crate::domain::BlobRef);
    };
    (@blob $f:ident) => {
        $crate::delegate!(@method $f.blob(
            kind: $crate::BlobKind,
            tenant: &$crate::domain::TenantId,
            blob: &$crate::domain::BlobRef
        ) -> Option<Vec<u8>>);
    };
    (@put_bundle $f:ident) => {
        $crate::delegate!(@method $f.put_bundle(
            tenant: &$crate::domain::TenantId,
            name: &str,
            bytes: Vec<u8>
        ) -> Option<Vec<u8>>);
    };
    (@bundle $f:ident) => {
        $crate::delegate!(@method $f.bundle(
            tenant: &$crate::domain::TenantId,
            name: &str
        ) -> Option<Vec<u8>>);
    };

    (@method $field:ident.$method:ident($($arg:ident: $type:ty),*) -> $value:ty) => {
        async fn $method(&self, $($arg: $type),*) -> Result<$value, $crate::StoreError> {
            self.$field.$method($($arg),*).await
        }
    };
}
