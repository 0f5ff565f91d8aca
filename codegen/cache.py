"""The on-disk cache of compiled code: content-addressed, owned by the user alone, verified.

An entry is `<key>.so`: the key hashes the source, the headers, the flags, the compiler's version and
the CPU. The objects of the templates that it was linked with lie beside it, `<key>.o`, for the next one. A file
ends in the SHA-256 of its name and content (a loader does not mind); code is loaded only where that agrees and
the folder and the file belong to this user and nobody else may write them. Files appear by atomic rename, so
processes that build one key at once do no harm. Where the folder cannot be used (read-only, full,
another's), code is built in a private temporary folder, and `tell` is told why.

An installation may have compiled the usual templates ahead (see `prebuilt`): such files lie under the same names beside
the headers, and a key that is not in the cache is looked for there. The header of every unit is there as well, parsed:
g++ takes 20 ms of CPU to read it, where a small unit's rest takes 60 (GCC manual, "Using Precompiled Headers"). Such a
file has no seal, for g++ refuses one that is a byte too long; what it refuses is compiled without.

    path = obtain(Request(source, exact=False, compiler), Path("~/.cache/dynacomp"))
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import stat
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from dynacomp.capture.base.interrupts import ours, suppressing
from dynacomp.codegen.compiler import Compiler, CompilerError, cpu_key
from dynacomp.codegen.scratch import private_folder, scratch
from dynacomp.kernels.templates import HEADERS

Tell = Callable[[str, str], object]  # a reason and a hint, for the user
PREBUILT = HEADERS / "prebuilt"
SEAL = hashlib.sha256().digest_size
_REFUSED: set[Path] = set()  # folders of parsed headers that the compiler does not take
HEADER, PARSED, NOTE = "unit.h", "unit.h.gch", "note"  # what every unit starts with, the same parsed, and of what size


@dataclass(frozen=True)
class Request:
    """Code to build: the C++ text, whether numerics are exact, the compiler, how many of it to run side by side, and
    the texts of the parts that many such share, each kept as an object."""

    source: str
    exact: bool
    compiler: Compiler
    jobs: int = 1
    parts: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        """The SHA-256 of everything that the machine code depends on."""
        return self.key_of("\0".join((self.source, *self.parts)))

    def key_of(self, text: str) -> str:
        """The same of a text that is compiled in this way."""
        parts = (text, str(self.exact), " ".join(self.compiler.command), " ".join(self.compiler.flags),
                 self.compiler.version, cpu_key(), headers_hash())
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


@functools.cache
def headers_hash() -> str:
    """The SHA-256 of the header folder."""
    total = hashlib.sha256()
    for file in sorted(HEADERS.glob("*.h")):
        total.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
    return total.hexdigest()


def obtain(request: Request, folder: Path, tell: Tell) -> tuple[Path, bool]:
    """The shared library of `request`, and whether it was in the cache already.

    tell(reason, hint) is called where the folder cannot be used.
    Raises CompilerError where it must be built and cannot be.
    """
    try:
        secure(folder)
        found = verified(folder, request.key)
        if found is not None:
            return found, True
    except ours(OSError) as error:
        return _build_privately(request, folder, error, tell), False
    return _build_into(request, folder, tell), False


def secure(folder: Path) -> None:
    """Make the folder, mode 0700; PermissionError where it is another user's or open to others."""
    make(folder)
    status = folder.lstat()
    if not stat.S_ISDIR(status.st_mode):
        raise NotADirectoryError(f"{folder} is not a folder")
    if status.st_uid != os.getuid():
        raise PermissionError(f"{folder} belongs to another user")
    if status.st_mode & 0o077:
        folder.chmod(0o700)


def make(folder: Path) -> None:
    """`folder.mkdir(parents=True, exist_ok=True)`, without its `except OSError`: a signal handler's is one."""
    if not folder.parent.is_dir():
        make(folder.parent)
    with contextlib.suppress(FileExistsError):
        folder.mkdir(0o700)


def verified(folder: Path, key: str) -> Path | None:
    """The cached library where it is whole and ours, else None."""
    library = folder / f"{key}.so"
    try:
        return library if is_trusted(library) and is_sealed(library.read_bytes(), library.name) else None
    except ours(OSError):
        return None


def is_trusted(file: Path, owner: int | None = None) -> bool:
    """Whether a file is this user's own (or that of `owner`), and nobody else may write it."""
    status = file.lstat()
    return (stat.S_ISREG(status.st_mode) and status.st_uid == (os.getuid() if owner is None else owner)
            and not status.st_mode & 0o022)


