"""What every test shares: how hypothesis runs. Laws are about answers; how long one takes is for the benches to say."""

import os

from hypothesis import settings

settings.register_profile("explore", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True)  # the same examples every time
settings.load_profile("ci" if os.environ.get("CI") else "explore")
