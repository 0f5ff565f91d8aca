// What every translation unit starts with. `codegen/cache.py` keeps it precompiled: half of a small unit's compile time
// was the reading of these.
#pragma once
#include "math.h"
#include "runtime.h"
