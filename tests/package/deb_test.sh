#!/bin/sh
# Released Debian packages in clean systems: deb_test.sh FOLDER [SUITE ...] (default: Debian 12 and 13), with the packages in
# FOLDER. They install, train and export a network, and go without a trace. Exit status 77: it cannot.
set -eu
[ $# -ge 1 ] || { sed -n '2,3s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/chroot.sh"
folder=$1
shift
ls "$folder"/graft-tools_*.deb > /dev/null 2>&1 || { echo "Skipped: $folder has no packages: tools/package/release.sh makes them."; exit 77; }
[ $# -gt 0 ] || set -- bookworm trixie
for suite in "$@"; do (
  clean_debian "$suite"
  echo "Debian $(cat "$clean/etc/debian_version"), from the packages:"
  cp "$folder"/graft-tools_*.deb "$folder"/libgraft0.1_*.deb "$folder"/libgraft-convert0.1_*.deb "$here/first_training.sh" "$clean/try/"
  # shellcheck disable=SC2016  # for the shell inside
  chroot "$clean" /bin/sh -c 'set -eu; cd /try; dpkg -i ./*.deb; mkdir run; cd run; sh ../first_training.sh /usr/share/graft/demo.sh; cd ..
    for package in libgraft0.1 graft-tools; do test -s /usr/share/doc/$package/copyright; done
    dpkg -P graft-tools libgraft-convert0.1 libgraft0.1
    if find /usr -name "*graft*" | grep .; then echo "These were left." >&2; exit 1; fi'
) || exit $?; done
