#!/bin/sh
# Released Debian packages in clean systems: deb_test.sh FOLDER [SUITE ...] (default: Debian 12 and 13), with the packages in
# FOLDER. They install by the page's line, train and export a network, and go without a trace. Exit status 77: it cannot.
set -eu
[ $# -ge 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/chroot.sh"
folder=$1
shift
ls "$folder"/graft-tools_*.deb > /dev/null 2>&1 || { echo "Skipped: $folder has no packages: tools/package/release.sh makes them."; exit 77; }
(cd "$folder" && sha256sum --quiet -c SHA256SUMS)
[ $# -gt 0 ] || set -- bookworm trixie
for suite in "$@"; do (
  clean_debian "$suite"
  echo "Debian $(cat "$clean/etc/debian_version"), from the packages:"
  cp "$folder"/*.deb "$here/first_training.sh" "$clean/try/"
  page_line "Debian packages" > "$clean/try/install.sh"
  # shellcheck disable=SC2016  # for the shell inside
  chroot "$clean" /bin/sh -c 'set -eu; cd /try; . ./install.sh < /dev/null; mkdir run; cd run
    sh ../first_training.sh /usr/share/graft/demo.sh; cd ..
    packages="graft-tools libgraft-dev libgraft-convert0.1 libgraft0.1"
    for package in $packages; do test -s /usr/share/doc/$package/copyright; done
    dpkg -P $packages
    if find /usr -name "*graft*" | grep .; then echo "These were left." >&2; exit 1; fi'
) || exit $?; done
