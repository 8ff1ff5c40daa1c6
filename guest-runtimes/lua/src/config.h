// Configuration of Lua's own sources, included before their first line. The sources themselves stay unchanged.
#ifndef CONFIG_H
#define CONFIG_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

// Defined as in Lua's own makefile.
#define LUA_COMPAT_5_3

// WebAssembly has no computed jumps; the code that compilers generate for them is slower than a switch.
#define LUA_USE_JUMPTABLE 0

// There are no signals, so the type need not be atomic.
#define l_signalT int

// File sizes may exceed the range of `long`.
#define l_fseek(file, offset, whence) fseeko(file, offset, whence)
#define l_ftell(file) ftello(file)
#define l_seeknum off_t

// random.c: seeds come from the job. Without address randomization and with a coarse clock, Lua's own seeds would
// repeat.
uint64_t random_next(void);
#define luai_makeseed(L) ((unsigned int)random_next())
#define l_randomizePivot() ((unsigned int)random_next())

// paths.c: modules are in the program's folder.
const char *paths_of_modules(void);
#define LUA_PATH_DEFAULT paths_of_modules()
#define LUA_CPATH_DEFAULT "./?.so"

#endif
