// What Lua's own sources are compiled with, ahead of their first line. The sources themselves stay as they are.
#ifndef CONFIG_H
#define CONFIG_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

// As `lua` is built by its own makefile.
#define LUA_COMPAT_5_3

// WebAssembly has no jumps to computed addresses; what compilers make of them is slower than a plain switch.
#define LUA_USE_JUMPTABLE 0

// There are no signals, so nothing has to be atomic.
#define l_signalT int

// Files may be larger than a `long` can tell.
#define l_fseek(file, offset, whence) fseeko(file, offset, whence)
#define l_ftell(file) ftello(file)
#define l_seeknum off_t

// random.c: seeds come from the job. Without address randomization and with a coarse clock, Lua's own would repeat.
uint64_t random_next(void);
#define luai_makeseed(L) ((unsigned int)random_next())
#define l_randomizePivot() ((unsigned int)random_next())

// paths.c: modules lie beside the program.
const char *paths_of_modules(void);
#define LUA_PATH_DEFAULT paths_of_modules()
#define LUA_CPATH_DEFAULT "./?.so"

#endif
