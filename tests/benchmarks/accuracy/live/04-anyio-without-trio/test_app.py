import pytest
from httpx import ASGITransport, AsyncClient

from app import app

pytestmark = pytest.mark.anyio


async def test_root():
    transport = ASGITransport(app=app)
    async with AsyncClient(transport=transport, base_url="http://test") as client:
        response = await client.get("/")
    assert response.json() == {"message": "Tomato"}


async def test_no_such_page():
    transport = ASGITransport(app=app)
    async with AsyncClient(transport=transport, base_url="http://test") as client:
        response = await client.get("/none")
    assert response.status_code == 404
