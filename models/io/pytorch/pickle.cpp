#include "models/io/pytorch/pickle.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

using Kind = PickleObject::Kind;

constexpr std::size_t kMaxObjects = std::size_t{1} << 20;  // bounds the memory that a pickle takes
constexpr int kNewestProtocol = 5;

// All opcodes there are, for the names of those that are refused.
constexpr std::array<const char*, 256> opcode_names() {
  std::array<const char*, 256> names{};
  constexpr std::pair<unsigned char, const char*> kNames[]{
      {'(', "MARK"},
      {'.', "STOP"},
      {'0', "POP"},
      {'1', "POP_MARK"},
      {'2', "DUP"},
      {'F', "FLOAT"},
      {'I', "INT"},
      {'J', "BININT"},
      {'K', "BININT1"},
      {'L', "LONG"},
      {'M', "BININT2"},
      {'N', "NONE"},
      {'P', "PERSID"},
      {'Q', "BINPERSID"},
      {'R', "REDUCE"},
      {'S', "STRING"},
      {'T', "BINSTRING"},
      {'U', "SHORT_BINSTRING"},
      {'V', "UNICODE"},
      {'X', "BINUNICODE"},
      {'a', "APPEND"},
      {'b', "BUILD"},
      {'c', "GLOBAL"},
      {'d', "DICT"},
      {'}', "EMPTY_DICT"},
      {'e', "APPENDS"},
      {'g', "GET"},
      {'h', "BINGET"},
      {'i', "INST"},
      {'j', "LONG_BINGET"},
      {'l', "LIST"},
      {']', "EMPTY_LIST"},
      {'o', "OBJ"},
      {'p', "PUT"},
      {'q', "BINPUT"},
      {'r', "LONG_BINPUT"},
      {'s', "SETITEM"},
      {'t', "TUPLE"},
      {')', "EMPTY_TUPLE"},
      {'u', "SETITEMS"},
      {'G', "BINFLOAT"},
      {'B', "BINBYTES"},
      {'C', "SHORT_BINBYTES"},
      {0x80, "PROTO"},
      {0x81, "NEWOBJ"},
      {0x82, "EXT1"},
      {0x83, "EXT2"},
      {0x84, "EXT4"},
      {0x85, "TUPLE1"},
      {0x86, "TUPLE2"},
      {0x87, "TUPLE3"},
      {0x88, "NEWTRUE"},
      {0x89, "NEWFALSE"},
      {0x8a, "LONG1"},
      {0x8b, "LONG4"},
      {0x8c, "SHORT_BINUNICODE"},
      {0x8d, "BINUNICODE8"},
      {0x8e, "BINBYTES8"},
      {0x8f, "EMPTY_SET"},
      {0x90, "ADDITEMS"},
      {0x91, "FROZENSET"},
      {0x92, "NEWOBJ_EX"},
      {0x93, "STACK_GLOBAL"},
      {0x94, "MEMOIZE"},
      {0x95, "FRAME"},
      {0x96, "BYTEARRAY8"},
      {0x97, "NEXT_BUFFER"},
      {0x98, "READONLY_BUFFER"},
  };
  for (const auto& [code, name] : kNames) names[code] = name;
  return names;
}
constexpr std::array<const char*, 256> kOpcodes = opcode_names();

class Machine {
 public:
  Machine(std::string_view bytes, const std::set<std::string, std::less<>>& globals,
          std::deque<PickleObject>& objects)
      : bytes_(bytes), globals_(globals), objects_(objects) {}

  const PickleObject* run() {
    while (true) {
      const std::size_t at = place_;
      const auto opcode = static_cast<unsigned char>(take(1).front());
      const char* name = kOpcodes.at(opcode);
      if (name == nullptr)
        throw DataError(fmt::format("byte {}: {:#04x} is no opcode of a pickle", at, opcode));
      if (stack_.size() + marks_.size() + memo_.size() > kMaxObjects)
        throw DataError(fmt::format("byte {}: more than {} objects", at, kMaxObjects));
      const bool ended =
          with_context(fmt::format("opcode {} at byte {}", name, at), [&] { return step(opcode); });
      if (ended) return pop();
    }
  }

