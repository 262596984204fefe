"""Learn the few hidden states behind many observations while acting."""

__version__ = "0.1.0"
