"""Keys: named parts, includes, explanations; headers of the wheels as they are installed."""

from __future__ import annotations

import pytest

from ge2rt.build import headers, nvrtc
from ge2rt.build.key import compile_key, explain, find_includes
from ge2rt.build.records import Key, Source


@pytest.fixture
def site(tmp_path, monkeypatch):
    """A site-packages folder that alone is searched."""
    folder = tmp_path / "site"
    (folder / "nvidia").mkdir(parents=True)
    monkeypatch.setattr("sys.path", [str(folder)])
    for name in ("CUDA_HOME", "CUDA_PATH"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setattr("ge2rt.build.headers._STANDARD_HOME", str(tmp_path / "none"))
    nvrtc.clear()
    yield folder
    nvrtc.clear()


def put(folder, *paths):
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text("")


def dist(folder, *names):
    for name in names:
        (folder / f"{name}.dist-info").mkdir()


CU12 = ("nvidia/cuda_nvrtc/lib/libnvrtc.so.12", "nvidia/cuda_runtime/include/cuda_fp16.h",
        "nvidia/cuda_cccl/include/nv/target")  # fmt: skip
CU13 = ("nvidia/cu13/lib/libnvrtc.so.13", "nvidia/cu13/include/cuda_fp16.h",
        "nvidia/cu13/include/cccl/nv/target")  # fmt: skip


def test_wheels_of_cuda_12(site):
    put(site, *CU12)
    dist(site, "nvidia_cuda_nvrtc_cu12-12.9.86", "nvidia_cuda_runtime_cu12-12.9.79", "other-1.0")
    kit = headers.toolkit()
    assert kit.major == 12
    assert kit.library == str(site / CU12[0])
    assert kit.nvrtc == nvrtc.version() == "12.9.86"
    assert kit.include_dirs == (
        str(site / "nvidia/cuda_runtime/include"), str(site / "nvidia/cuda_cccl/include"),
    )  # fmt: skip
    assert kit.fingerprint == "nvidia-cuda-runtime-cu12==12.9.79"


def test_wheels_of_cuda_13(site):
    put(site, *CU13)
    dist(site, "nvidia_cuda_nvrtc-13.0.88", "nvidia_cuda_runtime-13.0.96")
    kit = headers.toolkit()
    assert (kit.major, kit.nvrtc, kit.library) == (13, "13.0.88", str(site / CU13[0]))
    assert kit.include_dirs == (
        str(site / "nvidia/cu13/include"), str(site / "nvidia/cu13/include/cccl"),
    )  # fmt: skip
    assert kit.versions == (("nvidia-cuda-runtime", "13.0.96"),)


@pytest.mark.parametrize(("cupy", "major"), [("cupy_cuda12x", 12), ("cupy_cuda13x", 13), ("", 13)])
def test_of_two_toolkits_cupy_decides(site, cupy, major):
    put(site, *CU12, *CU13)
    dist(site, *([f"{cupy}-14.0.0"] if cupy else []))
    assert headers.toolkit().major == major


def test_windows_names(site):
    put(site, "nvidia/cuda_nvrtc/bin/nvrtc64_120_0.dll")
    assert headers.toolkit().library.endswith("nvrtc64_120_0.dll")


def test_a_toolkit_by_cuda_home(site, tmp_path, monkeypatch):
    put(tmp_path, "cuda/include/cuda.h", "cuda/lib64/libnvrtc.so.12")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path / "cuda"))
    kit = headers.toolkit()
    assert (kit.major, kit.include_dirs) == (12, (str(tmp_path / "cuda/include"),))


def test_nothing_installed(site, monkeypatch):
    assert headers.toolkit() == headers.Toolkit(0, (), "", "", ())
    monkeypatch.setitem(__import__("sys").modules, "cupy.cuda", None)
    assert nvrtc.version() == ""
    with pytest.raises(
        nvrtc.CompileError, match=r"no CUDA compiler.*pip install 'ge2rt\[cuda12\]'"
    ):
        nvrtc.compiler()


