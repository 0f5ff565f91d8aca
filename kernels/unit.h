// What every translation unit starts with.
#pragma once
#include "math.h"
#include "runtime.h"