 private:
  // True when the pickle ends.
  bool step(unsigned char opcode) {
    switch (opcode) {
      case 0x80:
        check_protocol(number(1));
        return false;
      case 0x95:  // how much follows, for readers that buffer
        take(8);
        return false;
      case '.':
        return true;
      case '(':
        marks_.push_back(stack_.size());
        return false;
      case 'b':
        build();
        return false;
      case 's':
        set_items(stack_.size() - std::min<std::size_t>(stack_.size(), 2));
        return false;
      case 'u':
        set_items(pop_mark());
        return false;
      case 'a':
        append(stack_.size() - std::min<std::size_t>(stack_.size(), 1));
        return false;
      case 'e':
        append(pop_mark());
        return false;
      case 'q':
        memo_[number(1)] = top();
        return false;
      case 'r':
        memo_[number(4)] = top();
        return false;
      case 0x94:
        memo_[memo_.size()] = top();
        return false;
      default:
        stack_.push_back(make(opcode));
        return false;
    }
  }

  // Opcodes that put one object on the stack.
  PickleObject* make(unsigned char opcode) {
    switch (opcode) {
      case 'N':
        return object(Kind::kNone);
      case 0x88:
        return object(Kind::kBool, 1);
      case 0x89:
        return object(Kind::kBool, 0);
      case 'K':
        return object(Kind::kInteger, static_cast<std::int64_t>(number(1)));
      case 'M':
        return object(Kind::kInteger, static_cast<std::int64_t>(number(2)));
      case 'J':
        return object(Kind::kInteger, static_cast<std::int32_t>(number(4)));
      case 0x8a:
        return object(Kind::kInteger, long_integer(number(1)));
      case 'G':
        take(8);
        return object(Kind::kFloat);
      case 'X':
        return text(take(number(4)));
      case 0x8c:
        return text(take(number(1)));
      case ')':
        return tuple(stack_.size());
      case 0x85:
      case 0x86:
      case 0x87:
        return tuple(below(opcode - std::size_t{0x84}));
      case 't':
        return tuple(pop_mark());
      case ']':
        return object(Kind::kList);
      case '}':
        return object(Kind::kDict);
      case 'h':
        return remembered(number(1));
      case 'j':
        return remembered(number(4));
      case 'c': {
        const std::string_view module = line();
        return global(module, line());
      }
      case 0x93: {
        const PickleObject* name = pop();
        const PickleObject* module = pop();
        if (name->kind != Kind::kText || module->kind != Kind::kText)
          throw DataError("names that are no text");
        return global(module->text, name->text);
      }
      case 'Q': {
        const PickleObject* id = pop();
        PickleObject* made = object(Kind::kPersistent);
        made->items = {id};
        return made;
      }
      case 'R': {
        const PickleObject* arguments = pop();
        const PickleObject* callee = pop();
        if (callee->kind != Kind::kGlobal || arguments->kind != Kind::kTuple)
          throw DataError(fmt::format("a call of {} with {}", callee->describe(), arguments->describe()));
        PickleObject* made = object(Kind::kCall);
        made->items = {callee, arguments};
        return made;
      }
      default:
        throw DataError("no state dict needs it, and it is not read");
    }
  }

