// Puts the files of a fused model into a bucket.
#pragma once

#include <string>
#include <vector>

#include "fusion/fused_model.hpp"

namespace rookery {

// UsageError for what is no address "s3://BUCKET/PREFIX".
void check_upload(const std::string& address);

// Puts them there under their names, "s3://BUCKET/PREFIX/trained_state_dict.safetensors" and so on, and
// returns where each is. Every one is read back and compared. DataError for what the server refuses.
std::vector<std::string> upload(const FusedFiles& files, const std::string& address);

}  // namespace rookery
