"""The place in the user's own code that a failure comes from."""

from __future__ import annotations

from pytest_failure_taxonomy.taxonomy.values import value


@value
class OriginPlace:
    """A place that edits elsewhere in the file, other folders and other machines don't move.

    It holds no line number and no absolute path.
    """

    path: str
    """Relative to the root directory, or to where its package is imported from."""
    function: str
    """Qualified name of the function, `<module>` outside of any; empty where none ran."""
    text: str = ""
    """The statement, on one line; empty where it isn't the user's or can't be had."""
    entry: str = ""
    """`path: function` of the user's outermost function on the way, if that is another one."""
    leaf: str = ""
    """Of an exception group: the type of the exception in it that the place belongs to."""
