"""Settings that all tests share."""

from hypothesis import settings

# A kernel that is compiled inside a property test takes longer than any deadline.
settings.register_profile("romdp", deadline=None, derandomize=True)
settings.load_profile("romdp")
