// The settings of train.json that say in which encoding numbers travel from node to node.
#pragma once

#include <string>

namespace rookery {

enum class Encoding : unsigned char { kFloat32, kFloat16, kBFloat16, kInt8, kInt4, kTopK };

struct Compression {
  Encoding encoding = Encoding::kFloat32;
  double share = 1;     // topk: of the numbers, those that are largest
  int value_bits = 32;  // topk: of each of them

  bool is_lossy() const { return encoding != Encoding::kFloat32; }
};

// A regular expression (ECMAScript) of the texts that parse_compression() takes.
inline constexpr const char* kCompressionPattern =
    R"(^(none|fp16|bf16|int8|int4|topk:0\.0*[1-9][0-9]{0,8}(:(32|8|2))?)$)";

// "none", "fp16", "bf16", "int8", "int4", "topk:SHARE", "topk:SHARE:BITS". ConfigError for other texts.
Compression parse_compression(const std::string& text);

}  // namespace rookery
