"""Reports about compiled functions: records, a page, a text, a trace.

:func:`ge2rt.report.collect.collect` makes the records; the other modules only show them.
"""

from __future__ import annotations
