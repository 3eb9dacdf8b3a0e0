// Python's pickles as data (https://docs.python.org/3/library/pickletools.html): a machine for those opcodes
// that torch.save needs for state dicts and checkpoints of plain values, protocols 2 to 5. Classes are not
// looked up and calls are not made: both are recorded as what the pickle says. Internal to this module.
#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace rookery {

// Objects point to each other as the pickle has it: one may be in many places, even in itself.
struct PickleObject {
  enum class Kind : std::uint8_t {
    kNone,
    kBool,        // integer
    kInteger,     // integer
    kFloat,       // its number is not kept
    kText,        // text
    kTuple,       // items
    kList,        // items
    kDict,        // pairs
    kGlobal,      // text: "module.name" of a class or function
    kCall,        // items: its global, its tuple of arguments; pairs where it is used as a dict
    kPersistent,  // items: what stands for an object that is kept elsewhere
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  std::string text;  // UTF-8
  std::vector<const PickleObject*> items;
  std::vector<std::pair<const PickleObject*, const PickleObject*>> pairs;

  // "an integer", "a list", "torch._utils._rebuild_tensor_v2(…)", for messages.
  std::string describe() const;
  bool is_call_of(std::string_view global) const;
};

class Pickle {
 public:
  // Reads all of `bytes`, which may name only these globals ("module.name"). DataError with opcode and place
  // for anything else, for what does not end, and for more than a million objects.
  Pickle(std::string_view bytes, const std::set<std::string, std::less<>>& globals);

  const PickleObject& root() const { return *root_; }

 private:
  std::deque<PickleObject> objects_;
  const PickleObject* root_ = nullptr;
};

}  // namespace rookery
