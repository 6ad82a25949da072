"""API versions: ours, the caller's, a client module's."""

from __future__ import annotations

import types
import warnings

import pytest

from ge2rt.base.errors import VersionError
from ge2rt.spec.version import GE2_API_VERSION, check_api_version, check_client


def test_the_version_is_frozen() -> None:
    assert GE2_API_VERSION == 1


def test_equal_versions_are_silent() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert check_api_version(1)
        assert check_client(types.SimpleNamespace(GE2_API_VERSION=1))
        assert check_client(types.SimpleNamespace(ge_v2_api_version=lambda: 1), strict=True)


@pytest.mark.parametrize("expected", [2, 0, True, "1", None])
def test_a_mismatch_warns_and_strict_raises(expected: int) -> None:
    with pytest.warns(RuntimeWarning, match="expected GE2_API_VERSION 1, got"):
        assert not check_api_version(expected)
    with pytest.raises(VersionError, match="the caller was written for another API version"):
        check_api_version(expected, strict=True)


def test_the_warning_points_at_the_caller() -> None:
    with pytest.warns(RuntimeWarning) as caught:
        check_api_version(2)
    assert caught[0].filename == __file__


def test_clients() -> None:
    client = types.ModuleType("client")
    with pytest.warns(RuntimeWarning, match="module client states no API version"):
        assert not check_client(client)
    client.GE2_API_VERSION = 3  # type: ignore[attr-defined]
    with pytest.raises(VersionError, match="module client was written for another API version"):
        check_client(client, strict=True)
