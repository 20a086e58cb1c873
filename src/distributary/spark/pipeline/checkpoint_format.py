"""Which release a checkpoint belongs to: one of an earlier release goes on, one of a later is refused.

`<checkpoint>/release.json` tells the format of what is in the checkpoint and beside it, and the release that
last ran on it. A checkpoint without that file is of a release before there was one, which every release since
can read. `FORMAT` grows when an earlier release could not go on with what a later one has written.

Spark notes an offset for each place in a query where a source is read, and refuses a checkpoint that has
others. Earlier releases read their one source more often: `bring_offsets_forward` leaves as many offsets in
the checkpoint as the query reads now, all of which are the same.
"""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout, suppress

from pyspark.sql import DataFrame

from distributary import __version__
from distributary.errors import DistributaryError
from distributary.spark import storage

FORMAT = 1
HEAD = 2
"""Lines of a file of offsets before those of the sources: its version, and what goes for the whole batch."""


def require_known_format(checkpoint: str) -> None:
    """Note this release in a checkpoint; an error, and nothing changed, if a later one has written it."""
    place = f"{checkpoint}/release.json"
    try:
        noted = json.loads(storage.read_text(place))
        format, release = int(noted["format"]), str(noted["release"])
    except FileNotFoundError:
        format, release = 0, ""
    except (ValueError, KeyError, TypeError):
        raise DistributaryError(
            f"{place} is not what was written; remove it if the checkpoint is yours"
        ) from None
    if format > FORMAT:
        raise DistributaryError(
            f"the checkpoint {checkpoint} was written by release {release}, in a format that {__version__} "
            "does not know: go on with that release or a later one, or begin anew with another checkpoint "
            "and other outputs"
        )
    if (format, release) != (FORMAT, __version__):
        storage.write_atomically(place, json.dumps({"format": FORMAT, "release": __version__}))


def bring_offsets_forward(checkpoint: str, query: DataFrame) -> None:
    """Have a checkpoint of an earlier release tell as many offsets as the query reads its source now."""
    offsets = f"{checkpoint}/offsets"
    batches = sorted(storage.numbered_files(offsets))
    if not batches:
        return
    noted = {batch: storage.read_text(f"{offsets}/{batch}").splitlines() for batch in batches}
    if len(noted[batches[-1]]) <= HEAD + 1:
        return
    reads = _reads(query)
    for batch, lines in noted.items():
        head, given = lines[:HEAD], lines[HEAD:]
        if reads and len(given) != reads and len(set(given)) == 1:
            # Hadoop keeps a checksum beside the file, which would be that of the old text.
            with suppress(FileNotFoundError):
                storage.remove_file(f"{offsets}/.{batch}.crc")
            storage.write_atomically(f"{offsets}/{batch}", "\n".join([*head, *given[:1] * reads]))


def _reads(query: DataFrame) -> int:
    """How many offsets Spark notes for a source: how often the query as it was written uses it.

    The plan that is run may read it less often, where equal parts of it are run once.
    """
    told = io.StringIO()
    with redirect_stdout(told):
        query.explain(extended=True)
    analyzed = told.getvalue().partition("== Analyzed Logical Plan ==")[2]
    return analyzed.partition("== Optimized Logical Plan ==")[0].count("StreamingRelation")
