# Packages of other releases of Debian, unpacked and not installed: no root is needed, and nothing of this machine changes.
# Sourced by the scripts beside it.

# unpack_debian SUITE ARCH FOLDER PACKAGE...: the packages and what they depend on in FOLDER/root; FOLDER/packages lists names,
# versions and sources. SUITE+security also takes the suite's security updates. GRAFT_DEBIAN_MIRROR is another mirror.
unpack_debian() {
  suite=${1%+security} debian_arch=$2 debian=$3
  secure=${1#"$suite"}
  shift 3
  apt=$debian/apt
  rm -rf "$debian/root"
  mkdir -p "$apt/lists/partial" "$apt/archives/partial" "$apt/parts" "$debian/root"
  : > "$apt/status"
  keyring=/usr/share/keyrings/debian-archive-keyring.gpg
  mirror=${GRAFT_DEBIAN_MIRROR:-http://deb.debian.org}
  echo "deb [signed-by=$keyring] $mirror/debian $suite main" > "$apt/sources.list"
  [ -z "$secure" ] || echo "deb [signed-by=$keyring] $mirror/debian-security $suite-security main" >> "$apt/sources.list"
  options="-o Dir::Etc::sourcelist=$apt/sources.list -o Dir::Etc::sourceparts=$apt/parts -o Dir::State::lists=$apt/lists
    -o Dir::State::status=$apt/status -o Dir::Cache::archives=$apt/archives -o APT::Architecture=$debian_arch
    -o APT::Architectures::=$debian_arch -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= -o Debug::NoLocking=1"
  # shellcheck disable=SC2086  # words on purpose
  { apt-get $options -qq update && apt-get $options -qq -y --no-install-recommends --download-only install "$@"; } \
    > "$debian/log" 2>&1 || { cat "$debian/log" >&2; return 1; }
  for package in "$apt"/archives/*.deb; do
    dpkg -x "$package" "$debian/root"
    # shellcheck disable=SC2016  # fields of dpkg
    dpkg-deb -W --showformat='${Package} ${Version} ${source:Package}\n' "$package"
  done | sort > "$debian/packages"
  # Links that name a place from / would leave the folder.
  find "$debian/root" -type l -lname '/*' | while read -r link; do
    ln -sfn "$(realpath -sm --relative-to="$(dirname "$link")" "$debian/root$(readlink "$link")")" "$link"
  done
}

# run_unpacked PROGRAM FOLDER: writes PROGRAM, which runs the program of this name below FOLDER/root with the libraries there.
run_unpacked() {
  libraries=$2/root/usr/lib/x86_64-linux-gnu:$2/root/lib/x86_64-linux-gnu
  for loader in "$2"/root/lib64/ld-linux-x86-64.so.2 "$2"/root/usr/lib64/ld-linux-x86-64.so.2; do
    [ ! -e "$loader" ] || break
  done
  printf '#!/bin/sh\nexec "%s" --library-path "%s" "%s/root/usr/bin/%s" "$@"\n' "$loader" "$libraries" "$2" "$(basename "$1")" > "$1"
  chmod +x "$1"
}
