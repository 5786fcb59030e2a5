"""The pure core: reasons, stages, kinds, evidence and the judge.

Nothing in this package imports anything but the standard library, reads a file or looks at a clock.
"""
