"""Properties, judged by what is found against them and never by how long an example takes: the
machine may be busy.
"""

from hypothesis import HealthCheck, given, settings

settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

__all__ = ["given", "settings"]
