import pytest
import pytest_asyncio
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine

from shop import Base, Line, Order, total


@pytest_asyncio.fixture
async def engine():
    engine = create_async_engine("sqlite+aiosqlite://")
    async with engine.begin() as connection:
        await connection.run_sync(Base.metadata.create_all)
    async with AsyncSession(engine) as session:
        session.add(Order(id=1, lines=[Line(cents=5), Line(cents=7)]))
        await session.commit()
    yield engine
    await engine.dispose()


@pytest.mark.asyncio
async def test_total(engine):
    async with AsyncSession(engine) as session:
        assert await total(session, 1) == 12
