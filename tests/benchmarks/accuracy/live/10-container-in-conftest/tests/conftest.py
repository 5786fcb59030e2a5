import pytest
from testcontainers.core.container import DockerContainer

cassandra = DockerContainer("cassandra:4.1.4").with_exposed_ports(9042)


@pytest.fixture(scope="session")
def database():
    with cassandra as container:
        yield container.get_exposed_port(9042)
