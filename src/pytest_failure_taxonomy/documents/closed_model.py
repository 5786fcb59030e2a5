"""The base of the models of files and reports."""

from pydantic import BaseModel, ConfigDict


class ClosedModel(BaseModel):
    """A value: closed, strict, and never changed; a docstring below a field describes it."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        use_attribute_docstrings=True,
    )
