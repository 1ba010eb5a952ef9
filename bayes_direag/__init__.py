r"""Dirichlet evidence aggregation: a calibrated answer from many (answer, confidence) reports.

The symbols of the paper and their names in the code:

=================  =========================================  ==========================
paper              code                                       shape
=================  =========================================  ==========================
q_il               ``confidence``                             (problem, level)
a_il               ``candidate``                              (problem, level)
w_l                ``weight``                                 (level,)
b_l                ``bias``                                   (level,)
s                  ``slope``                                  ()
eta                ``prior_strength``                         ()
beta_0             ``null_base``                              ()
gamma              ``null_gain``                              ()
alpha_i            ``concentration``                          (problem, state)
P_i                ``support``                                (problem, state)
a, b               recalibration ``intercept``, ``slope``     ()
=================  =========================================  ==========================

A state is a candidate or, in the last place, the null "no candidate is right".

Names are loaded when first used, so that reading observations does not load JAX.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
