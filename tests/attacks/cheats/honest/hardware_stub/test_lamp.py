import GPIO
import lamp


def test_on():
    lamp.switch_on()
    assert GPIO.calls == [(4, True)]
