"""What an installation compiles ahead: the templates that many programs call, the header of every unit, and which
compiler works.

    python -m dynacomp.codegen.prebuilt      # `make env` does so

jaxlib brings its products and convolutions compiled, for any CPU; ours are compiled for this one, from 0.2 to 0.7 s of
CPU each, so that the first program that calls them need not do it. The files are those that the cache would keep, under
the same keys: with another compiler, CPU or header they are not found, and the cache has its own.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from dynacomp.capture.base.interrupts import ours
from dynacomp.codegen import cache
from dynacomp.codegen.compiler import CompilerError
from dynacomp.codegen.scratch import scratch
from dynacomp.codegen.toolchain import toolchain
from dynacomp.kernels.common import units
from dynacomp.kernels.templates import HEADERS

OTHERS = ("clang",)  # compilers that look for parsed headers only where the command names them


def build(folder: Path) -> int:
    """Puts into the folder what it lacks, takes out the objects that nobody finds any more; how many files it made."""
    folder.mkdir(exist_ok=True)
    with scratch() as place:
        compiler = toolchain((), place)
        request = cache.Request("", False, compiler)
        wanted = {f"{request.key_of(text)}.o": text for text in units()}
        new = {name: text for name, text in wanted.items() if cache.content(folder / name) is None}
        compiler.objects({place / name: text for name, text in new.items()})
        made = {name: (place / name).read_bytes() for name in new}
        parsed = parse_header(request, folder, place)
        made |= {file.name: data for file in place.glob("*.record") if (data := cache.content(file)) is not None}
    for file in set(folder.glob("*.o")) - {folder / name for name in wanted}:
        file.unlink(missing_ok=True)
    for name, data in made.items():
        cache.publish(data, folder / name)
        (folder / name).chmod(0o644)  # for whoever may read the headers
    return len(made) + parsed


def parse_header(request: cache.Request, inside: Path, place: Path) -> int:
    """Parses the header of every unit, in a scratch `place` first, and removes what nobody finds any more; how many
    were made."""
    folder = inside / request.key_of(cache.HEADER)
    for old in {note.parent for note in inside.glob(f"*/{cache.NOTE}")} - {folder}:
        shutil.rmtree(old)
    if cache.header_ahead(request, inside) or any(name in request.compiler.version for name in OTHERS):
        return 0
    try:
        request.compiler.header(HEADERS / cache.HEADER, place / cache.PARSED)
    except ours(CompilerError) as error:  # the templates are there all the same
        print(f"the header of every unit is not parsed ahead: {error}", file=sys.stderr)
        return 0
    folder.mkdir(exist_ok=True)
    shutil.copyfile(place / cache.PARSED, folder / cache.PARSED)
    cache.publish(cache.note_of(folder), folder / cache.NOTE)
    for file in (folder / cache.PARSED, folder / cache.NOTE):
        file.chmod(0o644)
    return 1


def main() -> int:
    try:
        made = build(cache.PREBUILT)
    except ours(CompilerError, OSError) as error:
        print(f"nothing is compiled ahead: {error}", file=sys.stderr)
        return 0  # programs compile what they need
    print(f"{made} files compiled ahead in {cache.PREBUILT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
