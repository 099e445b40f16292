"""What every test shares: how hypothesis runs. Laws are about answers; how long one takes is for the benches to say."""

from hypothesis import settings

settings.register_profile("dovetail", deadline=None)
settings.load_profile("dovetail")
