#!/bin/sh
# Installs codebox @VERSION@ for one user, or for all users of a machine, from an archive of a release.
#
# usage: sh install.sh [PREFIX]
#
# PREFIX is the directory for bin, lib and share, by default ~/.local, and /usr/local for root. An older installation below it is replaced.
#
# CODEBOX_URL   address of the directory with the archives and SHA256SUMS
set -eu

version="@VERSION@"
url=${CODEBOX_URL:-@URL@}

fail() {
    echo "install.sh: $*" >&2
    exit 1
}

[ $# -le 1 ] || fail "expected at most one argument, the prefix"
if [ $# -eq 1 ]; then
    prefix=$1
elif [ "$(id -u)" = 0 ]; then
    prefix=/usr/local
else
    [ -n "${HOME:-}" ] || fail "HOME is not set; name the prefix: sh install.sh PREFIX"
    prefix=$HOME/.local
fi
case $prefix in
/*) ;;
*) prefix=$(pwd)/$prefix ;;
esac

[ -n "$url" ] || fail "no address to download from; set CODEBOX_URL"
[ "$(uname -s)" = Linux ] || fail "there is no archive for $(uname -s); build codebox from source"
case $(uname -m) in
x86_64 | amd64) target=x86_64-linux ;;
aarch64 | arm64) target=aarch64-linux ;;
*) fail "there is no archive for $(uname -m); build codebox from source" ;;
esac

# Downloads a file: fetch NAME OUTPUT
if command -v curl >/dev/null; then
    fetch() { curl --fail --silent --show-error --location --output "$2" "$url/$1"; }
elif command -v wget >/dev/null; then
    fetch() { wget -q -O "$2" "$url/$1"; }
else
    fail "curl or wget is needed"
fi
if command -v zstd >/dev/null; then
    archive=codebox-$version-$target.tar.zst
    unpack() { zstd --decompress --stdout --quiet "$1" | tar -xf - -C "$2"; }
else
    archive=codebox-$version-$target.tar.gz
    unpack() { gzip -dc "$1" | tar -xf - -C "$2"; }
fi

# The archive is unpacked on the disk of the prefix, so that its directories can be moved.
mkdir -p "$prefix" || fail "cannot create $prefix"
work=$(mktemp -d "$prefix/.codebox-install.XXXXXX") || fail "cannot write to $prefix"
trap 'rm -rf "$work"' EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

echo "downloading $archive"
fetch SHA256SUMS "$work/SHA256SUMS" || fail "cannot download $url/SHA256SUMS"
fetch "$archive" "$work/$archive" || fail "cannot download $url/$archive"
grep "  $archive\$" "$work/SHA256SUMS" >"$work/expected" || fail "SHA256SUMS does not list $archive"
if command -v sha256sum >/dev/null; then
    (cd "$work" && sha256sum -c expected >/dev/null 2>&1) || fail "the checksum of $archive is wrong; download it again"
elif command -v shasum >/dev/null; then
    (cd "$work" && shasum -a 256 -c expected >/dev/null 2>&1) || fail "the checksum of $archive is wrong; download it again"
else
    fail "sha256sum or shasum is needed"
fi
mkdir "$work/files"
unpack "$work/$archive" "$work/files" || fail "cannot unpack $archive; is the disk full?"

# The programs come last: until then, those of an older installation find no runtimes of their version and ignore the new ones.
new=$work/files/codebox-$version-$target
mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/share"
if [ -e "$prefix/lib/codebox" ]; then
    mv "$prefix/lib/codebox" "$work/replaced"
fi
mv "$new/lib/codebox" "$prefix/lib/codebox"
(cd "$new/share" && find . -type f) | while IFS= read -r file; do
    mkdir -p "$prefix/share/$(dirname "$file")"
    mv "$new/share/$file" "$prefix/share/$file"
done
mv "$new/bin/codebox-full" "$prefix/bin/codebox-full"
mv "$new/bin/codebox" "$prefix/bin/codebox"

echo "installed $("$prefix/bin/codebox" --version) in $prefix"
case :${PATH:-}: in
*:"$prefix/bin":*) ;;
*) echo "add $prefix/bin to PATH to run it as codebox" ;;
esac
