#!/bin/sh
# Builds the core module of lua.wasm from the sources of Lua and of codebox and from the bindings. The result is
# reproducible.
#
#   build.sh CRATE BINDINGS OUT     CRATE: the folder with the sources of lua-src 551.1.0
#                                   BINDINGS: the folder with the C bindings of wit-bindgen for the contract
#                                   OUT: the path of the core module, from which the component is made
#
# PYTHON names an interpreter that has ziglang 0.15.2.
set -eu

usage="usage: build.sh CRATE BINDINGS OUT"
crate=${1:?"$usage"}
bindings=${2:?"$usage"}
out=${3:?"$usage"}
here=$(cd "$(dirname "$0")" && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Everything is compiled from one folder by relative names, so that no path gets into the result.
mkdir "$work/build"
cp "$crate"/lua-5.4.9/*.c "$crate"/lua-5.4.9/*.h "$here"/src/*.c "$here"/src/*.h "$work/build/"
cp "$bindings"/runtime.c "$bindings"/runtime.h "$bindings"/runtime_component_type.o "$work/build/"
case $out in
    /*) ;;
    *) out=$(pwd)/$out ;;
esac
cd "$work/build"

[ "$("$python" -m ziglang version)" = 0.15.2 ] || { echo "build.sh: ziglang is not 0.15.2" >&2; exit 1; }
target="-target wasm32-wasi -mexec-model=reactor"
# Lua raises errors with longjmp. The encoding of exceptions is the one that became the standard.
jumps="-mexception-handling -mllvm -wasm-enable-sjlj -mllvm -wasm-use-legacy-eh=false"

# auxlib includes Lua's lauxlib.
lua="lapi lcode lctype ldebug ldo ldump lfunc lgc llex lmem lobject lopcodes lparser lstate lstring ltable ltm lundump lvm
    lzio lbaselib lcorolib ldblib linit liolib lmathlib loadlib loslib lstrlib ltablib lutf8lib"
ours="auxlib failure job library memory missing paths program random sjlj socket state system text tools"
objects=runtime_component_type.o
for source in $lua $ours runtime; do
    objects="$objects $source.o"
    "$python" -m ziglang cc $target $jumps -std=gnu23 -O3 -DNDEBUG -D_GNU_SOURCE -D_WASI_EMULATED_PROCESS_CLOCKS \
        -include config.h -fvisibility=hidden -Wall -Wno-unused -Wno-return-type -c "$source.c" -o "$source.o"
done
# The stack comes first, so that an overflow leaves the memory and traps.
"$python" -m ziglang cc $target $objects -o out.wasm -Wl,-z,stack-size=1048576 -Wl,--strip-all
mv out.wasm "$out"
