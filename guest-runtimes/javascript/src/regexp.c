// QuickJS-NG's regular expressions, with the depth of their parser made visible to the stack check.
#include "libregexp.h"

#include "depth.h"

#define lre_check_stack_overflow(state, size) lre_check_stack_overflow(DEEPENED(DEEPER_BY_STEP, state), size)

#include "libregexp.c"
