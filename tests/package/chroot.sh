# A clean Debian in a folder, for the tests of packages; sourced. Exit status 77: it cannot be had here.

# clean_debian SUITE: sets $clean to a fresh copy of this Debian with Mesa's software Vulkan and nothing more. The original
# is made once, by debootstrap, in GRAFT_CHROOTS (default: build/chroots); the copy is removed when the script ends.
clean_debian() {
  [ "$(id -u)" = 0 ] || { echo "Skipped: a chroot needs root."; exit 77; }
  command -v debootstrap > /dev/null || { echo "Skipped: debootstrap is not installed."; exit 77; }
  chroots=${GRAFT_CHROOTS:-$(cd "$(dirname "$0")/../.." && pwd)/build/chroots}
  if [ ! -e "$chroots/$1/whole" ]; then
    mkdir -p "$chroots"
    rm -rf "${chroots:?}/$1"
    debootstrap --variant=minbase --include=mesa-vulkan-drivers,libvulkan1 "$1" "$chroots/$1" > "$chroots/$1.log" 2>&1 ||
      { echo "Skipped: debootstrap failed ($chroots/$1.log)."; exit 77; }
    touch "$chroots/$1/whole"
  fi
  clean=$(mktemp -d)
  trap 'rm -rf "$clean"' EXIT
  cp -a "$chroots/$1/." "$clean/"
  mkdir "$clean/try"
}
