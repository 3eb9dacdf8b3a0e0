#include "trainer/settings/resume_point.hpp"

#include "models/base/libraries/json.hpp"

namespace rookery {

OrderedJson to_json(const ResumePoint& point) {
  return {{"plan_id", point.plan_id}, {"stages", point.stages}, {"step", point.step}};
}

ResumePoint resume_point_from_json(const Json& json) {
  return {.plan_id = json.at("plan_id").get<std::string>(),
          .stages = json.at("stages").get<int>(),
          .step = json.at("step").get<std::int64_t>()};
}

Json resume_schema() {
  return Json::parse(R"({
    "type": "object", "required": ["plan_id", "stages", "step"], "additionalProperties": false,
    "properties": {"plan_id": {"type": "string", "pattern": "^[0-9a-f]{16}$"},
                   "stages": {"type": "integer", "minimum": 1, "maximum": 1000000},
                   "step": {"type": "integer", "minimum": 0, "maximum": 1125899906842624}}})");
}

}  // namespace rookery
