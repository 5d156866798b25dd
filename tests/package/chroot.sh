# A clean Debian in a folder, for the tests of packages; sourced. Exit status 77: it cannot be had here.

# clean_debian SUITE [PACKAGE...]: sets $clean to a fresh copy of this Debian with Mesa's software Vulkan and PACKAGES, without
# what they only recommend. The originals are made once, in GRAFT_CHROOTS (default: build/chroots). The copy is removed when
# the script ends.
clean_debian() {
  [ "$(id -u)" = 0 ] || { echo "Skipped: a chroot needs root."; exit 77; }
  command -v debootstrap > /dev/null || { echo "Skipped: debootstrap is not installed."; exit 77; }
  chroots=${GRAFT_CHROOTS:-$(cd "$(dirname "$0")/../.." && pwd)/build/chroots}
  suite=$1
  shift
  if [ ! -e "$chroots/$suite/whole" ]; then
    mkdir -p "$chroots"
    rm -rf "${chroots:?}/$suite"
    debootstrap --variant=minbase --include=mesa-vulkan-drivers,libvulkan1 "$suite" "$chroots/$suite" > "$chroots/$suite.log" 2>&1 ||
      { echo "Skipped: debootstrap failed ($chroots/$suite.log)."; exit 77; }
    touch "$chroots/$suite/whole"
  fi
  original=$chroots/$suite
  if [ $# -gt 0 ]; then
    original=$chroots/$suite+$(echo "$*" | tr ' ' '+')
    if [ ! -e "$original/whole" ]; then
      rm -rf "$original"
      cp -a "$chroots/$suite" "$original"
      rm "$original/whole"
      { chroot "$original" apt-get -qq update && DEBIAN_FRONTEND=noninteractive chroot "$original" apt-get -qq -y \
          --no-install-recommends install "$@"; } > "$original.log" 2>&1 || { echo "Skipped: apt-get failed ($original.log)."; exit 77; }
      touch "$original/whole"
    fi
  fi
  clean=$(mktemp -d)
  trap 'rm -rf "$clean"' EXIT
  cp -a "$original/." "$clean/"
  mkdir "$clean/try"
}
