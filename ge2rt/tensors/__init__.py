"""Tensors: storage apart from its views, dispatch in layers, derivatives recorded on the way.

Importing the package gives ``Tensor`` its methods.
"""

from __future__ import annotations

from ge2rt.tensors import autograd, dispatch, methods, ops
from ge2rt.tensors.tensor import Tensor

methods.attach()

__all__ = ["Tensor", "autograd", "dispatch", "ops"]
