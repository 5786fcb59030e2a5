from collections.abc import Callable

from pytest_failure_taxonomy.logs.log_lines import find_marker as find_marker
from pytest_failure_taxonomy.report.load import load_report as load_report
from pytest_failure_taxonomy.report.merging import merge_reports as merge_reports
from pytest_failure_taxonomy.report.model import FailureReport as FailureReport
from pytest_failure_taxonomy.taxonomy.failure_text import (
    classify_failure as classify_failure,
)
from pytest_failure_taxonomy.taxonomy.judgement import FailureReason as FailureReason
from pytest_failure_taxonomy.taxonomy.judgement import FailureType as FailureType
from pytest_failure_taxonomy.taxonomy.judgement import RecoveryAction as RecoveryAction
from pytest_failure_taxonomy.taxonomy.judgement import Stage as Stage
from pytest_failure_taxonomy.taxonomy.judgement import (
    is_circular_fix as is_circular_fix,
)
from pytest_failure_taxonomy.taxonomy.judgement import primary_reason as primary_reason
from pytest_failure_taxonomy.taxonomy.judgement import (
    recommend_recovery as recommend_recovery,
)

VERSION: str

def load_when_used(
    package: str, homes: dict[str, str]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]: ...
