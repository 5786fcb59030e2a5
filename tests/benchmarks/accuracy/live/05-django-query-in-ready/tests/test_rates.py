import pytest

from shop.models import Rate


@pytest.mark.django_db
def test_rate():
    assert Rate.objects.create(percent=3).percent == 3
