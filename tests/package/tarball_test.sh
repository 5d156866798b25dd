#!/bin/sh
# A released tarball in clean systems without a compiler: tarball_test.sh GRAFT.tar.gz [SUITE ...] (default: Debian 11, 12
# and 13). Installed by the page's line, it trains and exports a network, and prints how long that took. Exit status 77: it
# cannot.
set -eu
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/chroot.sh"
[ -f "$1" ] || { echo "Skipped: there is no $1: tools/package/release.sh makes it."; exit 77; }
tarball=$1
shift
[ $# -gt 0 ] || set -- bullseye bookworm trixie
for suite in "$@"; do (
  clean_debian "$suite"
  echo "Debian $(cat "$clean/etc/debian_version"), from the tarball:"
  cp "$tarball" "$here/first_training.sh" "$clean/try/"
  page_line tarball > "$clean/try/install.sh"
  # shellcheck disable=SC2016  # for the shell inside
  chroot "$clean" /bin/sh -c 'set -eu; cd /try; . ./install.sh; rm graft-*.tar.gz; mkdir run; cd run
    sh ../first_training.sh /try/graft-*/share/graft/demo.sh'
) || exit $?; done
