#!/bin/sh
# A released wheel in clean systems without a compiler: wheel_test.sh FOLDER [SUITE ...] (default: Debian 12 and 13), with
# the wheel in FOLDER. The page's line installs it next to Debian's numpy, and first_tuning.py fine-tunes a network from numpy arrays.
# Prints how long that took. Exit status 77: it cannot.
set -eu
[ $# -ge 1 ] || { sed -n '2,4s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
. "$here/chroot.sh"
folder=$1
shift
ls "$folder"/graft-*_x86_64.whl > /dev/null 2>&1 || { echo "Skipped: $folder has no wheel: tools/package/release.sh makes it."; exit 77; }
[ $# -gt 0 ] || set -- bookworm trixie
for suite in "$@"; do (
  clean_debian "$suite" python3-numpy python3-venv
  echo "Debian $(cat "$clean/etc/debian_version"), from the wheel:"
  cp "$folder"/graft-*_x86_64.whl "$here/first_tuning.py" "$clean/try/"
  page_line wheel > "$clean/try/install.sh"
  # shellcheck disable=SC2016  # for the shell inside
  chroot "$clean" /bin/sh -c 'set -eu; cd /try
    for program in cc gcc g++ clang; do
      if command -v "$program" > /dev/null; then echo "There is a compiler here: $program." >&2; exit 1; fi
    done
    start=$(date +%s)
    PIP_NO_INDEX=1 PIP_QUIET=1 sh -e install.sh
    mkdir run; cd run
    ../env/bin/python ../first_tuning.py
    echo "From the wheel to a fine-tuned and exported network: $(($(date +%s) - start)) s."
    ../env/bin/graft info tuned.graft > info; test -s info'
) || exit $?; done
