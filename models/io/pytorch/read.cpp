#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"
#include "models/io/pytorch/half.hpp"
#include "models/io/pytorch/pickle.hpp"
#include "models/io/pytorch/pytorch.hpp"
#include "models/io/pytorch/zip.hpp"

namespace rookery {
namespace {

using Kind = PickleObject::Kind;

// Bounds on what a small file can become (FORMAT.md): some hundred thousand tensors; and memory for them of
// this many times the file's bytes, for storages that deflate well and tensors that share one, besides an
// allowance.
constexpr std::uint64_t kMaxPickleBytes = 16U << 20;
constexpr std::uint64_t kMaxGrowth = 16;
constexpr std::uint64_t kAllowance = 64U << 20;
constexpr const char* kOrderedDict = "collections.OrderedDict";
constexpr const char* kTensor = "torch._utils._rebuild_tensor_v2";
constexpr const char* kParameter = "torch._utils._rebuild_parameter";
constexpr const char* kSaveAlone = "save the state dict alone: torch.save(model.state_dict(), FILE)";

struct Storage {
  DType dtype;
  Half half = Half::kNone;  // what the file has where dtype is not that
};
const std::map<std::string, Storage, std::less<>> kStorages{
    {"torch.FloatStorage", {DType::kF32}},
    {"torch.DoubleStorage", {DType::kF64}},
    {"torch.LongStorage", {DType::kI64}},
    {"torch.IntStorage", {DType::kI32}},
    {"torch.ByteStorage", {DType::kU8}},
    {"torch.BoolStorage", {DType::kBool}},
    {"torch.HalfStorage", {DType::kF32, Half::kF16}},
    {"torch.BFloat16Storage", {DType::kF32, Half::kBf16}},
};
// Known, so that a tensor of one is refused by its name.
const std::array kOtherStorages{"torch.CharStorage", "torch.ShortStorage", "torch.ComplexFloatStorage",
                                "torch.ComplexDoubleStorage"};

std::uint64_t stored_bytes(const Storage& storage) {
  return storage.half == Half::kNone ? bytes_of(storage.dtype) : kHalfBytes;
}

// A tensor of the file: a window onto one of its storages.
struct Window {
  std::string key;  // of the storage
  Storage storage;
  std::int64_t stored = 0;  // elements of the storage
  std::int64_t offset = 0;
  Shape shape;
  std::vector<std::int64_t> strides;
};

const std::set<std::string, std::less<>>& known_globals() {
  static const std::set<std::string, std::less<>> names = [] {
    std::set<std::string, std::less<>> all{kOrderedDict, kTensor, kParameter};
    for (const auto& [name, storage] : kStorages) all.insert(name);
    all.insert(kOtherStorages.begin(), kOtherStorages.end());
    return all;
  }();
  return names;
}

std::int64_t integer_from(const PickleObject& object) {
  if (object.kind != Kind::kInteger || object.integer < 0)
    throw DataError(fmt::format("{} where a whole number from 0 up belongs", object.describe()));
  return object.integer;
}

std::vector<std::int64_t> integers_from(const PickleObject& object) {
  if (object.kind != Kind::kTuple)
    throw DataError(fmt::format("{} where a tuple belongs", object.describe()));
  std::vector<std::int64_t> numbers;
  for (const PickleObject* item : object.items) numbers.push_back(integer_from(*item));
  return numbers;
}

// persistent_id(("storage", class, key, device, elements))
void read_storage(const PickleObject& object, Window& window) {
  if (object.kind != Kind::kPersistent) throw DataError(fmt::format("{} is no storage", object.describe()));
  const PickleObject& id = *object.items.front();
  if (id.kind != Kind::kTuple || id.items.size() != 5 || id.items[0]->text != "storage" ||
      id.items[1]->kind != Kind::kGlobal || id.items[2]->kind != Kind::kText) {
    throw DataError("its storage is not described as PyTorch does");
  }
  const std::string& name = id.items[1]->text;
  const auto found = kStorages.find(name);
  if (found == kStorages.end())
    throw DataError(
        fmt::format("its elements are a {}, a type that is not supported: convert it to float32", name));
  window.storage = found->second;
  window.key = id.items[2]->text;
  window.stored = integer_from(*id.items[4]);
}

// _rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks)
Window window_from(const PickleObject& object) {
  if (object.is_call_of(kParameter)) {
    const PickleObject& arguments = *object.items[1];
    if (arguments.items.empty() || !arguments.items[0]->is_call_of(kTensor))
      throw DataError("a parameter of no tensor");
    return window_from(*arguments.items[0]);
  }
  if (!object.is_call_of(kTensor))
    throw DataError(fmt::format("{} is no tensor: {}", object.describe(), kSaveAlone));
  const std::vector<const PickleObject*>& arguments = object.items[1]->items;
  if (arguments.size() < 4) throw DataError("is described by too little");
  Window window;
  read_storage(*arguments[0], window);
  window.offset = integer_from(*arguments[1]);
  window.shape = Shape(integers_from(*arguments[2]));
  window.strides = integers_from(*arguments[3]);
  if (std::cmp_not_equal(window.strides.size(), window.shape.rank()))
    throw DataError(
        fmt::format("has {} strides for shape {}", window.strides.size(), window.shape.to_string()));
  // An element's place must not only be in the storage, but also countable.
  std::int64_t last = window.offset;
  for (int axis = 0; axis < window.shape.rank() && window.shape.elements() > 0; ++axis) {
    std::int64_t reach = 0;
    if (__builtin_mul_overflow(window.shape[axis] - 1, window.strides[axis], &reach) ||
        __builtin_add_overflow(last, reach, &last)) {
      last = window.stored;
      break;
    }
  }
  if (window.shape.elements() > 0 && last >= window.stored) {
    throw DataError(
        fmt::format("{} with strides [{}] from element {} on reaches beyond the {} elements of its storage",
                    window.shape.to_string(), fmt::join(window.strides, ", "), window.offset, window.stored));
  }
  return window;
}

// A dict of plain values that holds a state dict is what training scripts call a checkpoint.
[[noreturn]] void refuse_entry(const PickleObject& root, const std::string& key, const PickleObject& value) {
  for (const auto& [name, entry] : root.pairs) {
    const bool is_dict = entry->kind == Kind::kDict || entry->is_call_of(kOrderedDict);
    if (name->kind == Kind::kText && is_dict && !entry->pairs.empty() &&
        (entry->pairs[0].second->is_call_of(kTensor) || entry->pairs[0].second->is_call_of(kParameter))) {
      throw DataError(
          fmt::format("this is a checkpoint that holds a state dict as {0}: save that alone: "
                      "torch.save(torch.load(FILE)[{0}], NEW_FILE)",
                      in_quotes(name->text)));
    }
  }
  throw DataError(fmt::format("{} is {}, no tensor: {}", in_quotes(key), value.describe(), kSaveAlone));
}

std::map<std::string, Window> windows_from(const PickleObject& root) {
  if (root.kind != Kind::kDict && !root.is_call_of(kOrderedDict))
    throw DataError(fmt::format("it holds {}, no state dict: {}", root.describe(), kSaveAlone));
  if (root.kind == Kind::kCall && !root.items[1]->items.empty())
    throw DataError("an OrderedDict with arguments");
  std::map<std::string, Window> windows;
  for (const auto& [key, value] : root.pairs) {
    if (key->kind != Kind::kText)
      throw DataError(fmt::format("a key is {}: {}", key->describe(), kSaveAlone));
    if (value->kind != Kind::kCall || value->is_call_of(kOrderedDict)) refuse_entry(root, key->text, *value);
    Window window =
        with_context("tensor " + in_quotes(key->text), [&tensor = *value] { return window_from(tensor); });
    if (!windows.emplace(key->text, std::move(window)).second)
      throw DataError(fmt::format("tensor {} is there twice", in_quotes(key->text)));
  }
  return windows;
}

// Calls action(place in the storage) for each element in row-major order.
template <typename Action>
void for_places(const Window& window, const Action& action) {
  std::array<std::int64_t, kMaxRank> index{};
  std::int64_t place = window.offset;
  for (std::int64_t left = window.shape.elements(); left > 0; --left) {
    action(static_cast<std::size_t>(place));
    for (int axis = window.shape.rank(); axis-- > 0;) {
      const auto a = static_cast<std::size_t>(axis);
      place += window.strides[a];
      if (++index[a] < window.shape[axis]) break;
      place -= window.strides[a] * index[a];
      index[a] = 0;
    }
  }
}

Tensor tensor_from(const Window& window, std::span<const std::byte> stored) {
  Tensor tensor(window.storage.dtype, window.shape);
  const std::size_t size = stored_bytes(window.storage);
  if (window.storage.half != Half::kNone) {
    auto to = tensor.as<float>().begin();
    for_places(window, [&](std::size_t place) {
      std::uint16_t bits = 0;
      std::memcpy(&bits, stored.data() + place * size, size);
      *to++ = float_from(window.storage.half, bits);
    });
    return tensor;
  }
  std::byte* to = tensor.view().data;
  for_places(window, [&](std::size_t place) {
    std::memcpy(to, stored.data() + place * size, size);
    to += size;
  });
  const auto is_bool = [](std::byte byte) { return byte <= std::byte{1}; };
  if (window.storage.dtype == DType::kBool && !std::ranges::all_of(tensor.view().bytes(), is_bool))
    throw DataError("a bool that is neither 0 nor 1");
  return tensor;
}

class ArchiveReader {
 public:
  explicit ArchiveReader(const std::filesystem::path& path) : zip_(path) {}

