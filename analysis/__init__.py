"""What comes out: evaluation, diagnosis and comparison, as functions and as commands.

:func:`evaluate`, :func:`compare` and :func:`diagnose` are what the commands of these names call. Names are loaded when
first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
