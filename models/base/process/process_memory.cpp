#include "models/base/process/process_memory.hpp"

#include <fstream>
#include <map>
#include <string>

namespace rookery {

ProcessMemory process_memory(const std::filesystem::path& root) {
  ProcessMemory memory;
  const std::map<std::string, std::int64_t*> wanted{{"VmHWM:", &memory.peak},
                                                    {"VmRSS:", &memory.resident},
                                                    {"RssAnon:", &memory.anonymous},
                                                    {"RssFile:", &memory.of_files}};
  std::ifstream status(root / "proc/self/status");
  for (std::string word; status >> word;) {
    const auto found = wanted.find(word);
    std::int64_t kilobytes = 0;
    if (found != wanted.end() && status >> kilobytes) *found->second = kilobytes * 1024;
  }
  return memory;
}

}  // namespace rookery
