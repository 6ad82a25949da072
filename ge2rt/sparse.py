"""Sparse tensors: ``Coo``, ``Csr`` and ``from_dense``."""

from __future__ import annotations

from ge2rt.tensors.sparse import Coo, Csr, from_dense

__all__ = ["Coo", "Csr", "from_dense"]
