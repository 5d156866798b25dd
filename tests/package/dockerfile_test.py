"""Runs the commands of tools/package/Dockerfile in a chroot, as a container would: dockerfile_test.py FOLDER CHROOT

FOLDER is what tools/package/release.sh filled, CHROOT a Debian 12 that is used up. Any instruction besides those of the
Dockerfile today is an error. Prints what the image prints; the exit status is that of its command.
"""

import glob
import json
import os
import pathlib
import subprocess
import sys
import tarfile

DOCKERFILE = pathlib.Path(__file__).resolve().parents[2] / "tools/package/Dockerfile"


def main(folder, root):
    place, command = "/", None

    def inside(*words):
        return subprocess.run(["chroot", root, "/usr/bin/env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
                               "HOME=/root", "/bin/sh", "-c", 'cd "$0" && exec "$@"', place, *words]).returncode

    for line in DOCKERFILE.read_text().splitlines():
        word, _, rest = line.partition(" ")
        if not line or line.startswith("#"):
            continue
        if word == "FROM":
            if rest != "debian:bookworm-slim":
                raise SystemExit(f"The chroot is Debian 12, the image {rest}.")
        elif word == "RUN":
            if inside("/bin/sh", "-c", rest) != 0:
                raise SystemExit(f"{line}: failed.")
        elif word == "ADD":
            source, target = rest.split()
            found = glob.glob(os.path.join(folder, source))
            if len(found) != 1:
                raise SystemExit(f"{folder} has {len(found)} files {source}.")
            with tarfile.open(found[0]) as archive:
                archive.extractall(root + target)
        elif word == "WORKDIR":
            place = rest
            os.makedirs(root + place, exist_ok=True)
        elif word == "CMD":
            command = json.loads(rest)
        else:
            raise SystemExit(f"dockerfile_test.py does not know {word}.")
    return inside(*command)


sys.exit(main(*sys.argv[1:3]))
