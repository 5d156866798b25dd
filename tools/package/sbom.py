#!/usr/bin/env python3
"""Lists what a build of tools/package/linux.sh is linked with, as SPDX 2.3: sbom.py FOLDER VERSION OUT.json LICENCES

FOLDER is linux.sh's. Ninja says which static libraries are linked and which headers were read; each must belong to a row of
COMPONENTS, so that nothing is forgotten. Versions come from the packages that hold the files. The licence texts of these
packages are copied into the folder LICENCES. Needs ninja and dpkg.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
import urllib.parse

# name, licence (SPDX), its static library, its headers below FOLDER/prefix/include, package, and where in FOLDER the package is:
# a source package, or the folder into which binary packages were unpacked ("" is this machine)
COMPONENTS = [
    ("Zstandard", "BSD-3-Clause", r"libzstd\.a", r"(zstd|zdict|zstd_errors)\.h", "libzstd", "zstd"),
    ("zlib", "Zlib", r"libz\.a", r"(zlib|zconf)\.h", "zlib", "zlib"),
    ("Protocol Buffers", "BSD-3-Clause", r"libprotobuf\.a", "google/", "protobuf", "protobuf"),
    ("ONNX", "Apache-2.0", r"libonnx_proto\.a", "onnx/", "python3-onnx", ""),
    ("libjpeg-turbo", "IJG AND BSD-3-Clause AND Zlib", r"libjpeg\.a", None, "libjpeg62-turbo-dev", "sysroot/libraries"),
    ("libpng", "libpng-2.0", r"libpng16\.a", None, "libpng-dev", "sysroot/libraries"),
    ("libwebp", "BSD-3-Clause", r"libwebp\.a", None, "libwebp-dev", "sysroot/libraries"),
    ("xxHash", "BSD-2-Clause", None, r"xxhash\.h", "libxxhash-dev", ""),
    ("FlatBuffers", "Apache-2.0", None, "flatbuffers/", "libflatbuffers-dev", ""),
    ("Vulkan headers", "Apache-2.0 OR MIT", None, "vulkan/|vk_video/", "libvulkan-dev", ""),
    ("CLI11", "BSD-3-Clause", None, "CLI/", "libcli11-dev", ""),
    ("nlohmann/json", "MIT", None, "nlohmann/", "nlohmann-json3-dev", ""),
    ("cpp-httplib", "MIT", None, r"httplib\.h", "libcpp-httplib-dev", ""),
    ("libcurl", "curl", None, "curl/", "libcurl4-openssl-dev", ""),
    # The linker adds these by itself; the unwinder is that of the older system.
    ("GCC's libstdc++ and libgcc", "GPL-3.0-or-later WITH GCC-exception-3.1", None, None, "libstdc++-12-dev", ""),  # CROSS for another processor
    ("GCC's unwinder", "GPL-3.0-or-later WITH GCC-exception-3.1", None, None, "libgcc-10-dev", "sysroot"),
]
CROSS = {"libstdc++-12-dev": {"aarch64-linux-gnu": "libstdc++-12-dev-arm64-cross"}}
TARGETS = ("graft_cli", "graft_shared", "graft_convert_shared")


def run(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def linked(build):
    """The static libraries outside of the build folder that the programs and libraries are linked with."""
    found = set()
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as file:
        rules = file.read().split("\n\n")
    for rule in rules:
        if any(re.search(rf"^build .*: CXX_\w+_LINKER__{target}_", rule, re.M) for target in TARGETS):
            found |= set(re.findall(r"(?<!\S)(/\S+\.a)\b", re.search(r"^  LINK_LIBRARIES = (.*)$", rule, re.M).group(1)))
    if not found:
        raise SystemExit(f"sbom.py: no link of {', '.join(TARGETS)} is in {build}/build.ninja.")
    return {os.path.basename(path) for path in found if not path.startswith(build + "/")}


def headers(folder, build):
    """Headers of other projects that were read, relative to FOLDER/prefix/include."""
    start = os.path.join(folder, "prefix", "include") + "/"
    found = set()
    for line in run("ninja", "-C", build, "-t", "deps").splitlines():
        path = os.path.normpath(os.path.join(build, line.strip()))
        if path.startswith(start):
            found.add(path[len(start):])
    return found


def triple(build):
    """The processor and system that are built for, as GCC calls them."""
    with open(os.path.join(build, "CMakeCache.txt"), encoding="utf-8") as file:
        return re.search(r"^GRAFT_TRIPLE:\w+=(\S+)", file.read(), re.M).group(1)


def is_source(folder, place):
    return bool(place) and os.path.isdir(os.path.join(folder, place, "debian"))


def package(name, folder, place):
    """Version of a package, and the file with its licence."""
    if is_source(folder, place):
        source = os.path.join(folder, place, "debian")
        with open(os.path.join(source, "changelog"), encoding="utf-8") as file:
            return re.match(rf"{name} \((\S+)\)", file.readline()).group(1), os.path.join(source, "copyright")
    if not place:
        version = run("dpkg-query", "-W", "-f", "${Version}", name)
        return version, f"/usr/share/doc/{name}/copyright"
    place = os.path.join(folder, place)
    with open(os.path.join(place, "packages"), encoding="utf-8") as file:
        versions = dict(line.split()[:2] for line in file)
    return versions[name], os.path.join(place, f"root/usr/share/doc/{name}/copyright")


def main(folder, version, out, licences):
    folder = os.path.abspath(folder)
    build = os.path.join(folder, "build")
    archives, read = linked(build), headers(folder, build)
    packages = []
    os.makedirs(licences, exist_ok=True)
    for name, licence, archive, header, source, place in COMPONENTS:
        matched = {one for one in archives if archive and re.fullmatch(archive, one)}
        seen = {one for one in read if header and re.match(header, one)}
        archives -= matched
        read -= seen
        if (archive or header) and not matched and not seen:
            continue
        source = CROSS.get(source, {}).get(triple(build), source)
        number, text = package(source, folder, place)
        shutil.copyfile(os.path.realpath(text), os.path.join(licences, re.sub(r"[^A-Za-z0-9+-]+", "_", name)))
        upstream = re.sub(r"^\d+:|[-+~.](dfsg|ds|deb|really).*$|-[^-]*$", "", number)
        packages.append({
            "name": name, "SPDXID": "SPDXRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", name), "versionInfo": upstream,
            "downloadLocation": "NOASSERTION", "filesAnalyzed": False, "licenseConcluded": licence, "licenseDeclared": licence,
            "copyrightText": "NOASSERTION", "comment": "Linked statically." if matched or not header else "Headers only.",
            "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
                              "referenceLocator": f"pkg:deb/debian/{source}@{urllib.parse.quote(number)}"
                              + ("?arch=source" if is_source(folder, place) else "")}]})
    if archives or read:
        raise SystemExit(f"sbom.py: no row of COMPONENTS has {', '.join(sorted(archives | read)[:5])}.")
    graft = {"name": "graft", "SPDXID": "SPDXRef-graft", "versionInfo": version, "downloadLocation": "NOASSERTION",
             "filesAnalyzed": False, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
             "copyrightText": "NOASSERTION"}
    relations = [{"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-graft"}]
    for one in packages:
        kind = "STATIC_LINK" if one["comment"].startswith("Linked") else "CONTAINS"
        relations.append({"spdxElementId": "SPDXRef-graft", "relationshipType": kind, "relatedSpdxElement": one["SPDXID"]})
    digest = hashlib.sha256(json.dumps(packages, sort_keys=True).encode()).hexdigest()
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"])))
    document = {"spdxVersion": "SPDX-2.3", "dataLicense": "CC0-1.0", "SPDXID": "SPDXRef-DOCUMENT", "name": f"graft-{version}",
                "documentNamespace": f"https://graft.invalid/spdx/{version}/{digest}",
                "creationInfo": {"created": created, "creators": ["Tool: graft-sbom.py"]},
                "packages": [graft] + packages, "relationships": relations}
    with open(out, "w", encoding="utf-8") as file:
        json.dump(document, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    if len(sys.argv) != 5:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
