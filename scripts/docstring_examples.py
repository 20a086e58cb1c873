"""Shows the examples of docstrings as code: an extension of Griffe, which reads docstrings for the site.

In Markdown a line that begins with `>>>` is a quotation. So the lines from one of these to the next empty
line are put into a block of code.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

EXAMPLE = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


def fenced(text: str) -> str:
    r"""A docstring with its examples in blocks of code.

    >>> fenced("One.\n\n>>> 1 + 1\n2\n\nMore.")
    'One.\n\n```pycon\n>>> 1 + 1\n2\n```\n\nMore.'
    """
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0]}\n```", text)


class DocstringExamples(Extension):
    """Puts the examples of every docstring into blocks of code."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring of what was read."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
