#!/bin/sh
# Installs the packages that graft is built with, and with --tests those that its tests use. Nothing else is fetched.
# Knows apt (Debian 12 and 13, Ubuntu 24.04), dnf, pacman, zypper and Homebrew; elsewhere it prints the list.
# Needs root or sudo, except for Homebrew. The libraries of images, sounds, graft watch and addresses of models, and ccache and lld, are optional.
set -eu

tests=no
[ "${1:-}" = "--tests" ] && tests=yes

# What a package manager calls the packages. The tests use PyTorch, ONNX, Jinja and Pillow as oracles, SwiftShader
# (in chromium-common) as a second Vulkan device, OpenSSL, and Gloo for several processes.
names() {
  case "$1" in
    apt)
      echo cmake ninja-build g++ ccache lld pkg-config python3 libvulkan-dev libvulkan1 mesa-vulkan-drivers \
        vulkan-validationlayers glslang-tools spirv-tools flatbuffers-compiler libflatbuffers-dev libzstd-dev \
        libxxhash-dev zlib1g-dev libonnx-dev libprotobuf-dev protobuf-compiler libcli11-dev nlohmann-json3-dev \
        libjpeg-dev libpng-dev libwebp-dev libsndfile1-dev libcpp-httplib-dev libcurl4-openssl-dev libgtest-dev
      [ $tests = no ] || echo python3-torch python3-onnx python3-jinja2 python3-numpy python3-pil chromium-common \
        mkdocs-material libssl-dev libgloo-dev ;;
    dnf)
      echo cmake ninja-build gcc-c++ ccache lld pkgconf-pkg-config python3 vulkan-headers vulkan-loader-devel \
        mesa-vulkan-drivers vulkan-validation-layers glslang spirv-tools flatbuffers-compiler flatbuffers-devel \
        libzstd-devel xxhash-devel zlib-devel onnx-devel protobuf-devel protobuf-compiler cli11-devel json-devel \
        libjpeg-turbo-devel libpng-devel libwebp-devel libsndfile-devel cpp-httplib-devel libcurl-devel gtest-devel
      [ $tests = no ] || echo python3-torch python3-onnx python3-jinja2 python3-numpy python3-pillow openssl-devel \
        gloo-devel ;;
    pacman)
      echo cmake ninja gcc ccache lld pkgconf python vulkan-headers vulkan-icd-loader vulkan-swrast \
        vulkan-validation-layers glslang spirv-tools flatbuffers zstd xxhash zlib onnx protobuf cli11 nlohmann-json \
        libjpeg-turbo libpng libwebp libsndfile cpp-httplib curl gtest
      [ $tests = no ] || echo python-pytorch python-onnx python-jinja python-numpy python-pillow openssl ;;
    zypper)
      echo cmake ninja gcc-c++ ccache lld pkg-config python3 vulkan-headers vulkan-devel Mesa-vulkan-drivers \
        vulkan-validationlayers glslang-devel spirv-tools flatbuffers-devel libzstd-devel xxhash-devel zlib-devel \
        onnx-devel protobuf-devel cli11-devel nlohmann_json-devel libjpeg8-devel libpng16-devel libwebp-devel \
        libsndfile-devel libcurl-devel gtest
      [ $tests = no ] || echo python3-torch python3-onnx python3-Jinja2 python3-numpy python3-Pillow \
        libopenssl-devel ;;
    brew)
      echo cmake ninja ccache pkg-config vulkan-headers vulkan-loader molten-vk vulkan-validationlayers glslang \
        spirv-tools flatbuffers zstd xxhash onnx protobuf cli11 nlohmann-json jpeg-turbo libpng webp libsndfile \
        cpp-httplib googletest
      [ $tests = no ] || echo numpy pillow openssl ;;
  esac
}

# Whether a package is installed.
has() {
  case "$1" in
    apt) dpkg-query -W -f='${Status}' "$2" 2>/dev/null | grep -q "install ok installed" ;;
    dnf | zypper) rpm -q "$2" >/dev/null 2>&1 ;;
    pacman) pacman -Qq "$2" >/dev/null 2>&1 ;;
    brew) brew list --versions "$2" >/dev/null 2>&1 ;;
  esac
}

manager=""
for one in apt-get:apt dnf:dnf pacman:pacman zypper:zypper brew:brew; do
  command -v "${one%%:*}" >/dev/null 2>&1 && manager=${one#*:} && break
done
if [ -z "$manager" ]; then
  echo "This system has no package manager that this script knows. graft is built with these packages, as Debian calls them:"
  names apt
  echo "Install what corresponds to them, then run the command that called this script again."
  command -v cmake >/dev/null 2>&1 && command -v ninja >/dev/null 2>&1 && exit 0
  exit 1
fi

missing=""
for package in $(names "$manager"); do
  has "$manager" "$package" || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
sudo=""
[ "$(id -u)" = 0 ] || [ "$manager" = brew ] || sudo="sudo"

if [ "$manager" = apt ]; then
  $sudo apt-get update -qq
  # Of another release or distribution some packages are missing: tests that use them are skipped.
  known=""
  for package in $missing; do
    if apt-cache show "$package" >/dev/null 2>&1; then
      known="$known $package"
    else
      echo "This release has no package $package: it is left out."
    fi
  done
  missing=$known
fi
[ -n "$missing" ] || exit 0
echo "Installing:$missing"
# shellcheck disable=SC2086  # lists on purpose
case "$manager" in
  apt) $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null ;;
  dnf) $sudo dnf install -y --setopt=install_weak_deps=False $missing ;;
  pacman) $sudo pacman -S --needed --noconfirm $missing ;;
  zypper) $sudo zypper --non-interactive install --no-recommends $missing ;;
  brew) brew install $missing ;;
esac
