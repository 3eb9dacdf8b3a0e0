#include "models/base/libraries/format.hpp"

ROOKERY_FORMAT(template)
