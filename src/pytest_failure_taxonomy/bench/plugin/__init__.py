"""The part of the bench layer that faces pytest."""