def sealed(code: bytes, name: str) -> bytes:
    """The code with the digest of its file's name and itself behind it: another's, copied there, is none of ours."""
    return code + hashlib.sha256(name.encode() + b"\0" + code).digest()  # SEAL bytes more


def is_sealed(data: bytes, name: str) -> bool:
    """Whether the file of this name holds what `sealed` made for it."""
    return len(data) > SEAL and sealed(data[:-SEAL], name) == data


def _build_into(request: Request, folder: Path, tell: Tell) -> Path:
    """Build in a folder of its own, then move into the cache; without room there it is kept privately."""
    with scratch() as place:
        part = _built(request, place, folder, tell)
        try:
            publish(part.read_bytes(), folder / f"{request.key}.so")
            return verified(folder, request.key) or _kept(part, request.key)
        except ours(OSError) as error:
            _report(folder, error, tell)
            return _kept(part, request.key)


def content(file: Path, owner: int | None = None) -> bytes | None:
    """What `publish` wrote, where it is whole and nobody else's."""
    try:
        data = file.read_bytes() if is_trusted(file, owner) else b""
    except ours(OSError):
        return None
    return data[:-SEAL] if is_sealed(data, file.name) else None


def prebuilt(name: str) -> bytes | None:
    """A file that the installation holds, where it belongs to whom the headers belong to."""
    return content(PREBUILT / name, HEADERS.stat().st_uid)


def header_ahead(request: Request, inside: Path) -> Path | None:
    """The folder that the compiler is to look into first: the header of every unit is there, parsed ahead for these
    flags, and is what its note says. None where there is none, or it is not the installation's own."""
    folder, owner = inside / request.key_of(HEADER), HEADERS.stat().st_uid
    try:
        known = content(folder / NOTE, owner)
        return folder if known == note_of(folder) and is_trusted(folder / PARSED, owner) else None
    except ours(OSError):
        return None


def note_of(folder: Path) -> bytes:
    """What tells the header that is parsed ahead from one that was written since."""
    status = (folder / PARSED).stat()
    return f"{status.st_size} {status.st_mtime_ns}".encode()


def publish(content: bytes, file: Path) -> None:
    """The content, sealed, moved to its place in one step."""
    handle, name = tempfile.mkstemp(dir=file.parent, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as part:
            part.write(sealed(content, file.name))
        os.replace(name, file)
    finally:
        Path(name).unlink(missing_ok=True)


def _build_privately(request: Request, folder: Path, error: OSError, tell: Tell) -> Path:
    _report(folder, error, tell)
    known = private_folder() / f"{request.key}.so"
    if known.exists():
        return known
    with scratch() as place:
        return _kept(_built(request, place, private_folder(), tell), request.key)


def _built(request: Request, place: Path, folder: Path, tell: Tell) -> Path:
    """The library in a file that the caller moves; the objects of its parts come from the folder, or go there."""
    library = place / f"{request.key}.part"
    keys = {request.key_of(text): text for text in request.parts}
    known = {key: data for key in keys if (data := content(folder / f"{key}.o") or prebuilt(f"{key}.o"))}
    for key, data in known.items():
        (place / f"{key}.o").write_bytes(data)
    new = {place / f"{key}.o": text for key, text in keys.items() if key not in known}
    build = functools.partial(request.compiler.build, request.source, library, request.exact, request.jobs, new,
                              [place / f"{key}.o" for key in known])
    _with_header(request, build, tell)
    for file in new:
        with suppressing(OSError):  # whoever moves the library says what is wrong with the folder
            publish(file.read_bytes(), folder / file.name)
    return library


def _with_header(request: Request, build: Callable[[Path | None], None], tell: Tell) -> None:
    """Builds with the header that is parsed ahead where there is one; without it where the compiler takes the unit so
    alone, which is told once."""
    ahead = header_ahead(request, PREBUILT)
    if ahead is None or ahead in _REFUSED:
        return build(None)
    try:
        return build(ahead)
    except ours(CompilerError) as error:
        build(None)  # where the unit is at fault, this raises
        _REFUSED.add(ahead)
        tell(f"the header {ahead / PARSED}, which is parsed ahead, cannot be used ({error}); each unit parses it",
             "remove its folder; python -m dynacomp.codegen.prebuilt makes it anew")


def _kept(part: Path, key: str) -> Path:
    """The library where it stays until the process ends."""
    return part.replace(private_folder() / f"{key}.so")


def _report(folder: Path, error: OSError, tell: Tell) -> None:
    tell(f"the cache folder {folder} cannot be used ({error.strerror or error}); code is compiled anew in every "
         "process", "set DYNACOMP_CACHE_DIR")
