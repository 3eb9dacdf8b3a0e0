#include "models/io/pytorch/pytorch.hpp"

#include <array>
#include <set>
#include <string_view>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/io/pytorch/zip.hpp"

namespace rookery {
namespace {

constexpr std::array<const char*, kDTypes> kStorageNames{"FloatStorage", "DoubleStorage", "LongStorage",
                                                         "IntStorage",   "ByteStorage",   "BoolStorage"};

// Pickle protocol 2 (https://docs.python.org/3/library/pickletools.html), the few opcodes that a
// state dict needs. Nothing is memoised: no object appears twice.
class PickleWriter {
 public:
  PickleWriter() : bytes_("\x80\x02") {}

  void global(std::string_view module, std::string_view name) {
    bytes_ += fmt::format("c{}\n{}\n", module, name);
  }
  void mark() { bytes_ += '('; }
  void tuple() { bytes_ += 't'; }  // of what follows the mark
  void empty_tuple() { bytes_ += ')'; }
  void call() { bytes_ += 'R'; }  // function, tuple of arguments
  void empty_dict() { bytes_ += '}'; }
  void build() { bytes_ += 'b'; }      // object, its state
  void set_items() { bytes_ += 'u'; }  // mapping, mark, key, value, …
  void persistent_id() { bytes_ += 'Q'; }
  void no() { bytes_ += '\x89'; }
  void text(std::string_view text) {
    bytes_ += 'X';
    append(text.size(), 4);
    bytes_ += text;
  }
  // From 0 up.
  void integer(std::int64_t value) {
    const auto number = static_cast<std::uint64_t>(value);
    if (number <= 0x7FFFFFFF) {
      bytes_ += 'J';
      append(number, 4);
    } else {
      bytes_ += "\x8a\x08";
      append(number, 8);
    }
  }
  std::string finish() { return std::move(bytes_) + '.'; }

 private:
  void append(std::uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_ += static_cast<char>(value >> (8 * i) & 0xFF);
  }

  std::string bytes_;
};

std::vector<std::int64_t> row_major_strides(const Shape& shape) {
  std::vector<std::int64_t> strides(shape.rank(), 1);
  for (std::size_t axis = strides.size(); axis-- > 1;) {
    strides[axis - 1] = strides[axis] * shape[static_cast<int>(axis)];
  }
  return strides;
}

void add_tuple(PickleWriter& pickle, std::span<const std::int64_t> numbers) {
  pickle.mark();
  for (const std::int64_t number : numbers) pickle.integer(number);
  pickle.tuple();
}

void add_ordered_dict(PickleWriter& pickle) {
  pickle.global("collections", "OrderedDict");
  pickle.empty_tuple();
  pickle.call();
}

// torch._utils._rebuild_tensor_v2(storage, offset, size, stride, requires_grad, backward_hooks),
// the storage being the persistent id ("storage", class, key, device, elements).
void add_tensor(PickleWriter& pickle, const TensorType& type, const std::string& key) {
  pickle.global("torch._utils", "_rebuild_tensor_v2");
  pickle.mark();
  pickle.mark();
  pickle.text("storage");
  pickle.global("torch", kStorageNames.at(static_cast<std::size_t>(type.dtype)));
  pickle.text(key);
  pickle.text("cpu");
  pickle.integer(type.shape.elements());
  pickle.tuple();
  pickle.persistent_id();
  pickle.integer(0);
  add_tuple(pickle, type.shape.dims());
  add_tuple(pickle, row_major_strides(type.shape));
  pickle.no();
  add_ordered_dict(pickle);
  pickle.tuple();
  pickle.call();
}

void check_order(const StateViews& tensors, const std::vector<std::string>& order) {
  std::set<std::string> listed;
  for (const std::string& name : order) {
    if (!tensors.contains(name)) throw DataError(fmt::format("there is no tensor '{}' to write", name));
    if (!listed.insert(name).second) throw DataError(fmt::format("tensor '{}' is listed twice", name));
  }
  for (const auto& [name, tensor] : tensors) {
    if (!listed.contains(name)) throw DataError(fmt::format("tensor '{}' has no place in the order", name));
  }
}

// The state of the dict object: {"_metadata": OrderedDict of {"version": n} by module}.
void add_versions(PickleWriter& pickle, const std::vector<std::pair<std::string, std::int64_t>>& versions) {
  pickle.empty_dict();
  pickle.mark();
  pickle.text("_metadata");
  add_ordered_dict(pickle);
  pickle.mark();
  for (const auto& [module, version] : versions) {
    pickle.text(module);
    pickle.empty_dict();
    pickle.mark();
    pickle.text("version");
    pickle.integer(version);
    pickle.set_items();
  }
  pickle.set_items();
  pickle.set_items();
  pickle.build();
}

}  // namespace

void write_pytorch(const std::filesystem::path& path, const StateViews& tensors,
                   const std::vector<std::string>& order,
                   const std::vector<std::pair<std::string, std::int64_t>>& versions) {
  with_context(path.string(), [&] { check_order(tensors, order); });
  PickleWriter pickle;
  add_ordered_dict(pickle);
  pickle.mark();
  for (std::size_t i = 0; i < order.size(); ++i) {
    pickle.text(order[i]);
    add_tensor(pickle, tensors.at(order[i]).type, std::to_string(i));
  }
  pickle.set_items();
  if (!versions.empty()) add_versions(pickle, versions);
  ZipWriter zip(path);
  zip.add("archive/data.pkl", pickle.finish());
  for (std::size_t i = 0; i < order.size(); ++i) {
    zip.add(fmt::format("archive/data/{}", i), tensors.at(order[i]).bytes());
  }
  zip.add("archive/version", "3\n");
  zip.commit();
}

void write_pytorch(const std::filesystem::path& path, const StateDict& tensors,
                   const std::vector<std::string>& order) {
  write_pytorch(path, views_of(tensors), order);
}

}  // namespace rookery
