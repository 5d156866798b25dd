# What the cross builds have in common; sourced by them with $root and $build set.

# The packer of kernels, which runs here.
build_packer() {
  mkdir -p "$build"
  c++ -O2 -std=c++20 "$root/shaders/pack_kernels.cpp" -lzstd -o "$build/graft_pack_kernels"
}

# Headers that are the same on every machine, away from those that are not.
copy_headers() {
  mkdir -p "$build/prefix/include"
  for header in flatbuffers xxhash.h vulkan vk_video; do cp -r "/usr/include/$header" "$build/prefix/include/"; done
}

# fetch_source PACKAGE FOLDER: the source of a Debian package, of this machine's distribution.
fetch_source() {
  [ -d "$2/lib" ] && return
  mkdir -p "$build/apt/lists/partial" "$build/apt/archives/partial"
  sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' /etc/apt/sources.list.d/debian.sources > "$build/apt/debian.sources"
  options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$build/apt/parts -o Dir::State::lists=$build/apt/lists"
  mkdir -p "$build/apt/parts"
  cp "$build/apt/debian.sources" "$build/apt/parts/"
  # shellcheck disable=SC2086  # words on purpose
  apt-get $options -q update
  # shellcheck disable=SC2086
  (cd "$build/apt" && apt-get $options -q source --download-only "$1")
  mkdir -p "$2"
  for archive in "$build"/apt/"$1"_*.orig.tar.*; do
    case $archive in *.asc) ;; *) tar -xf "$archive" -C "$2" --strip-components=1 ;; esac
  done
}