  static void check_protocol(std::uint64_t protocol) {
    if (protocol < 2 || protocol > kNewestProtocol)
      throw DataError(fmt::format("protocol {}; 2 to {} are read", protocol, kNewestProtocol));
  }

  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - place_)
      throw DataError(
          fmt::format("needs {} bytes from byte {} on, the pickle has {}", count, place_, bytes_.size()));
    const std::string_view taken = bytes_.substr(place_, count);
    place_ += count;
    return taken;
  }
  std::uint64_t number(std::size_t count) {
    std::uint64_t value = 0;
    const std::string_view taken = take(count);
    for (std::size_t i = 0; i < count; ++i)
      value |= std::uint64_t{static_cast<unsigned char>(taken[i])} << (8 * i);
    return value;
  }
  // Two's complement of any length.
  std::int64_t long_integer(std::size_t count) {
    if (count > sizeof(std::int64_t)) throw DataError(fmt::format("an integer of {} bytes", count));
    if (count == 0) return 0;
    const auto unused = static_cast<int>(8 * (sizeof(std::int64_t) - count));
    return static_cast<std::int64_t>(number(count) << unused) >> unused;
  }
  std::string_view line() {
    const std::size_t end = bytes_.find('\n', place_);
    if (end == std::string_view::npos) throw DataError("a name without an end");
    const std::string_view taken = take(end - place_);
    ++place_;
    return taken;
  }

  PickleObject* object(Kind kind, std::int64_t integer = 0) {
    if (objects_.size() == kMaxObjects) throw DataError(fmt::format("more than {} objects", kMaxObjects));
    return &objects_.emplace_back(PickleObject{.kind = kind, .integer = integer});
  }
  PickleObject* text(std::string_view bytes) {
    PickleObject* made = object(Kind::kText);
    made->text = bytes;
    // Refuses what is not UTF-8.
    in_quotes(made->text);
    return made;
  }
  PickleObject* global(std::string_view module, std::string_view name) {
    const std::string full = fmt::format("{}.{}", module, name);
    if (!globals_.contains(full)) {
      throw DataError(
          fmt::format("names {}, which is no part of a state dict; nothing was run. Save the state dict "
                      "alone: torch.save(model.state_dict(), FILE)",
                      in_quotes(full)));
    }
    PickleObject* made = object(Kind::kGlobal);
    made->text = full;
    return made;
  }
  PickleObject* tuple(std::size_t begin) {
    PickleObject* made = object(Kind::kTuple);
    made->items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
    return made;
  }
  PickleObject* remembered(std::uint64_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) throw DataError(fmt::format("nothing was remembered as {}", key));
    return found->second;
  }

  // Where the objects above the last mark begin, or the stack.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  std::size_t below(std::size_t count) const {
    if (stack_.size() - floor() < count) throw DataError("the stack is empty");
    return stack_.size() - count;
  }
  PickleObject* top() const { return stack_[below(1)]; }
  PickleObject* pop() {
    PickleObject* taken = top();
    stack_.pop_back();
    return taken;
  }
  std::size_t pop_mark() {
    if (marks_.empty()) throw DataError("there is no mark");
    const std::size_t mark = marks_.back();
    marks_.pop_back();
    return mark;
  }
  // The object just below `begin`, which takes what lies above.
  PickleObject* container(std::size_t begin) const {
    if (begin <= floor() || begin > stack_.size()) throw DataError("the stack is empty");
    return stack_[begin - 1];
  }

  void set_items(std::size_t begin) {
    PickleObject* to = container(begin);
    if (to->kind != Kind::kDict && to->kind != Kind::kCall)
      throw DataError(fmt::format("{} has no keys", to->describe()));
    if ((stack_.size() - begin) % 2 != 0) throw DataError("a key without a value");
    for (std::size_t i = begin; i < stack_.size(); i += 2) to->pairs.emplace_back(stack_[i], stack_[i + 1]);
    stack_.resize(begin);
  }
  void append(std::size_t begin) {
    PickleObject* to = container(begin);
    if (to->kind != Kind::kList) throw DataError(fmt::format("{} is no list", to->describe()));
    to->items.insert(to->items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(begin), stack_.end());
    stack_.resize(begin);
  }
  // Attributes of an object, such as the versions that a state dict carries as `_metadata`: not kept.
  void build() {
    pop();
    if (top()->kind != Kind::kCall) throw DataError(fmt::format("{} has no attributes", top()->describe()));
  }

  std::string_view bytes_;
  std::size_t place_ = 0;
  const std::set<std::string, std::less<>>& globals_;
  std::deque<PickleObject>& objects_;
  std::vector<PickleObject*> stack_;
  std::vector<std::size_t> marks_;
  std::map<std::uint64_t, PickleObject*> memo_;
};

}  // namespace

std::string PickleObject::describe() const {
  switch (kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return "a bool";
    case Kind::kInteger:
      return "an integer";
    case Kind::kFloat:
      return "a float";
    case Kind::kText:
      return "a text";
    case Kind::kTuple:
      return "a tuple";
    case Kind::kList:
      return "a list";
    case Kind::kDict:
      return "a dict";
    case Kind::kGlobal:
      return text;
    case Kind::kCall:
      return items.front()->text + "(…)";
    case Kind::kPersistent:
      return "a storage";
  }
  return {};
}

bool PickleObject::is_call_of(std::string_view global) const {
  return kind == Kind::kCall && items.front()->text == global;
}

Pickle::Pickle(std::string_view bytes, const std::set<std::string, std::less<>>& globals)
    : root_(Machine(bytes, globals, objects_).run()) {}

}  // namespace rookery
