from django.db import models


class Rate(models.Model):
    percent = models.IntegerField()
