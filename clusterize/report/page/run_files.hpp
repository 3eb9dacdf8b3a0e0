// What a run has left in its folders, read for its page.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "clusterize/report/page/curve_picture.hpp"
#include "models/base/files/json_file.hpp"
#include "models/base/libraries/json.hpp"

namespace rookery {

struct RunFiles {
  Json plan;      // plan.json
  Json settings;  // all of them, as the nodes have them
  // How the node ended (ProviderEvent "done" or "failed", with "plan_id"), by its name; those of this plan
  // alone.
  std::map<std::string, Json> ends;
  std::map<std::string, Curve> curves;     // by what metrics.jsonl calls them
  std::string plan_picture, step_picture;  // SVG files; empty: not there
  std::vector<std::string> missing;        // what the page will lack, and how to get it
};

// `node_data` as clusterize wrote it, `output` as the providers have. What is no plan is a DataError that
// names the file; what a run need not have is only `missing`.
RunFiles read_run(const std::filesystem::path& node_data, const std::filesystem::path& output);

}  // namespace rookery
