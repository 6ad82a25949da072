"""Compiled templates in the store: parsing one takes longer than NVRTC takes for its kernel."""

from __future__ import annotations

import hashlib
import os

import jinja2
import jinja2.compiler
from jinja2.bccache import Bucket, bc_magic

from ge2rt.build.key import file_digest
from ge2rt.build.records import Key
from ge2rt.build.store import Store, default_store

_CODE = "template.pyc"


class StoredTemplates(jinja2.BytecodeCache):
    """Jinja's bytecode cache over the default store, by the template's text and our own code."""

    def load_bytecode(self, bucket: Bucket) -> None:
        """Jinja's hook: fill the bucket if the store has it."""
        entry = self._store().get(_key(bucket).digest)
        data = entry.read(_CODE) if entry else None
        if data is not None:
            bucket.bytecode_from_string(data)

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Jinja's hook: keep a template that was just compiled."""
        self._store().put(_key(bucket), {_CODE: bucket.bytecode_to_string()})

    def _store(self) -> Store:
        return default_store()


def _key(bucket: Bucket) -> Key:
    own = [os.path.join(os.path.dirname(__file__), n) for n in ("linemarks.py", "bounds.py")]
    return Key(
        (
            ("schema", "template 1"),
            ("python", hashlib.sha256(bc_magic).hexdigest()),
            ("jinja", file_digest(jinja2.compiler.__file__)),
            ("marks", ", ".join(map(file_digest, own))),
            ("template", bucket.key),  # name and path, which stand in its tracebacks
            ("text", str(bucket.checksum)),
        )
    )