  StateDict read() {
    folder_ = find_folder();
    check_byte_order();
    const std::string bytes = member("data.pkl", kMaxPickleBytes);
    const Pickle pickle(bytes, known_globals());
    const std::map<std::string, Window> windows = windows_from(pickle.root());
    std::map<std::string, std::vector<std::string>> tensors;  // by storage
    for (const auto& [name, window] : windows) tensors[window.key].push_back(name);
    check_sizes(windows, tensors);
    StateDict state;
    for (const auto& [key, names] : tensors) {
      const std::string stored = member("data/" + key, zip_.file_bytes() * kMaxGrowth + kAllowance);
      for (const std::string& name : names) {
        state.emplace(name, with_context("tensor " + in_quotes(name), [&] {
                        return tensor_from(windows.at(name), std::as_bytes(std::span(stored)));
                      }));
      }
    }
    return state;
  }

 private:
  // All members lie in one folder, whose name is the file's when it was written.
  std::string find_folder() const {
    constexpr std::string_view kPickle = "data.pkl";
    for (const auto& [name, found] : zip_.members()) {
      const std::size_t slash = name.find('/');
      if (slash == std::string::npos || name.substr(slash + 1) != kPickle) continue;
      std::string folder = name.substr(0, slash + 1);
      if (zip_.members().contains(folder + "constants.pkl"))
        throw DataError(fmt::format("this is a TorchScript program: {}", kSaveAlone));
      return folder;
    }
    throw DataError(fmt::format("this zip archive has no {}: it is no file of torch.save", kPickle));
  }

