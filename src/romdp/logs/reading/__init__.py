"""Tables of logged decisions in, counts out."""
