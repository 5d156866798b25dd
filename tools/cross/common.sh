# What the cross builds have in common; sourced by them with $root and $build set.

# The packer of kernels, which runs here.
build_packer() {
  mkdir -p "$build"
  c++ -O2 -std=c++20 "$root/shaders/pack_kernels.cpp" -lzstd -o "$build/graft_pack_kernels"
}

# Headers that are the same on every machine, away from those that are not.
copy_headers() {
  mkdir -p "$build/prefix/include"
  for header in flatbuffers xxhash.h vulkan vk_video; do cp -rp "/usr/include/$header" "$build/prefix/include/"; done
}

# download_source PACKAGE: the files of a Debian source package of this machine's distribution, in $build/apt.
download_source() {
  mkdir -p "$build/apt/lists/partial" "$build/apt/archives/partial" "$build/apt/parts"
  sed 's/^Types: deb$/Types: deb-src/; s/^deb /deb-src /' /etc/apt/sources.list.d/debian.sources > "$build/apt/parts/debian.sources"
  options="-o Dir::Etc::sourcelist=/dev/null -o Dir::Etc::sourceparts=$build/apt/parts -o Dir::State::lists=$build/apt/lists"
  # shellcheck disable=SC2086  # words on purpose
  apt-get $options -q update
  # shellcheck disable=SC2086
  (cd "$build/apt" && apt-get $options -q source --download-only "$1")
}

# fetch_source PACKAGE FOLDER: the source of a Debian package as its project publishes it.
fetch_source() {
  [ -d "$2/lib" ] && return
  download_source "$1"
  mkdir -p "$2"
  for archive in "$build"/apt/"$1"_*.orig.tar.*; do
    case $archive in *.asc) ;; *) tar -xf "$archive" -C "$2" --strip-components=1 ;; esac
  done
}

# fetch_patched PACKAGE FOLDER: the source of a Debian package with Debian's patches. Needs dpkg-dev.
fetch_patched() {
  [ -d "$2/debian" ] && return
  download_source "$1"
  rm -rf "$2"
  dpkg-source --no-check -x "$build"/apt/"$1"_*.dsc "$2"
}