  std::string member(const std::string& name, std::uint64_t most) {
    const std::uint64_t size = zip_.member(folder_ + name).bytes;
    if (size > most)
      throw DataError(fmt::format("member {} has {} bytes, more than the {} allowed",
                                  in_quotes(folder_ + name), size, most));
    std::string bytes(size, '\0');
    zip_.read(folder_ + name, std::as_writable_bytes(std::span(bytes)));
    return bytes;
  }

  void check_byte_order() {
    constexpr std::uint64_t kLongest = 16;
    if (!zip_.members().contains(folder_ + "byteorder")) return;  // before PyTorch 2.1: always little
    const std::string order = member("byteorder", kLongest);
    if (order != "little")
      throw DataError(fmt::format("its byte order is {}; little is read", in_quotes(order)));
  }

  void check_sizes(const std::map<std::string, Window>& windows,
                   const std::map<std::string, std::vector<std::string>>& tensors) const {
    const std::uint64_t most = zip_.file_bytes() * kMaxGrowth + kAllowance;
    std::uint64_t total = 0;
    const auto add = [&](std::uint64_t bytes) {
      if (bytes > most || (total += bytes) > most)
        throw DataError(
            fmt::format("a file of {} bytes whose tensors take more than {}", zip_.file_bytes(), most));
    };
    for (const auto& [key, names] : tensors) {
      const std::uint64_t bytes = zip_.member(folder_ + "data/" + key).bytes;
      add(bytes);
      for (const std::string& name : names) {
        const Window& window = windows.at(name);
        const std::uint64_t size = stored_bytes(window.storage);
        if (bytes % size != 0 || std::cmp_not_equal(bytes / size, window.stored)) {
          throw DataError(fmt::format(
              "tensor {}: its storage should have {} elements of {} bytes, member {} has {} bytes",
              in_quotes(name), window.stored, size, in_quotes(folder_ + "data/" + key), bytes));
        }
        add(TensorType{window.storage.dtype, window.shape}.bytes());
      }
    }
  }

  ZipReader zip_;
  std::string folder_;
};

}  // namespace

StateDict read_pytorch(const std::filesystem::path& path) {
  return with_context(path.string(), [&] { return ArchiveReader(path).read(); });
}

}  // namespace rookery
