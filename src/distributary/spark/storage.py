"""Small files and directories in the places that Spark reads and writes: local paths, `hdfs://`, `s3://`.

Locations are the texts that Spark is given; they are reached through Arrow's file systems. All functions cost
one or two calls of the file system. A location that cannot be reached raises `DistributaryError`.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath
from typing import IO, cast

import pyarrow as pa
from pyarrow import dataset, fs, parquet

from distributary.errors import DistributaryError


def exists(location: str) -> bool:
    """Whether there is a file or a directory at a location."""
    files, path = _file_system(location)
    return bool(files.get_file_info(path).type != fs.FileType.NotFound)


def which_exist(location: str, names: Sequence[str]) -> list[bool]:
    """Which of these files there are below a location, asked for at once."""
    files, path = _file_system(location)
    found = files.get_file_info([f"{path}/{name}" for name in names])
    return [one.type == fs.FileType.File for one in found]


def read_text(location: str) -> str:
    """The text of a file; raises FileNotFoundError when there is none."""
    files, path = _file_system(location)
    with files.open_input_stream(path) as stream:
        return bytes(stream.read()).decode()


def opened(location: str) -> IO[bytes]:
    """The bytes of a file, to be read from its beginning; OSError when it cannot be read."""
    files, path = _file_system(location)
    return cast(IO[bytes], io.BufferedReader(files.open_input_stream(path)))


def read_parquet(location: str, chosen: dataset.Expression | None = None) -> pa.Table:
    """The rows of a directory of Parquet that a condition chooses, or all.

    Raises `DistributaryError` when it cannot be read, and `pyarrow.ArrowInvalid` when the condition names a
    column that it has not.
    """
    files, path = _file_system(location)
    # Spark's timestamps are read as they are: nanoseconds would not hold the years after 2262.
    form = dataset.ParquetFileFormat(
        read_options=dataset.ParquetReadOptions(coerce_int96_timestamp_unit="us")
    )
    try:
        return dataset.dataset(path, format=form, filesystem=files).to_table(filter=chosen)
    except OSError as error:
        raise DistributaryError(f"cannot read {location}: {error}") from None


def new_file(location: str) -> pa.NativeFile:
    """A new file to write bytes to, whose directory is made if need be; whoever asked for it closes it."""
    files, path = _file_system(location)
    files.create_dir(str(PurePosixPath(path).parent), recursive=True)
    return files.open_output_stream(path)


def read_table(location: str) -> pa.Table:
    """The rows of one Parquet file."""
    files, path = _file_system(location)
    return parquet.read_table(path, filesystem=files, partitioning=None)


def make_directory(location: str) -> None:
    """Make a directory and those above it, unless they are there."""
    files, path = _file_system(location)
    files.create_dir(path, recursive=True)


def move(location: str, target: str) -> None:
    """Give a file another name on its file system, in a directory that is there."""
    files, path = _file_system(location)
    files.move(path, _file_system(target)[1])


def replace(location: str, target: str) -> None:
    """The same in place of a file that has that name."""
    files, path = _file_system(target)
    # Some file systems move nothing to where something is.
    if files.get_file_info(path).type == fs.FileType.File:
        files.delete_file(path)
    move(location, target)


def remove_file(location: str) -> None:
    """Remove a file."""
    files, path = _file_system(location)
    files.delete_file(path)


def remove_directory(location: str) -> None:
    """Remove a directory and all that is in it, if it is there."""
    files, path = _file_system(location)
    if files.get_file_info(path).type == fs.FileType.Directory:
        files.delete_dir(path)


def write_atomically(location: str, text: str) -> None:
    """Write a small file under another name and rename it, so that it is there whole or not at all."""
    files, path = _file_system(location)
    target = PurePosixPath(path)
    partial = str(target.with_name(f".{target.name}.partial"))
    files.create_dir(str(target.parent), recursive=True)
    with files.open_output_stream(partial) as stream:
        stream.write(text.encode())
    files.move(partial, path)


def directories(location: str) -> list[str]:
    """The paths of the directories in a directory; none when that does not exist."""
    files, path = _file_system(location)
    listed = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return [one.path for one in listed if one.type == fs.FileType.Directory]


def file_names(location: str) -> list[str]:
    """The names of the files in a directory, in order; none when that does not exist."""
    files, path = _file_system(location)
    listed = files.get_file_info(fs.FileSelector(path, allow_not_found=True))
    return sorted(PurePosixPath(one.path).name for one in listed if one.type == fs.FileType.File)


def has_old_times(location: str) -> bool:
    """Whether a Parquet file has times of 96 bits, as Spark writes them unless it is told otherwise."""
    files, path = _file_system(location)
    with files.open_input_file(path) as stream:
        schema = parquet.ParquetFile(stream).schema
        return any(schema.column(at).physical_type == "INT96" for at in range(len(schema.names)))


def batch_places(location: str, batch: int) -> list[str]:
    """The directories of a batch in an output that have files: its own, or one for each subscriber."""
    spread = [f"{one}/batch={batch}" for one in spread_directories(location)]
    return [place for place in (f"{location}/batch={batch}", *spread) if next(visible_files(place), None)]


def spread_directories(location: str) -> list[str]:
    """The directories of subscribers over which batches of an output are spread; none if they are not."""
    names = (PurePosixPath(one).name for one in directories(location))
    return [f"{location}/{name}" for name in names if name.startswith("each=")]


def schema_text(location: str) -> str:
    """The columns and types of the first Parquet file in a directory."""
    files, _ = _file_system(location)
    first = next(path for path in visible_files(location) if path.endswith(".parquet"))
    schema: pa.Schema = parquet.read_schema(first, filesystem=files)
    return str(schema.remove_metadata())


def visible_files(location: str) -> Iterator[str]:
    """The paths of all files below a directory that Spark would read; none when that does not exist."""
    files, path = _file_system(location)
    for one in files.get_file_info(fs.FileSelector(path, allow_not_found=True, recursive=True)):
        parts = PurePosixPath(one.path).relative_to(path).parts
        if one.type == fs.FileType.File and not any(part.startswith(("_", ".")) for part in parts):
            yield one.path


def file_states(location: str) -> dict[str, str]:
    """The locations of the files in a directory that Spark would read, or of a file; each with its state.

    They are in order; none when there is none. The state is a text that changes when the file does: its size
    and time. An object store may know no times.
    """
    files, path = _file_system(location)
    alone = files.get_file_info(path).type == fs.FileType.File
    infos = files.get_file_info([path] if alone else sorted(visible_files(location)))
    names = [
        location if alone else f"{location}/{PurePosixPath(one.path).relative_to(path)}" for one in infos
    ]
    return {name: f"{one.size} {one.mtime_ns}" for name, one in zip(names, infos, strict=True)}


def numbered_files(location: str, ending: str = "") -> Iterator[int]:
    """The numbers of the files in a directory that are called `<number><ending>`, in no order."""
    files, path = _file_system(location)
    for one in files.get_file_info(fs.FileSelector(path, allow_not_found=True)):
        name = PurePosixPath(one.path).name
        if name.endswith(ending) and name.removesuffix(ending).isdigit():
            yield int(name.removesuffix(ending))


def _file_system(location: str) -> tuple[fs.FileSystem, str]:
    """The file system that a location is on, and its path there."""
    if ":" not in location.partition("/")[0]:
        return fs.LocalFileSystem(), location
    scheme, _, rest = location.partition(":")
    if scheme == "file":
        return fs.LocalFileSystem(), "/" + rest.lstrip("/")
    # Hadoop's names for the connectors of S3 differ from everybody else's.
    uri = f"s3:{rest}" if scheme in ("s3a", "s3n") else location
    try:
        found, path = fs.FileSystem.from_uri(uri)
    except (OSError, ValueError, ImportError) as error:
        raise DistributaryError(f"cannot reach {location}: {error}") from None
    return found, path