@pytest.mark.parametrize(
    ("header", "cu12", "cu13"),
    [
        ("mma.h", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-crt"),
        ("crt/mma.h", "nvidia-cuda-nvcc-cu12", "nvidia-cuda-crt"),
        ("nv/target", "nvidia-cuda-cccl-cu12", "nvidia-cuda-cccl"),
        ("cuda/std/atomic", "nvidia-cuda-cccl-cu12", "nvidia-cuda-cccl"),
        ("cuda_fp16.h", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"),
        ("cooperative_groups.h", "nvidia-cuda-runtime-cu12", "nvidia-cuda-runtime"),
        ("curand_kernel.h", "nvidia-curand-cu12", "nvidia-curand"),
        ("mine.h", "", ""),
    ],
)
def test_wheels_of_headers(site, header, cu12, cu13):
    put(site, *CU12)
    assert headers.wheel_of(header) == cu12
    put(site, *CU13)
    headers.toolkit.cache_clear()
    assert headers.wheel_of(header) == cu13


@pytest.fixture
def own(tmp_path):
    folder = tmp_path / "own"
    put(folder, "x")
    (folder / "a.h").write_text('#include "sub/b.h"\n')
    (folder / "sub").mkdir()
    (folder / "sub/b.h").write_text('#  include "c.h"\nint b;')
    (folder / "sub/c.h").write_text('#include "../a.h"\n')
    return folder


def test_includes_are_followed(site, own):
    put(site, *CU12)
    text = '#include <cuda_fp16.h>\n  # include "a.h"\n#include <gone.h>\n'
    found = find_includes(text, [f"-I{own}"])
    assert found.shipped
    assert [path.rpartition("own")[2].replace("\\", "/") for path, _ in found.user] == [
        "/a.h", "/sub/b.h", "/sub/c.h",
    ]  # fmt: skip
    assert found.missing == ("gone.h",)


@pytest.mark.parametrize("options", [["-I{}"], ["-I", "{}"], ["--include-path={}"]])
def test_an_edited_header_changes_the_key(site, own, options):
    given = tuple(o.format(own) for o in options)
    source = Source('#include "a.h"\n', "k", "k.cu", given)

    def key():
        includes = find_includes(source.text, source.options)
        return compile_key(source, "sm_80", "ptx", includes=includes)

    before = key()
    assert before == key()
    (own / "sub/c.h").write_text("int c;")
    assert [line.split(":")[0] for line in explain(key(), before)] == ["includes"]


def test_every_part_decides(site):
    put(site, *CU12)
    base = {"source": Source("a", "e", "n.cu", ("-DX",)), "arch": "sm_80", "kind": "ptx"}

    def key(**other):
        parts = base | other
        includes = find_includes(parts["source"].text)
        return compile_key(parts["source"], parts["arch"], parts["kind"],
                           names=parts.get("names", ()), includes=includes)  # fmt: skip

    others = {
        "source": key(source=Source("b", "e", "n.cu", ("-DX",))),
        "name": key(source=Source("a", "e", "m.cu", ("-DX",))),
        "entry": key(source=Source("a", "f", "n.cu", ("-DX",))),
        "options": key(source=Source("a", "e", "n.cu", ("-DY",))),
        "names": key(names=["k<int>"]),
        "kind": key(kind="cubin"),
        "arch": key(arch="sm_90"),
    }
    for part, other in others.items():
        assert other.digest != key().digest
        assert part in {line.split(":")[0] for line in explain(other, key())}
    dist(site, "nvidia_cuda_nvrtc_cu12-12.9.90")
    headers.toolkit.cache_clear()
    assert explain(key(), others["name"])[-1].startswith("nvrtc: ''") or "nvrtc" in str(
        explain(key(), others["name"])
    )


def test_borders_of_parts_are_part_of_the_digest():
    digests = {
        Key(parts).digest
        for parts in [
            (("a", "bc"),), (("ab", "c"),), (("a", "b"), ("c", "")), (("a", "b"), ("", "c")),
        ]
    }  # fmt: skip
    assert len(digests) == 4


def test_same_name_other_source_is_another_key():
    one, two = (Source(f"void k() {{ {n}; }}", "k", "k.cu") for n in (1, 2))
    keys = {
        compile_key(s, "sm_80", "ptx", includes=find_includes(s.text)).digest for s in (one, two)
    }
    assert len(keys) == 2


def test_explain_says_what_is_there_and_here():
    old = Key((("arch", "sm_80"), ("gone", "1")))
    new = Key((("arch", "sm_90"), ("more", "2")))
    assert explain(new, old) == (
        "arch: 'sm_80' there, 'sm_90' here",
        "more: '(none)' there, '2' here",
        "gone: '1' there, '(none)' here",
    )
