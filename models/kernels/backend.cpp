#include "models/kernels/backend.hpp"

#include "models/base/check.hpp"
#include "models/graph/op_attributes.hpp"

namespace rookery {
namespace {

const KernelRow* find_in(const std::map<std::string, KernelRow>& rows, const std::string& type) {
  const auto found = rows.find(type);
  return found == rows.end() ? nullptr : &found->second;
}

}  // namespace

void KernelTable::add(const std::string& type, KernelRow row) {
  ROOKERY_CHECK(rows_.emplace(type, row).second, "two kernels for {}", type);
}

void KernelTable::add_blocked(const std::string& type, KernelRow row) {
  ROOKERY_CHECK(blocked_rows_.emplace(type, row).second, "two kernels for {} in blocks", type);
}

const KernelRow* KernelTable::find(const std::string& type) const {
  return find_in(rows_, type);
}

const KernelRow* KernelTable::find_blocked(const std::string& type) const {
  return find_in(blocked_rows_, type);
}

std::unique_ptr<Kernel> KernelTable::make(const KernelRequest& request) const {
  const std::string& type = request.op.type;
  const KernelRow* row = is_blocked(request.op) ? find_blocked(type) : find(type);
  return row == nullptr ? nullptr : row->make(request);
}

}  // namespace rookery
