from django.apps import AppConfig


class ShopConfig(AppConfig):
    name = "shop"
    rates = ()

    def ready(self):
        from .models import Rate

        self.rates = tuple(Rate.objects.all())
