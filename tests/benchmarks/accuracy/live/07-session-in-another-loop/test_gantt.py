import pytest
from aiohttp import web


async def plans(request):
    return web.json_response([])


@pytest.fixture
def site():
    application = web.Application()
    application.router.add_get("/plans", plans)
    return application


async def fetch(http, site, path):
    runner = web.AppRunner(site)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    port = runner.addresses[0][1]
    try:
        async with http.get(f"http://127.0.0.1:{port}{path}") as response:
            return await response.json()
    finally:
        await runner.cleanup()


@pytest.mark.asyncio
async def test_plans(http, site):
    assert await fetch(http, site, "/plans") == []


@pytest.mark.asyncio
async def test_plans_again(http, site):
    assert await fetch(http, site, "/plans") == []
