# A clean Debian in a folder, for the tests of packages; sourced. Exit status 77: it cannot be had here.

# swiftshader FOLDER: makes SwiftShader the only Vulkan driver of the system in FOLDER. This build of it needs glibc 2.17 only.
# Versions 112 and 126 compile the demo's training for minutes, with gigabytes of memory.
swiftshader() {
  { command -v npm && command -v node; } > /dev/null || { echo "Skipped: Debian 11 needs a driver from npm, which is missing."; exit 77; }
  (cd "$1" && mkdir swiftshader && cd swiftshader && npm pack --silent @sparticuz/chromium@153.0.0 && tar -xzf ./*.tgz &&
    node -e 'process.stdout.write(require("zlib").brotliDecompressSync(require("fs").readFileSync("package/bin/swiftshader.tar.br")))' |
    tar -x libvk_swiftshader.so && rm -rf ./*.tgz package "$1"/usr/share/vulkan/icd.d/*) > "$1.npm.log" 2>&1 ||
    { echo "Skipped: npm has no SwiftShader ($1.npm.log)."; exit 77; }
  echo '{"file_format_version": "1.0.0", "ICD": {"library_path": "/swiftshader/libvk_swiftshader.so", "api_version": "1.1.0"}}' \
    > "$1/usr/share/vulkan/icd.d/swiftshader.json"
}

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
    [ "$suite" != bullseye ] || swiftshader "$chroots/$suite"  # its own software driver has Vulkan 1.0 only
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

# page_line PACKAGE: the line by which docs/start/install.md installs this package.
page_line() {
  line=$(sed -n "s/^| $1 | .* | \`\(.*\)\` |\$/\1/p" "$(dirname "$0")/../../docs/start/install.md")
  [ -n "$line" ] || { echo "docs/start/install.md has no line for the $1." >&2; return 1; }
  printf '%s\n' "$line"
}
