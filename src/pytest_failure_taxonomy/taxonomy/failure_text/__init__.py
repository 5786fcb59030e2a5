"""What sort of failure a text or an exception tells of."""

from pytest_failure_taxonomy.taxonomy.failure_text.classifier import classify_failure
from pytest_failure_taxonomy.taxonomy.failure_text.exception_types import (
    failure_type_at_head,
    failure_type_of,
)

__all__ = ["classify_failure", "failure_type_at_head", "failure_type_of"]
