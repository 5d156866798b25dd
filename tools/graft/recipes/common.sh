# What the scripts of all recipes share: run.sh reads it.
if ! command -v graft > /dev/null; then
  echo "The command graft is not on the PATH." >&2
  exit 1
fi

# Each command is printed before it runs.
graft() { echo "\$ graft $*" >&2; command graft "$@"; }

# fetch FILE ADDRESS SHA256: takes the file from the folder DATA, if that is set, else from its address, and checks it.
fetch() {
  if [ "${DATA:-}" ]; then
    cp "$DATA/$1" "$1"
  elif [ ! -f "$1" ] && ! curl -fL -o "$1" "$2"; then
    echo "Fetch $2 by hand, and name the folder that holds it: DATA=FOLDER sh run.sh" >&2
    exit 1
  fi
  if ! echo "$3  $1" | { if command -v sha256sum > /dev/null; then sha256sum -c -; else shasum -a 256 -c -; fi; }; then
    echo "$1 is not the file that this recipe was measured with; its sha256 should be $3." >&2
    exit 1
  fi
}
