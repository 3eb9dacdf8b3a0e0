// The place in a run that a plan goes on from.
#pragma once

#include <cstdint>
#include <string>

#include "models/base/files/json_file.hpp"

namespace rookery {

// The checkpoint of this step that the stages of another plan have written; or, where that is damaged or
// nobody has all of it any more, the newest before it.
struct ResumePoint {
  std::string plan_id;
  int stages = 1;  // of that plan's cluster: as many parts as the checkpoint has
  std::int64_t step = 0;
  int cluster = 0;  // that wrote the parts; of another plan always the first, which is not said in JSON
  bool operator==(const ResumePoint&) const = default;
};

OrderedJson to_json(const ResumePoint& point);
// `json` fits resume_schema().
ResumePoint resume_point_from_json(const Json& json);
Json resume_schema();

}  // namespace rookery
