import GPIO


def switch_on():
    GPIO.output(4, True)
