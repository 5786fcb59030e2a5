"""How often the answers agree with labels that other people gave."""
