import aiohttp
import pytest_asyncio


@pytest_asyncio.fixture(scope="session")
async def http():
    session = aiohttp.ClientSession()
    yield session
    await session.close()
