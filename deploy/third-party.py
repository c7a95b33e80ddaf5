#!/usr/bin/env python3
"""Writes the licences of the crates that the binary is linked of, as their terms ask of those who give binaries away.

    deploy/third-party.py PLATFORM FILE

PLATFORM is a target triple, such as x86_64-unknown-linux-gnu. The texts come from cargo's copies of the crates; each text is written once,
below the crates that have it. Licences of what the console is bundled of are in `console/dist/licenses.md`.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

ROOT = "nyala-cli"
# Also in folders of a crate, where it brings a library in C.
NAME = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense)([-_.].*)?", re.IGNORECASE)
CODE = {".c", ".h", ".html", ".json", ".py", ".rs", ".sh", ".toml", ".yml"}


def main() -> None:
    platform, file = sys.argv[1:]
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", platform]
    metadata = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    crates = {}
    for package in linked(metadata):
        for text in texts(package) or [f"The crate has no such text. Its licence is {package['license']}."]:
            crates.setdefault(text, []).append(package)
    with open(file, "w", encoding="utf-8", newline="\n") as out:
        out.write("Nyala contains the following software, under the licences below it.\n")
        for text, packages in crates.items():
            out.write("\n" + "=" * 100 + "\n")
            for package in packages:
                out.write("{name} {version} ({license})\n".format(**package))
            out.write(f"\n{text}\n")


def linked(metadata: dict) -> list:
    """Crates of others that the binary is linked of, by name: no build scripts' and tests' own, and no macros."""
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    open_ids = [id for id, package in packages.items() if package["name"] == ROOT]
    seen = set(open_ids)
    while open_ids:
        for dependency in nodes[open_ids.pop()]["deps"]:
            id = dependency["pkg"]
            is_normal = any(kind["kind"] is None for kind in dependency["dep_kinds"])
            if is_normal and id not in seen and not is_macro(packages[id]):
                seen.add(id)
                open_ids.append(id)
    others = [packages[id] for id in seen if packages[id]["source"]]
    return sorted(others, key=lambda package: (package["name"], package["version"]))


def is_macro(package: dict) -> bool:
    return any("proc-macro" in target["kind"] for target in package["targets"])


def texts(package: dict) -> list:
    folder = Path(package["manifest_path"]).parent
    files = [file for file in sorted(folder.rglob("*")) if NAME.fullmatch(file.name) and file.suffix not in CODE]
    if package["license_file"]:
        files.append(folder / package["license_file"])
    found = (file.read_text("utf-8", "replace").strip() for file in files if file.is_file())
    # Line ends differ between copies of the same text.
    return list(dict.fromkeys(re.sub(r"[ \t]+\n", "\n", text.replace("\r\n", "\n")) for text in found if text))


if __name__ == "__main__":
    main()
