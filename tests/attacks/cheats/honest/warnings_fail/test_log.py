import logging


def test_quiet():
    logging.error("disk is full")
