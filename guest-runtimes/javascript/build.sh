#!/bin/sh
# Builds javascript.wasm from the sources of QuickJS-NG and of codebox. The result is reproducible.
#
#   build.sh CRATE [OUT]     CRATE: the unpacked folder of the crate rquickjs-sys, as Cargo.lock pins it
#
# `cargo xtask guests` calls it. PYTHON names an interpreter that has ziglang 0.15.2; PRELUDE another prelude than
# prelude.js; OPTIONS more flags; BUILD a folder to keep between builds, so that only what has changed is compiled.
set -eu

crate=${1:?"usage: build.sh CRATE [OUT]"}
here=$(cd "$(dirname "$0")" && pwd)
out=${2:-$here/javascript.wasm}
case $out in /*) ;; *) out=$PWD/$out ;; esac
python=${PYTHON:-python3}
prelude=${PRELUDE:-$here/prelude.js}
if [ -n "${BUILD-}" ]; then
    mkdir -p "$BUILD"
    work=$(cd "$BUILD" && pwd)
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi

# Everything is compiled from one folder by relative names, so that no path gets into the result.
mkdir -p "$work/build"
cp -p "$crate"/quickjs/*.c "$crate"/quickjs/*.h "$here"/src/*.c "$here"/src/*.h "$here"/src/*.zig "$work/build/"
cp -p "$prelude" "$work/build/prelude.js"
cd "$work/build"

[ "$("$python" -m ziglang version)" = 0.15.2 ] || { echo "build.sh: ziglang is not 0.15.2" >&2; exit 1; }
target="-target wasm32-wasi -mexec-model=reactor"

# The compiler caches its results by their inputs, but ignores embedded files, for which the digest stands.
digest=$(sha256sum prelude.js | cut -c1-64)

objects=
for source in engine regexp libunicode dtoa bytes clock digests errors files host inspect loop memory modules reactor streams; do
    objects="$objects $source.o"
    # With BUILD, an object is kept unless one of its sources is newer.
    case $source in
        engine) more=quickjs.c ;;
        regexp) more=libregexp.c ;;
        reactor) more=prelude.js ;;
        *) more=$source.c ;;
    esac
    [ -f "$source.o" ] && [ -z "$(find "$source.c" "$more" ./*.h -newer "$source.o")" ] && continue
    define=
    [ "$source" != reactor ] || define=-DPRELUDE_DIGEST=x$digest
    "$python" -m ziglang cc $target -std=gnu23 -O3 -DNDEBUG -D_GNU_SOURCE -DPRELUDE_FILE='"prelude.js"' $define \
        -fno-strict-aliasing -funsigned-char -fwrapv -fvisibility=hidden -Wall -Wno-unused -Wno-sign-compare \
        ${OPTIONS-} -c "$source.c" -o "$source.o"
done
"$python" -m ziglang build-obj -target wasm32-wasi -O ReleaseFast -fstrip -fsingle-threaded --name algorithms digests.zig -femit-bin=algorithms.o
"$python" -m ziglang cc $target $objects algorithms.o -o out.wasm -Wl,-z,stack-size=4194304 -Wl,--strip-all
mv out.wasm "$out"
