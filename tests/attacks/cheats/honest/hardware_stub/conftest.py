import sys
import types

gpio = types.ModuleType("GPIO")
gpio.calls = []
gpio.output = lambda *args: gpio.calls.append(args)
sys.modules["GPIO"] = gpio
