#include "models/base/libraries/json.hpp"

ROOKERY_JSON(template, nlohmann::basic_json<>)
ROOKERY_JSON(template, nlohmann::basic_json<nlohmann::ordered_map>)
