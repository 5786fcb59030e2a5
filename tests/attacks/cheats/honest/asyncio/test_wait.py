import asyncio

import pytest


@pytest.mark.asyncio
async def test_wait():
    assert await asyncio.sleep(0, "done") == "done"
