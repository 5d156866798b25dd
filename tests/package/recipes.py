"""The recipes for vcpkg and Conan are well-formed, and say of graft what CMakeLists.txt says. usage: recipes.py SOURCE"""

import ast
import json
import pathlib
import re
import sys

source = pathlib.Path(sys.argv[1])
project = (source / "CMakeLists.txt").read_text()
version = re.search(r"project\(graft VERSION ([0-9.]+)", project)[1]
options = set()
for cmake in [source / "CMakeLists.txt", *(source / "tools/cmake").glob("*.cmake"),
              *(source / "platform").glob("*/CMakeLists.txt")]:
    options |= set(re.findall(r"(?:option\(|set\()(GRAFT_[A-Z_]+)", cmake.read_text()))
port = source / "tools/package/vcpkg/graft"
manifest = json.loads((port / "vcpkg.json").read_text())
portfile = (port / "portfile.cmake").read_text()
conanfile = (source / "tools/package/conan/conanfile.py").read_text()
recipe = next(node for node in ast.parse(conanfile).body if isinstance(node, ast.ClassDef))
constants = {target.id: node.value.value for node in recipe.body if isinstance(node, ast.Assign)
             for target in node.targets if isinstance(node.value, ast.Constant)}
faults = []
if manifest["version"] != version or constants["version"] != version:
    faults.append(f"the versions are {manifest['version']} and {constants['version']}, not {version}")
if manifest["license"] != "Apache-2.0" or constants["license"] != "Apache-2.0":
    faults.append("the licence is Apache-2.0")
unknown = {name for text in (portfile, conanfile) for name in re.findall(r"GRAFT_[A-Z_]+", text)} - options
if unknown:
    faults.append(f"there are no options {sorted(unknown)}")
checked = re.search(r"vcpkg_check_features\(.*FEATURES ([^)]*)\)", portfile)[1].split()
without = re.search(r"foreach\(feature IN ITEMS ([^)]*)\)", portfile)[1].split()
features = re.findall(r'"([a-z]+)\|[A-Z][a-z]+\|', (source / "tools/cmake/GraftFeatures.cmake").read_text())
if without != features:
    faults.append(f"portfile.cmake passes GRAFT_WITHOUT of {without}, not of {features}")
if checked[0::2] + without != list(manifest["features"]) or checked[1::2] != ["GRAFT_" + name.upper() for name in checked[0::2]]:
    faults.append("the features of vcpkg.json are not those of portfile.cmake")
if manifest["default-features"] != list(manifest["features"]):
    faults.append("vcpkg.json leaves out features by default")
if '["GRAFT_WITHOUT"]' not in conanfile:
    faults.append("conanfile.py passes no GRAFT_WITHOUT")
# What the library is linked with stands in both, and in NOTICE.
notice = (source / "NOTICE").read_text().lower().replace("zstandard", "zstd").replace(" ", "-")
named = {entry if isinstance(entry, str) else entry["name"] for entry in manifest["dependencies"]}
for library in ("zlib", "zstd", "flatbuffers", "xxhash", "vulkan-headers"):
    if library not in named or f'"{library}/' not in conanfile or library not in notice:
        faults.append(f"{library} is missing in vcpkg.json, conanfile.py or NOTICE")
# What conan copies is there.
for pattern in re.findall(r'"((?:platform|runtime|schema|shaders|tools)/[^"]*)"', conanfile):
    if not any(source.glob(pattern)):
        faults.append(f"conanfile.py copies {pattern}, which is not there")
if faults:
    sys.exit("The recipes: " + "; ".join(faults) + ".")
