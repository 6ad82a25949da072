"""Status codes, exceptions and the thread's last error."""

from __future__ import annotations

import pickle
import threading
from pathlib import Path

import pytest

from ge2rt.base import errors
from ge2rt.base.errors import (
    STATUS_TABLE,
    DeviceError,
    ErrorRecord,
    Ge2rtError,
    InvalidArgumentError,
    Status,
    last_error,
    set_last_error,
)

DOCS = Path(__file__).parents[2] / "docs"


def test_codes_are_frozen():
    assert {s.name: int(s) for s in Status} == {
        "OK": 0, "INVALID": -1, "DEVICE": -2, "NOT_IMPLEMENTED": -3, "COMPILE": -4, "MEMORY": -5,
        "VERSION": -6, "INTERNAL": -7,
    }  # fmt: skip


def test_each_code_has_one_row_and_one_exception():
    assert [row.status for row in STATUS_TABLE] == list(Status)
    for row in STATUS_TABLE[1:]:
        assert row.exception is not None
        assert row.exception.code == row.status


def test_documented_table_is_the_one_in_code():
    text = (DOCS / "contract.md").read_text(encoding="utf-8")
    for row in STATUS_TABLE:
        name = row.exception.__name__ if row.exception else "-"
        cells = (int(row.status), row.status.name, name, row.meaning, row.next_step or "-")
        assert "| " + " | ".join(map(str, cells)) + " |" in text


def test_exceptions_are_also_the_builtin_ones_people_catch():
    assert issubclass(errors.InvalidArgumentError, ValueError)
    assert issubclass(errors.InvalidTypeError, TypeError)
    assert issubclass(errors.UnsupportedError, NotImplementedError)
    assert issubclass(errors.OutOfMemoryError, MemoryError)
    assert all(issubclass(row.exception, Ge2rtError) for row in STATUS_TABLE if row.exception)


def test_message_says_where_what_and_the_next_step():
    fault = InvalidArgumentError(
        "extent differs", kernel="copy", argument="y", expected="4", got="5",
        next_step="Resize it.", where="k.yaml:3:1",
    )  # fmt: skip
    assert str(fault) == (
        "[-1 INVALID] k.yaml:3:1: copy, argument 'y': extent differs; expected 4, got 5. Resize it."
    )


def test_about_fills_only_what_is_missing():
    fault = DeviceError("trap", kernel="inner").about(kernel="outer", argument="x")
    assert isinstance(fault, DeviceError)
    assert (fault.record.kernel, fault.record.argument) == ("inner", "x")


def test_detail_numbers_are_ge_v2s():
    assert InvalidArgumentError("x", detail="stride").record.detail_number == 104
    assert InvalidArgumentError("x", detail="no such").record.detail_number == 999


def test_last_error_belongs_to_the_thread():
    set_last_error(ErrorRecord(Status.INVALID, "here"))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(last_error()))
    thread.start()
    thread.join()
    assert seen == [None]
    assert last_error().message == "here"
    set_last_error(None)


def test_registry_error_carries_all_faults():
    fault = errors.RegistryError("two faults", faults=("a", "b"))
    assert fault.faults == ("a", "b")
    with pytest.raises(ValueError):
        raise fault


def _failing(text, **parts):
    """A call of the library's that fails: its frame belongs to a module of the package."""
    scope = {"__name__": "ge2rt.somewhere", "fault": InvalidArgumentError(text, **parts)}
    exec("def call():\n    raise fault", scope)
    call = scope["call"]
    scope.clear()
    scope["fault"] = InvalidArgumentError(text, **parts)
    return call


def test_last_error_of_a_call_that_raised():
    set_last_error(None)
    try:
        _failing("first")()
    except InvalidArgumentError as fault:
        told, record = last_error(), fault.record
    assert told is record
    assert last_error().message == "first"  # the error itself is gone
    with pytest.raises(InvalidArgumentError) as kept:
        _failing("second")()
    assert last_error() is kept.value.record
    set_last_error(ErrorRecord(Status.INVALID, "a code"))
    assert last_error().message == "a code"
    del kept  # older than the code
    assert last_error().message == "a code"
    set_last_error(None)


def test_an_error_that_the_library_handles_is_not_the_last():
    set_last_error(None)
    scope = {"__name__": "ge2rt.somewhere", "call": _failing("handled"), "E": InvalidArgumentError}
    exec("def handles():\n    try:\n        call()\n    except E:\n        return 1", scope)
    assert scope["handles"]() == 1
    assert last_error() is None
    InvalidArgumentError("never raised")
    assert last_error() is None


def test_an_error_out_of_a_pickle_is_the_last_where_it_is_raised():
    set_last_error(None)
    with pytest.raises(InvalidArgumentError):
        raise pickle.loads(pickle.dumps(InvalidArgumentError("from a pool")))
    assert last_error().message == "from a pool"
    set_last_error(None)
