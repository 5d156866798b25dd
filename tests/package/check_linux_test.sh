#!/bin/sh
# tools/package/check_linux.sh accepts what glibc 2.31 runs, and names what it does not: check_linux_test.sh CHECK_SH
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
case $(getconf GNU_LIBC_VERSION 2> /dev/null || true) in
  "glibc 2.3"[6-9] | "glibc 2."[4-9]*) ;;
  *) echo "Skipped: arc4random() is of glibc 2.36, which is not here."; exit 77 ;;
esac
# Without the start files, whose symbols are this machine's.
printf 'extern int puts(const char*);\nint say(void) { return puts("text"); }\n' > old.c
printf '#include <stdlib.h>\nint number(void) { return (int)arc4random(); }\n' > new.c
printf 'extern const char* zlibVersion(void);\nextern int puts(const char*);\nint say(void) { return puts(zlibVersion()); }\n' > other.c
for name in old new; do cc -shared -fPIC -nostartfiles -o $name.so $name.c; done
cc -shared -fPIC -nostartfiles -o other.so other.c -lz
sh "$1" old.so > out
grep -q "old.so: glibc 2[.][0-9.]*; needs libc.so.6" out || { cat out; exit 1; }
if sh "$1" old.so new.so > out 2>&1; then echo "glibc 2.36 was accepted." >&2; exit 1; fi
grep -q "new.so needs glibc 2.36; the limit is 2.31." out || { cat out; exit 1; }
if sh "$1" other.so > out 2>&1; then echo "libz was accepted." >&2; exit 1; fi
grep -q "other.so needs these libraries besides glibc: libz.so.1." out || { cat out; exit 1; }
if sh "$1" old.c > out 2>&1; then echo "A text was accepted." >&2; exit 1; fi
echo "What is too new and what is not glibc's is named."
