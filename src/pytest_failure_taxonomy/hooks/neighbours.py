"""The hooks by which the neighbours of the core, such as the bench, add to a report.

The core declares them when a report is asked for. They may change with any version.
"""

from __future__ import annotations

import pytest

from pytest_failure_taxonomy.report.model import FailureReport
from pytest_failure_taxonomy.taxonomy.amendments import (
    Amendment,
    ReportSection,
    SectionPlace,
)


class NeighbourSpecs:
    """What neighbours implement, and what they call."""

    @pytest.hookspec
    def pytest_failure_taxonomy_section_begun(self, place: SectionPlace) -> None:
        """Record where a neighbour keeps what it has, in case this process dies.

        Called by the neighbour.
        """

    @pytest.hookspec
    def pytest_failure_taxonomy_section(
        self, config: pytest.Config
    ) -> ReportSection | None:
        """Return a field of the report; called once, when the session is over."""

    @pytest.hookspec
    def pytest_failure_taxonomy_amend(
        self,
        report: FailureReport,
        is_final: bool,  # noqa: FBT001 - pluggy gives it by name
    ) -> Amendment | None:
        """Add what else is known about failures; the core judges it.

        `is_final` is false where the run's exit code is not decided yet: nothing may
        be recorded then.
        """
