"""``Tensor``: sizes, strides, offset and dtype over a storage that others may share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ge2rt.base.dtypes import DType, dtype_of
from ge2rt.base.errors import InvalidArgumentError, InvalidTypeError
from ge2rt.base.shapes import canonical_strides, size_of
from ge2rt.device.api import Device
from ge2rt.device.array import DeviceArray
from ge2rt.device.registry import get_device
from ge2rt.spec.model import BufferDesc
from ge2rt.tensors import geometry as geo
from ge2rt.tensors.geometry import Geometry, refuse
from ge2rt.tensors.storage import Storage, of_array


class Tensor:
    """An array on a device.

    A tensor is made from values (``ge2rt.tensor``) or by a factory; views of it share its storage
    and cost nothing. What is computed from a tensor with ``requires_grad`` records how, for
    ``backward``. Everything is computed by kernels on the tensor's device.
    """

    __array_priority__ = 2000.0
    layout = "strided"

    # what most tensors never set stands in the class, so that making one is two assignments
    _storage: Storage | None = None
    _geometry: Geometry | None = None
    _base: Tensor | None = None
    _born: Any = None  # the history of the base when the view's own was made
    _quiet: bool = False  # a view made while nothing was recorded: it has no history, ever
    _grad: Any = None
    history: Any = None  # (step of the tape, output number)
    hooks: list[Callable[[Tensor], Tensor | None]] | None = None  # of a leaf, see ``hooks_of``
    requires_grad: bool = False

    def __init__(self, array: Any, device: Device | None = None) -> None:
        self._array = array
        self._device = device if device is not None else _home(array)

    # -- what it is ------------------------------------------------------------------------------
    @property
    def shape(self) -> tuple[int, ...]:
        """Extents."""
        shape: tuple[int, ...] = self._array.shape
        return shape

    @property
    def strides(self) -> tuple[int, ...]:
        """Elements between neighbours along each axis; negative where it runs backwards."""
        return self.geometry.strides

    @property
    def offset(self) -> int:
        """Element of the storage where the tensor begins."""
        return self.geometry.offset

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return size_of(self.shape)

    @property
    def dtype(self) -> DType:
        """The element type."""
        return dtype_of(self._array.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements; the storage may be larger."""
        return self.size * self.itemsize

    @property
    def device(self) -> str:
        """Name of the device: ``cpu``, ``cuda:0``..."""
        return self._device.name

    @property
    def geometry(self) -> Geometry:
        """Sizes, strides and offset, in elements."""
        self.storage()
        assert self._geometry is not None
        return self._geometry

    def storage(self) -> Storage:
        """The storage, which views share."""
        if self._storage is None:
            self._storage, self._geometry = of_array(self._array, self._device)
        return self._storage

    def data_ptr(self) -> int:
        """Address of the first element."""
        g = self.geometry
        return self.storage().address + g.offset * self.itemsize

    @property
    def desc(self) -> BufferDesc:
        """What a kernel's call needs to know, for the address that ``data_ptr`` gives."""
        shape = self.shape
        strides = canonical_strides(shape, self.geometry.strides)
        return BufferDesc(shape, self.dtype, strides, device=self.device)

    def is_contiguous(self) -> bool:
        """Whether the elements lie row-major without gaps."""
        return bool(self._array.flags.c_contiguous)

    @property
    def is_leaf(self) -> bool:
        """Whether nothing that is recorded led to it."""
        return self.history is None and not is_stale(self)

    @property
    def array(self) -> Any:
        """The device's array over the same memory (NumPy on ``cpu``); no copy."""
        return self._array

    # -- views -----------------------------------------------------------------------------------
    def as_view(self, geometry: Geometry) -> Tensor:
        """A tensor over the same storage, without a record of how it was made."""
        storage = self.storage()
        made = Tensor(storage.array(geometry), self._device)
        made._storage, made._geometry = storage, geometry
        base = base_of(self)
        if base is None:
            made._base, made._born = self, self.history
        else:  # a view of a view is as old as that one
            made.take_place_of(self)
        return made

    def take_place_of(self, view: Tensor) -> None:
        """Be a view of what another tensor over the storage is a view of, and as old."""
        self._base, self._born = view._base, view._born
        if view._quiet:
            self._quiet = True

    def __getitem__(self, index: Any) -> Tensor:
        """A view for ints, slices, ``...`` and None; what is read at arrays of indices else."""
        from ge2rt.tensors.indexing import get  # late: it needs this class

        return get(self, index)

    def __setitem__(self, index: Any, value: Any) -> None:
        """Write into the view of an index."""
        from ge2rt.tensors.indexing import put

        put(self, index, value)

    def __len__(self) -> int:
        if not self.shape:
            raise InvalidTypeError("len() of a 0-d tensor", next_step="use .size")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    # -- values ----------------------------------------------------------------------------------
    def numpy(self) -> Any:
        """The elements as a NumPy array: the same memory on ``cpu``, a copy from elsewhere.

        TypeError where the tensor has a history: detach it first.
        """
        if self.requires_grad or is_stale(self):
            raise InvalidTypeError(
                "a tensor with a derivative recorded is no plain array",
                next_step="use x.detach().numpy()",
            )  # fmt: skip
        return self._host()

    def _host(self) -> Any:
        array = self._array
        return array if isinstance(array, np.ndarray) else array.get()

    def item(self) -> bool | int | float:
        """The one element as a Python number; ValueError where there are several."""
        if self.size != 1:
            raise refuse("item", f"{self.size} elements", hint="index one of them, or use tolist()")
        value: bool | int | float = self._host().item()
        return value

    def tolist(self) -> Any:
        """Nested lists of Python numbers; a number for a 0-d tensor."""
        return self._host().tolist()

    def __bool__(self) -> bool:
        if self.size != 1:
            raise InvalidArgumentError(
                f"the truth of {self.size} elements is ambiguous", next_step="use .any() or .all()"
            )
        return bool(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __index__(self) -> int:
        if not (self.dtype.is_integer and not self.shape):
            raise InvalidTypeError(
                "only a 0-d tensor of integers is an index", got=repr(self.dtype)
            )
        return int(self.item())

    def __repr__(self) -> str:
        from ge2rt.tensors.printing import text  # late: it is for people

        return text(self)

    def __format__(self, spec: str) -> str:
        """The one element of a 0-d tensor by the specification, as of a Python number."""
        if not spec:
            return str(self)
        if self.shape:
            raise InvalidTypeError(
                f"a tensor of shape {self.shape} has no format {spec!r}",
                next_step="format x.item() of one element, or each of x.tolist()",
            )  # fmt: skip
        return format(self.item(), spec)

    def __reduce_ex__(self, protocol: Any) -> Any:
        """For ``copy`` and ``pickle``: elements, device, gradient; refused for a history."""
        from ge2rt.tensors.copies import reduced

        return reduced(self)

    __hash__ = object.__hash__

    # -- derivatives -----------------------------------------------------------------------------
    @property
    def grad(self) -> Any:
        """The gradient that ``backward`` added up: a tensor of this shape, or None.

        Rows of an embedding may come as a ``ge2rt.sparse.Coo``. Set to it, InvalidTypeError for
        what is no tensor, a trace's symbols among that, and ValueError for another shape.
        """
        return self._grad

    @grad.setter
    def grad(self, value: Any) -> None:
        """Set or, by None, forget it."""
        fits = value is None or (type(value) is Tensor and value.shape == self.shape)
        if not fits:
            from ge2rt.tensors.slopes import refuse_gradient  # late: it needs this class

            refuse_gradient(self, value)
        self._grad = value

    def requires_grad_(self, wanted: bool = True) -> Tensor:
        """Record from now on what is computed from it. TypeError for integers."""
        if wanted and not self.dtype.is_float:
            raise InvalidTypeError(
                "only floating point tensors have gradients", got=str(self.dtype),
                next_step="convert it first, e.g. x.astype('f32')",
            )  # fmt: skip
        if not wanted and self.history is not None:
            raise InvalidArgumentError(
                "a tensor that was computed keeps its record", next_step="use x.detach()"
            )
        self.requires_grad = wanted
        return self

    def detach(self) -> Tensor:
        """The same memory without a history."""
        made = self.as_view(self.geometry)
        made._base = made._born = None
        made._quiet = False
        return made

    def backward(self, gradient: Any = None, *, retain_graph: bool = False,
                 create_graph: bool = False) -> None:  # fmt: skip
        """Add to ``.grad`` of the leaves; ``gradient`` is this tensor's own, 1 for a 0-d tensor."""
        from ge2rt.tensors.tape import backward

        backward([self], [gradient], retain_graph=retain_graph, create_graph=create_graph)

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> Callable[[], None]:
        """Call ``hook`` with each gradient of this tensor; what it returns takes its place.

        Returns a function that removes it.
        """
        from ge2rt.tensors.tape import renew  # late: it needs this class

        renew([self])
        if not self.requires_grad:
            raise InvalidArgumentError(
                "a tensor without requires_grad has no gradient", next_step="x.requires_grad_()"
            )
        history = self.history  # what is computed in place afterwards has no such hook

        def change(hooks: list[Callable[[Tensor], Tensor | None]]) -> None:
            if history is None:
                self.hooks = hooks
            else:
                history[0].hooks = {**(history[0].hooks or {}), history[1]: hooks}

        def remove() -> None:
            change([each for each in hooks_of(self, history) if each is not hook])

        change([*hooks_of(self, history), hook])
        return remove

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        import importlib

        return importlib.import_module("ge2rt.array_api")  # from above

    # -- other libraries -------------------------------------------------------------------------
    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        array = self.numpy()
        return np.array(array, dtype=dtype, copy=copy) if dtype or copy else array

    def __dlpack__(self, **options: Any) -> Any:
        return self._plain().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        found: tuple[int, int] = self._array.__dlpack_device__()
        return found

    def _plain(self) -> Any:
        if self.requires_grad or is_stale(self):
            raise InvalidTypeError(
                "a tensor with a derivative recorded is no plain array",
                next_step="use x.detach()",
            )  # fmt: skip
        return self._array

    @property
    def __cuda_array_interface__(self) -> Any:
        return (
            self._array.__cuda_array_interface__
        )  # an AttributeError on host memory, as it should


def base_of(view: Tensor) -> Tensor | None:
    """What a tensor is a view of: nothing any more where one of the two was moved elsewhere."""
    base = view._base
    return base if base is not None and base._storage is view._storage else None


def is_stale(view: Tensor) -> bool:
    """Whether the base of a view got another history since the view's own was made."""
    base = view._base
    return (
        base is not None and view._born is not base.history and not view._quiet
        and base._storage is view._storage
    )  # fmt: skip


def hooks_of(tensor: Tensor, history: Any) -> list[Callable[[Tensor], Tensor | None]]:
    """Hooks of a tensor as it was with a history: a step has those of its outputs."""
    if history is None:
        return tensor.hooks or []
    found: list[Callable[[Tensor], Tensor | None]] = (history[0].hooks or {}).get(history[1], [])
    return found


def _home(array: Any) -> Device:
    """The device on which an array lies."""
    if isinstance(array, np.ndarray):
        return get_device("cpu")
    if isinstance(array, DeviceArray):
        return array.device
    return get_device(f"cuda:{array.device.id}")


def geometry_of(shape: Any) -> Geometry:
    """The row-major geometry of a shape as people give it."""
    return geo.dense(geo.ints("shape", shape))
