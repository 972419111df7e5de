//! The stand-ins for AWS, and what is known of each.

use super::health::Answer;

/// A server that plays AWS, or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StandIn {
    /// All that we use of AWS, Lambda included.
    MiniStack,
    /// The same without Lambda, by the people whose stand-in everybody knows.
    LocalStack,
    /// AWS's own DynamoDB for laptops: the referee for conditions and transactions.
    DynamoDb,
}

/// Everything that could be running.
pub(crate) const ALL: [StandIn; 3] = [StandIn::MiniStack, StandIn::LocalStack, StandIn::DynamoDb];

impl StandIn {
    /// As its makers write it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::MiniStack => "MiniStack",
            Self::LocalStack => "LocalStack",
            Self::DynamoDb => "DynamoDB Local",
        }
    }

    /// What its files are named after.
    pub(crate) fn slug(self) -> &'static str {
        match self {
            Self::MiniStack => "ministack",
            Self::LocalStack => "localstack",
            Self::DynamoDb => "dynamodb",
        }
    }

    /// The variable that names its endpoint. Two of them stand for the same.
    pub(crate) fn variable(self) -> &'static str {
        match self {
            Self::MiniStack | Self::LocalStack => "COUNTERSIGN_AWS",
            Self::DynamoDb => "COUNTERSIGN_DYNAMODB",
        }
    }

    /// Where it listens if nobody says otherwise and nobody else does.
    pub(crate) fn usual_port(self) -> u16 {
        match self {
            Self::MiniStack => 4566,
            Self::LocalStack => 4567,
            Self::DynamoDb => 4569,
        }
    }

    /// What it is asked to find out how it is.
    pub(crate) fn health_path(self) -> &'static str {
        match self {
            Self::MiniStack | Self::LocalStack => "/_localstack/health",
            Self::DynamoDb => "/",
        }
    }

    /// Whether the answer is that of a server that can be used.
    pub(crate) fn is_well(self, answer: &Answer) -> bool {
        match self {
            Self::MiniStack => answer.status == 200,
            // It answers before its DynamoDB does, and the first to ask would wait for seconds.
            Self::LocalStack => answer.status == 200 && answer.body.contains(r#""dynamodb": "running""#),
            // A request without a signature is refused, by whoever is ready to refuse it.
            Self::DynamoDb => answer.status == 400,
        }
    }
}

/// Where a server on this machine is spoken to.
pub(crate) fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn localstack_is_well_only_when_its_dynamodb_is() {
        let answer = |body: &str| Answer { status: 200, body: body.to_owned() };
        assert!(StandIn::LocalStack.is_well(&answer(r#"{"services": {"dynamodb": "running"}}"#)));
        assert!(!StandIn::LocalStack.is_well(&answer(r#"{"services": {"dynamodb": "available"}}"#)));
    }

    #[test]
    fn no_two_share_a_port_or_a_file() {
        for (one, other) in [(0, 1), (0, 2), (1, 2)].map(|(one, other)| (ALL[one], ALL[other])) {
            assert_ne!(one.usual_port(), other.usual_port());
            assert_ne!(one.slug(), other.slug());
        }
    }
}
