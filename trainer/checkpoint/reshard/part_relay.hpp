// The file of a checkpoint's part on its way from a machine that has it to clusters in which none has: over
// the ring of the Roots, from one to the next, none of which keeps more of it in memory than a piece.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "trainer/agreement.hpp"

namespace rookery {

struct PartRoute {
  std::filesystem::path path;  // where the part lies, or is put
  std::string name;            // of the messages
  int cluster = 0;             // this one
  std::vector<bool> lacks;     // by cluster; one at least has the part
  std::optional<int> holder;   // the stage of this cluster that has it
};

// Called by all nodes of all clusters at once. The first cluster that has the part gives it; each Root of one
// that lacks it writes its file. TransportError; DataError when a file cannot be read or written.
void relay_part(const PartRoute& route, const Agreement& agreement);

}  // namespace rookery
