#include "models/io/pytorch/pytorch.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/onnx_models.hpp"
#include "tests/models/io/python_check.hpp"

namespace rookery {
namespace {

using testing::HasSubstr;

class Pytorch : public testing::Test {
 protected:
  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "state.pt";
};

template <typename T>
void fill(StateDict& state, std::string& listing, const std::string& name, const std::string& dtype,
          const Shape& shape, T step) {
  Tensor tensor(dtype_of<T>(), shape);
  double total = 0;
  T next = T(0);
  for (T& element : tensor.as<T>()) {
    element = next;
    total += static_cast<double>(element);
    next = static_cast<T>(next + step);
  }
  std::string dims;
  for (const std::int64_t dim : shape.dims()) dims += fmt::format("{}{}", dims.empty() ? "" : "x", dim);
  listing += fmt::format("{} {} {} {}\n", name, dtype, dims.empty() ? "-" : dims, total);
  state.emplace(name, std::move(tensor));
}

TEST_F(Pytorch, TorchReadsEveryType) {
  ROOKERY_NEEDS_PYTHON(kSystemPython, "torch");
  StateDict state;
  std::string listing;
  fill<float>(state, listing, "z.weight", "float32", {3, 4, 5}, 0.25F);
  fill<double>(state, listing, "y", "float64", {7}, -0.5);
  fill<std::int64_t>(state, listing, "x.count", "int64", {}, 1);
  fill<std::int64_t>(state, listing, "w", "int64", {300}, -(std::int64_t{1} << 33));
  fill<std::int32_t>(state, listing, "v", "int32", {2, 2}, 1000);
  fill<std::uint8_t>(state, listing, "u", "uint8", {40}, 1);
  fill<bool>(state, listing, "t", "bool", {4}, true);
  fill<float>(state, listing, "città", "float32", {1}, 1);
  fill<float>(state, listing, "empty", "float32", {0, 2}, 1);
  write_pytorch(path_, state, {"z.weight", "y", "x.count", "w", "v", "u", "t", "città", "empty"});
  overwrite(folder_.path() / "listing", listing);
  EXPECT_EQ(run_python(kSystemPython, "check_files.py",
                       fmt::format("pytorch {} {}", path_.string(), (folder_.path() / "listing").string())),
            0);
}

TEST_F(Pytorch, LoadsIntoAModuleOfTheSameNames) {
  ROOKERY_NEEDS_PYTHON(kSystemPython, "torch");
  const Graph graph = small_model();
  std::vector<std::string> order;
  for (const Value& value : graph.values()) {
    if (value.kind == ValueKind::kParameter || value.kind == ValueKind::kBuffer) order.push_back(value.name);
  }
  write_pytorch(path_, trained_state(graph), order);
  EXPECT_EQ(run_python(kSystemPython, "check_files.py", "module " + path_.string()), 0);
}

TEST_F(Pytorch, MembersAreAligned) {
  StateDict state;
  std::string listing;
  fill<float>(state, listing, "a", "float32", {3}, 1);
  fill<float>(state, listing, "b", "float32", {100}, 0.5);
  write_pytorch(path_, state, {"a", "b"});
  const std::string bytes = read_file(path_, kAnySize);
  for (const auto& [name, tensor] : state) {
    const auto data = tensor.view().bytes();
    const std::size_t at =
        bytes.find(std::string_view(reinterpret_cast<const char*>(data.data()), data.size()));
    ASSERT_NE(at, std::string::npos) << name;
    EXPECT_EQ(at % kAlignment, 0U) << name;
  }
}

TEST_F(Pytorch, SameBytesEveryTime) {
  const StateDict state = trained_state(small_model());
  std::vector<std::string> order;
  for (const auto& [name, tensor] : state) order.push_back(name);
  write_pytorch(path_, state, order);
  const std::string first = read_file(path_, kAnySize);
  write_pytorch(path_, state, order);
  EXPECT_EQ(first, read_file(path_, kAnySize));
}

TEST_F(Pytorch, OrderNamesEveryTensorOnce) {
  StateDict state;
  state.emplace("a", Tensor(DType::kF32, {1}));
  const auto error = [&](const std::vector<std::string>& order) {
    return data_error([&] { write_pytorch(path_, state, order); });
  };
  EXPECT_THAT(error({"a", "b"}), HasSubstr("there is no tensor 'b'"));
  EXPECT_THAT(error({}), HasSubstr("'a' has no place"));
  EXPECT_THAT(error({"a", "a"}), HasSubstr("'a' is listed twice"));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace rookery
