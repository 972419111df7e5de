//! The AWS emulators and their properties.

use super::health::Response;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Emulator {
    /// Emulates every service that Countersign uses, Lambda included.
    MiniStack,
    /// Emulates the same services, but runs no Lambda functions without Docker.
    LocalStack,
    /// AWS's own DynamoDB emulator: the reference for conditions and transactions.
    DynamoDb,
}

pub(crate) const ALL: [Emulator; 3] = [Emulator::MiniStack, Emulator::LocalStack, Emulator::DynamoDb];

impl Emulator {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MiniStack => "MiniStack",
            Self::LocalStack => "LocalStack",
            Self::DynamoDb => "DynamoDB Local",
        }
    }

    /// The prefix of its file names.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::MiniStack => "ministack",
            Self::LocalStack => "localstack",
            Self::DynamoDb => "dynamodb",
        }
    }

    /// The environment variable for its endpoint. MiniStack and LocalStack share one.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::MiniStack | Self::LocalStack => "COUNTERSIGN_AWS",
            Self::DynamoDb => "COUNTERSIGN_DYNAMODB",
        }
    }

    pub(crate) fn default_port(self) -> u16 {
        match self {
            Self::MiniStack => 4566,
            Self::LocalStack => 4567,
            Self::DynamoDb => 4569,
        }
    }

    pub(crate) fn health_path(self) -> &'static str {
        match self {
            Self::MiniStack | Self::LocalStack => "/_localstack/health",
            Self::DynamoDb => "/",
        }
    }

    /// Whether the response to a health check means that the emulator is ready.
    pub(crate) fn is_healthy(self, response: &Response) -> bool {
        match self {
            Self::MiniStack => response.status == 200,
            // LocalStack responds before its DynamoDB is ready, and the first request would wait for seconds.
            Self::LocalStack => response.status == 200 && response.body.contains(r#""dynamodb": "running""#),
            // DynamoDB Local rejects a request without a signature once it is ready.
            Self::DynamoDb => response.status == 400,
        }
    }
}

/// The URL of an emulator on this machine.
pub(crate) fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localstack_is_healthy_only_with_dynamodb() {
        let response = |body: &str| Response { status: 200, body: body.to_owned() };
        assert!(Emulator::LocalStack.is_healthy(&response(r#"{"services": {"dynamodb": "running"}}"#)));
        assert!(!Emulator::LocalStack.is_healthy(&response(r#"{"services": {"dynamodb": "available"}}"#)));
    }

    #[test]
    fn emulators_share_no_port_and_no_file_name() {
        for (one, other) in [(0, 1), (0, 2), (1, 2)].map(|(one, other)| (ALL[one], ALL[other])) {
            assert_ne!(one.default_port(), other.default_port());
            assert_ne!(one.slug(), other.slug());
        }
    }
}
