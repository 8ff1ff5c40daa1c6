#!/bin/sh
# Installs codebox @VERSION@ for one user, or for all users of a machine, from an archive of a release.
#
# usage: sh install.sh [PREFIX]
#
# PREFIX is the directory for bin, lib and share, by default ~/.local, and /usr/local for root. An older installation below it is replaced.
#
# CODEBOX_URL   address of the directory with the archives and SHA256SUMS
set -eu

# The last line calls this function, so a script that was cut off in transfer does nothing.
main() {
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
    # Puts the replaced runtimes back if the installation was interrupted.
    clean_up() {
        if [ -e "$work/replaced" ]; then
            rm -rf "$prefix/lib/codebox"
            mv "$work/replaced" "$prefix/lib/codebox"
        fi
        rm -rf "$work"
    }
    trap clean_up EXIT
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

    new=$work/files/codebox-$version-$target
    shown=$("$new/bin/codebox" --version) || fail "the program of $archive does not start on this machine"

    # Manuals and completions first, then the runtimes, then the programs, each by renaming within one disk. Until the programs are
    # replaced, those of an older installation find no runtimes of their version and ignore the new ones.
    for name in codebox codebox-run codebox-full; do
        [ ! -d "$prefix/bin/$name" ] || fail "$prefix/bin/$name is a directory; remove it"
    done
    mkdir -p "$prefix/bin" "$prefix/lib" "$prefix/share"
    (cd "$new/share" && find . -type f) >"$work/shared"
    while IFS= read -r file; do
        mkdir -p "$prefix/share/$(dirname "$file")" || fail "cannot create $prefix/share/$(dirname "$file")"
        mv -f "$new/share/$file" "$prefix/share/$file" || fail "cannot write $prefix/share/$file"
    done <"$work/shared"
    if [ -e "$prefix/lib/codebox" ] || [ -L "$prefix/lib/codebox" ]; then
        mv "$prefix/lib/codebox" "$work/replaced"
    fi
    mv "$new/lib/codebox" "$prefix/lib/codebox"
    mv -f "$new/bin/codebox-full" "$prefix/bin/codebox-full"
    mv -f "$new/bin/codebox-run" "$prefix/bin/codebox-run"
    mv -f "$new/bin/codebox" "$prefix/bin/codebox"
    rm -rf "$work/replaced"

    echo "installed $shown in $prefix"
    case :${PATH:-}: in
    *:"$prefix/bin":*) ;;
    *) echo "add $prefix/bin to PATH to run it as codebox" ;;
    esac
}

main "$@"
