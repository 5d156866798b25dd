#!/bin/sh
# Installs what graft builds and tests with from Debian's packages (Debian 12, root or sudo). Nothing else is fetched.
# The four of pictures and sounds are what data sets of files are read with (platform/codecs); without them graft builds too.
set -eu
packages="cmake ninja-build g++ ccache lld pkg-config
  libvulkan-dev libvulkan1 mesa-vulkan-drivers vulkan-validationlayers glslang-tools spirv-tools
  flatbuffers-compiler libflatbuffers-dev libzstd-dev libxxhash-dev zlib1g-dev
  libonnx-dev libprotobuf-dev protobuf-compiler libcli11-dev nlohmann-json3-dev
  libjpeg62-turbo-dev libpng-dev libwebp-dev libsndfile1-dev
  libgtest-dev"
# Only the tests use these: PyTorch as an oracle, Jinja as one of chat templates, Pillow as one of pictures, SwiftShader (inside chromium-common) as a second Vulkan device, a
# cipher for encrypted checkpoint stores; what the Python package is built with; Gloo, which joins workers of several
# processes.
test_packages="python3-torch python3-onnx python3-jinja2 python3-numpy python3-pil chromium-common libssl-dev python3-dev pybind11-dev libgloo-dev"
[ "${1:-}" = "--tests" ] && packages="$packages $test_packages"

missing=""
for package in $packages; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q "install ok installed" || missing="$missing $package"
done
[ -z "$missing" ] && exit 0
sudo=""
[ "$(id -u)" = 0 ] || sudo="sudo"
echo "Installing:$missing"
export DEBIAN_FRONTEND=noninteractive
$sudo apt-get update -qq
# shellcheck disable=SC2086  # a list on purpose
$sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
