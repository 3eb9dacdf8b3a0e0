// The page of a run: one HTML file that needs no other and no network.
#pragma once

#include <string>

#include "clusterize/report/page/run_files.hpp"

namespace rookery {

// What was trained and how it ended, curves, of every node its times predicted and measured, failures, the
// pictures of the plan and of a step, and all settings; and what of this is missing. A function of its
// argument alone. All texts are escaped but the pictures, which clusterize drew.
std::string run_page(const RunFiles& files);

}  // namespace rookery
