"""A file system of a test's own, to be filled and made read-only. Takes root, or a user namespace."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ALONE = "TURNKEEP_TEST_IN_NAMESPACE"


def mount(*arguments: str) -> bool:
    """Say whether mounting worked."""
    return subprocess.run(["mount", *arguments], capture_output=True, check=False).returncode == 0


@contextlib.contextmanager
def small_disk(path: Path, size: str = "1m") -> Iterator[Path]:
    """Mount a file system in memory there. Skips the test where that is not allowed."""
    path.mkdir()
    if not mount("-t", "tmpfs", "-o", f"size={size},mode=0700", "turnkeep-test", str(path)):
        pytest.skip("mounting takes root, or a user namespace")
    try:
        yield path
    finally:
        # Lazily, as a daemon that is being ended may still be in there.
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def ran_in_namespace(request: pytest.FixtureRequest) -> bool:
    """Where this user may not mount: run the test as root of a namespace of its own, and say that this was done."""
    if os.geteuid() == 0 or ALONE in os.environ:
        return False
    if subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode != 0:
        return False
    command = ["unshare", "-rm", sys.executable, "-m", "pytest", "-q", "-n", "0", request.node.nodeid]
    ran = subprocess.run(
        command,
        cwd=request.config.rootpath,
        env={**os.environ, ALONE: "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if ran.returncode != 0:
        pytest.fail(ran.stdout, pytrace=False)
    return True


def fill(path: Path) -> Path:
    """Fill the file system with one file; remove it to make room again."""
    filler = path / "filler"
    with filler.open("wb") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(65536))
    with filler.open("ab") as file, contextlib.suppress(OSError):
        while True:
            os.write(file.fileno(), bytes(512))
    return filler


class Image:
    """A file system on a loop device, which turns read-only when the kernel no longer trusts it."""

    def __init__(self, directory: Path) -> None:
        self._image = directory / "image"
        self.place = directory / "place"

    def __enter__(self) -> "Image":
        self.place.mkdir()
        with self._image.open("wb") as file:
            file.truncate(32 * 1024 * 1024)
        made = subprocess.run(["mkfs.ext4", "-q", str(self._image)], capture_output=True, check=False)
        if made.returncode != 0 or not self._mount():
            pytest.skip("it takes root, mkfs.ext4 and a loop device")
        return self

    def __exit__(self, *_: object) -> None:
        subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def _mount(self) -> bool:
        return mount("-o", "loop,errors=remount-ro", str(self._image), str(self.place))

    def break_down(self) -> None:
        """Let the kernel find an error."""
        command = ["findmnt", "-n", "-o", "SOURCE", str(self.place)]
        device = Path(subprocess.check_output(command, text=True).strip()).name
        Path(f"/sys/fs/ext4/{device}/trigger_fs_error").write_text("test\n")

    def mount_again(self) -> None:
        """Mount it anew, writable, once nobody has a file of it open."""
        subprocess.run(["umount", str(self.place)], check=True)
        assert self._mount()
