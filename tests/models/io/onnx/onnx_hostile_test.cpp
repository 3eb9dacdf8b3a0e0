// Files that are broken by accident or by design.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>

#include <functional>

#include "models/io/onnx/onnx.hpp"
#include "tests/models/io/files.hpp"
#include "tests/models/io/onnx/onnx_models.hpp"

namespace rookery {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class HostileOnnx : public testing::Test {
 protected:
  HostileOnnx() {
    const Graph graph = small_model();
    write_onnx(path_, "model.safetensors", graph, trained_state(graph));
    whole_ = read_file(path_, kAnySize);
  }

  // The error of the good file after `change`.
  std::string error_after(const std::function<void(onnx::ModelProto&)>& change) {
    onnx::ModelProto model;
    EXPECT_TRUE(model.ParseFromString(whole_));
    change(model);
    return error_of(model.SerializeAsString());
  }
  std::string error_of(const std::string& bytes) {
    overwrite(path_, bytes);
    std::string message = data_error([&] { read_onnx(path_); });
    EXPECT_THAT(message, HasSubstr(path_.string()));
    return message;
  }
  static onnx::NodeProto& node(onnx::ModelProto& model, const std::string& name) {
    for (onnx::NodeProto& each : *model.mutable_graph()->mutable_node()) {
      if (each.name() == name) return each;
    }
    throw std::runtime_error("no node " + name);
  }
  static onnx::TensorProto& initializer(onnx::ModelProto& model, const std::string& name) {
    for (onnx::TensorProto& each : *model.mutable_graph()->mutable_initializer()) {
      if (each.name() == name) return each;
    }
    throw std::runtime_error("no initializer " + name);
  }
  static void set_external(onnx::TensorProto& tensor, const std::string& key, const std::string& value) {
    for (onnx::StringStringEntryProto& entry : *tensor.mutable_external_data()) {
      if (entry.key() == key) entry.set_value(value);
    }
  }
  std::string error_of_external(const std::string& key, const std::string& value) {
    return error_after(
        [&](onnx::ModelProto& model) { set_external(initializer(model, "conv.weight"), key, value); });
  }
  std::string error_of_dims(const std::vector<std::int64_t>& dims) {
    return error_after([&](onnx::ModelProto& model) {
      initializer(model, "conv.weight").mutable_dims()->Assign(dims.begin(), dims.end());
    });
  }

  ScratchFolder folder_;
  std::filesystem::path path_ = folder_.path() / "model.onnx";
  std::string whole_;
};

TEST_F(HostileOnnx, TruncatedAtEveryByte) {
  for (std::size_t length = 0; length < whole_.size(); ++length) {
    EXPECT_FALSE(error_of(whole_.substr(0, length)).empty()) << length << " bytes";
  }
}

TEST_F(HostileOnnx, TruncatedWeights) {
  const std::string weights = read_file(folder_.path() / "model.safetensors", kAnySize);
  overwrite(folder_.path() / "model.safetensors", weights.substr(0, weights.size() - 1));
  EXPECT_THAT(error_of(whole_), HasSubstr("an incomplete copy?"));
}

// Whatever a flipped bit makes of it: a file that is read, or a DataError.
TEST_F(HostileOnnx, FlippedBits) {
  for (std::size_t i = 0; i < whole_.size(); ++i) {
    std::string flipped = whole_;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << (i % 8)));
    overwrite(path_, flipped);
    try {
      read_onnx(path_);
    } catch (const DataError&) {
    }
  }
}

// A model that calls a function of its own.
onnx::FunctionProto& add_function(onnx::ModelProto& model) {
  onnx::OperatorSetIdProto& opset = *model.add_opset_import();
  opset.set_domain("rookery");
  opset.set_version(1);
  return *model.add_functions();
}

TEST_F(HostileOnnx, NotAModel) {
  EXPECT_THAT(error_of(std::string(1000, '\xff')), HasSubstr("is no ONNX model"));
  EXPECT_THAT(error_of(std::string((64 << 20) + 1, 'x')), HasSubstr("more than the 67108864"));
}

TEST_F(HostileOnnx, Versions) {
  EXPECT_THAT(error_after([](auto& model) { model.set_ir_version(9); }), HasSubstr("another version"));
  EXPECT_THAT(error_after([](auto& model) { model.mutable_opset_import(0)->set_version(18); }),
              HasSubstr("another version"));
  EXPECT_THAT(error_after([](auto& model) { model.mutable_metadata_props(0)->set_value("3"); }),
              HasSubstr("format version \"3\", this program knows up to 2"));
  EXPECT_THAT(error_after([](auto& model) { model.clear_metadata_props(); }),
              HasSubstr("not written by Rookery"));
  EXPECT_THAT(error_after([](auto& model) { model.add_functions(); }), HasSubstr("another version"));
  EXPECT_THAT(error_after([](auto& model) { add_function(model).set_name("Evil"); }),
              HasSubstr("its function \"Evil\" is none that this program knows"));
}

TEST_F(HostileOnnx, Functions) {
  const Graph graph = transformer_model();
  write_onnx(path_, "model.safetensors", graph, trained_state(graph));
  whole_ = read_file(path_, kAnySize);
  EXPECT_THAT(
      error_after([](auto& model) { model.mutable_functions(0)->mutable_node(0)->set_op_type("Erf"); }),
      HasSubstr("is none that this program knows"));
  EXPECT_THAT(error_after([](auto& model) { *model.add_functions() = model.functions(0); }),
              HasSubstr("is there twice"));
  EXPECT_THAT(error_after([](auto& model) { model.mutable_functions()->RemoveLast(); }),
              HasSubstr("has no function"));
  EXPECT_THAT(error_after([](auto& model) { model.clear_functions(); }), HasSubstr("another version"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "gelu").set_op_type("Swish"); }),
              HasSubstr("or not called"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "ln_1").set_domain("rookery"); }),
              HasSubstr("this function is not supported"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "ln_1").set_domain("elsewhere"); }),
              HasSubstr("this operator is not supported"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "gelu").add_input("x"); }),
              HasSubstr("has 2 inputs, not 1"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "group").mutable_attribute()->RemoveLast(); }),
              HasSubstr("has no attribute 'num_groups'"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "group").mutable_attribute(1)->set_i(5); }),
              HasSubstr("5 groups of 6 channels"));
}

TEST_F(HostileOnnx, Cycle) {
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_input(0, "skip_out"); }),
              AllOf(HasSubstr("node \"relu\" (\"Relu\"): reads \"skip_out\""), HasSubstr("cycle")));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_input(0, "relu_out"); }),
              HasSubstr("cycle"));
}

TEST_F(HostileOnnx, DanglingNames) {
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_input(0, "nowhere"); }),
              HasSubstr("reads \"nowhere\", which is no input"));
  EXPECT_THAT(error_after([](auto& model) { model.mutable_graph()->mutable_output(0)->set_name("nowhere"); }),
              HasSubstr("output \"nowhere\""));
  EXPECT_THAT(error_after([](auto& model) { model.mutable_graph()->mutable_output(0)->set_name("x"); }),
              HasSubstr("is made by no node"));
  EXPECT_THAT(error_after([](auto& model) {
                node(model, "dropout").set_input(1, "nowhere");
                initializer(model, "dropout.ratio").Swap(&initializer(model, "bn_2.num_batches_tracked"));
                model.mutable_graph()->mutable_initializer()->RemoveLast();
              }),
              HasSubstr("its ratio \"nowhere\" is no initializer"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "bn_1").set_input(3, "relu_out"); }),
              HasSubstr("must be used as"));
}

TEST_F(HostileOnnx, DuplicateNames) {
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_output(0, "conv_out"); }),
              HasSubstr("two values of the graph are called 'conv_out'"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_name("conv"); }),
              HasSubstr("two ops of the graph are called 'conv'"));
  EXPECT_THAT(error_after([](auto& model) {
                *model.mutable_graph()->add_initializer() = initializer(model, "conv.weight");
              }),
              HasSubstr("conv.weight"));
  EXPECT_THAT(error_after([](auto& model) {
                *model.mutable_graph()->add_initializer() = initializer(model, "dropout.ratio");
              }),
              HasSubstr("is there twice"));
  EXPECT_THAT(error_after([](auto& model) {
                auto& conv = node(model, "conv");
                *conv.add_attribute() = onnx::AttributeProto(conv.attribute(0));
              }),
              HasSubstr("is there twice"));
  EXPECT_THAT(error_after([](auto& model) {
                *model.mutable_graph()->add_output() = onnx::ValueInfoProto(model.graph().output(0));
              }),
              HasSubstr("is there twice"));
}

TEST_F(HostileOnnx, UnknownOperatorsAndAttributes) {
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_op_type("Exec"); }),
              HasSubstr("node \"relu\" (\"Exec\"): this operator is not supported"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_op_type("MseLoss"); }),
              HasSubstr("this operator is not supported"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_domain("com.example"); }),
              HasSubstr("this operator is not supported"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "conv").mutable_attribute(0)->set_name("fuse"); }),
              HasSubstr("attribute \"fuse\": the operator has none of this name"));
  EXPECT_THAT(error_after([](auto& model) {
                node(model, "conv").mutable_attribute(0)->set_type(onnx::AttributeProto::FLOAT);
              }),
              HasSubstr("has the wrong type"));
  EXPECT_THAT(error_after([](auto& model) {
                node(model, "conv").mutable_attribute(0)->set_type(onnx::AttributeProto::GRAPH);
              }),
              HasSubstr("not supported"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").add_input("x"); }),
              HasSubstr("has 2 inputs"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").clear_input(); }), HasSubstr("has 0 inputs"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").add_output("more"); }),
              HasSubstr("has 2 outputs"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_name(""); }), HasSubstr("has no name"));
}

TEST_F(HostileOnnx, ShapesThatDoNotFit) {
  EXPECT_THAT(error_after([](auto& model) { node(model, "dense").set_input(0, "x"); }),
              HasSubstr("op 'dense'"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "conv").set_input(1, "conv.bias"); }),
              HasSubstr("conv"));
}

TEST_F(HostileOnnx, FlippedDtype) {
  EXPECT_THAT(
      error_after(
          [](auto& model) { initializer(model, "conv.weight").set_data_type(onnx::TensorProto::DOUBLE); }),
      HasSubstr("initializer \"conv.weight\": f64[4, 2, 3, 3] needs 576 bytes, the model gives it 288"));
  EXPECT_THAT(error_after([](auto& model) {
                initializer(model, "conv.weight").set_data_type(onnx::TensorProto::INT32);
              }),
              HasSubstr("its weight must be f32 of rank 4, not i32[4, 2, 3, 3]"));
  EXPECT_THAT(error_after([](auto& model) {
                initializer(model, "conv.weight").set_data_type(onnx::TensorProto::FLOAT16);
              }),
              HasSubstr("element type 10 is not supported"));
  EXPECT_THAT(error_after([](auto& model) {
                model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
                    onnx::TensorProto::INT64);
              }),
              HasSubstr("f32"));
  EXPECT_THAT(error_after([](auto& model) {
                auto& tracked = initializer(model, "bn_1.num_batches_tracked");
                tracked.set_data_type(onnx::TensorProto::DOUBLE);
              }),
              HasSubstr("counts batches but is f64[]"));
}

TEST_F(HostileOnnx, HugeDims) {
  const std::int64_t huge = std::int64_t{1} << 60;
  EXPECT_THAT(error_of_dims({huge}), HasSubstr("a dimension of 1152921504606846976"));
  EXPECT_THAT(error_of_dims({1 << 30, 1 << 30, 1 << 30, 1 << 30}), HasSubstr("no usable number of elements"));
  EXPECT_THAT(error_of_dims({1 << 20, 1 << 20}),
              HasSubstr("needs 4398046511104 bytes, the model gives it 288"));
  EXPECT_THAT(error_of_dims({-4, 2, 3, 3}), HasSubstr("a dimension of -4"));
  EXPECT_THAT(error_of_dims({0, 2, 3, 3}), HasSubstr("a dimension of 0"));
  EXPECT_THAT(error_of_dims({1, 1, 1, 1, 1, 1, 1, 1, 72}), HasSubstr("9 dimensions"));
  for (const std::int64_t dim : {huge, std::int64_t{1} << 39}) {
    EXPECT_THAT(error_after([&](auto& model) {
                  auto* type = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
                  type->mutable_shape()->mutable_dim(2)->set_dim_value(dim);
                }),
                HasSubstr("x"));
  }
}

// Padding that makes more columns for Flatten than a number can count.
TEST_F(HostileOnnx, HugeProducts) {
  const auto widen = [](auto& model, const char* name) {
    for (auto& attribute : *node(model, name).mutable_attribute()) {
      if (attribute.name() == "pads") {
        for (auto& pad : *attribute.mutable_ints()) pad = 1 << 20;
      } else if (attribute.name() == "strides") {
        for (auto& stride : *attribute.mutable_ints()) stride = 1;
      }
    }
  };
  EXPECT_THAT(error_after([&](auto& model) {
                auto* type = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
                type->mutable_shape()->mutable_dim(2)->set_dim_value(std::int64_t{1} << 36);
                widen(model, "conv");
                widen(model, "grouped");
              }),
              HasSubstr("op 'flatten'"));
}

TEST_F(HostileOnnx, OpenDimensions) {
  const auto with_param = [&](int axis, const std::string& name) {
    return error_after([&](auto& model) {
      auto* type = model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type();
      type->mutable_shape()->mutable_dim(axis)->set_dim_param(name);
    });
  };
  EXPECT_THAT(with_param(0, "n"), HasSubstr("input \"x\": dimension 0 is \"n\""));
  EXPECT_THAT(with_param(1, "batch"), HasSubstr("dimension 1 is \"batch\""));
}

TEST_F(HostileOnnx, DataOutsideTheFolder) {
  overwrite(folder_.path() / "secret", std::string(10'000, 's'));
  const std::filesystem::path inner = folder_.path() / "inner";
  make_directories(inner);
  std::filesystem::copy(folder_.path() / "model.safetensors", inner / "model.safetensors");
  std::filesystem::create_symlink("../secret", inner / "link");
  path_ = inner / "model.onnx";
  for (const std::string location :
       {"../secret", "/etc/passwd", "..", ".", "", "inner/../../secret", "./link"}) {
    EXPECT_THAT(error_of_external("location", location), HasSubstr("which is not a file name")) << location;
  }
  EXPECT_THAT(error_of_external("location", std::string("model.safetensors\0x", 19)),
              HasSubstr("not a file name"));
  EXPECT_THAT(error_of_external("location", "link"), HasSubstr("a link out of the model's folder"));
  EXPECT_THAT(error_of_external("location", "absent"), HasSubstr("\"absent\": No such file"));
}

TEST_F(HostileOnnx, DataOutOfRange) {
  const std::string most = "18446744073709551615";
  EXPECT_THAT(error_of_external("offset", most), HasSubstr("the file ends at"));
  EXPECT_THAT(error_of_external("offset", "18446744073709551600"), HasSubstr("the file ends at"));
  EXPECT_THAT(error_of_external("length", most), HasSubstr("the file ends at"));
  EXPECT_THAT(error_of_external("length", "284"), HasSubstr("needs 288 bytes, the model gives it 284"));
  EXPECT_THAT(error_of_external("offset", "-1"), HasSubstr("has the offset \"-1\""));
  EXPECT_THAT(error_of_external("offset", "99999999999999999999"), HasSubstr("has the offset"));
  EXPECT_THAT(error_of_external("offset", "64 "), HasSubstr("has the offset"));
  EXPECT_THAT(error_of_external("length", ""), HasSubstr("has the length"));
  EXPECT_THAT(error_after([](auto& model) { initializer(model, "conv.weight").clear_external_data(); }),
              HasSubstr("no location"));
}

TEST_F(HostileOnnx, OverlappingTensors) {
  EXPECT_THAT(
      error_after([](auto& model) {
        auto& mean = initializer(model, "bn_1.running_mean");
        auto& variance = initializer(model, "bn_1.running_var");
        *variance.mutable_external_data() = mean.external_data();
      }),
      AllOf(HasSubstr("initializer \"bn_1.running_var\""), HasSubstr("belong to another tensor too")));
}

TEST_F(HostileOnnx, EmbeddedData) {
  const auto with_raw = [&](std::size_t bytes) {
    return error_after([&](auto& model) {
      auto& weight = initializer(model, "conv.weight");
      weight.clear_external_data();
      weight.set_data_location(onnx::TensorProto::DEFAULT);
      weight.set_raw_data(std::string(bytes, '\0'));
    });
  };
  EXPECT_THAT(with_raw(287), HasSubstr("needs 288 bytes of raw data, there are 287"));
  EXPECT_THAT(error_after([](auto& model) { initializer(model, "dropout.ratio").add_dims(1); }),
              HasSubstr("the ratio of a Dropout is f32[1]"));
  const std::string not_a_number("\0\0\xc0\x7f", 4);
  EXPECT_THAT(
      error_after([&](auto& model) { initializer(model, "dropout.ratio").set_raw_data(not_a_number); }),
      HasSubstr("dropout"));
}

TEST_F(HostileOnnx, BoundsOfClipAreConstants) {
  const auto with_bound = [&](const std::string& name) {
    return error_after([&](auto& model) {
      onnx::NodeProto& clip = node(model, "relu");
      clip.set_op_type("Clip");
      clip.add_input("");
      clip.add_input(name);
    });
  };
  EXPECT_THAT(with_bound("conv_out"), HasSubstr("its max \"conv_out\" is no initializer"));
  EXPECT_THAT(with_bound("conv.bias"), HasSubstr("initializer \"conv.bias\": must be used as"));
  const std::string not_a_number("\0\0\xc0\x7f", 4);
  const auto with_own_bound = [&](const std::function<void(onnx::TensorProto&)>& change) {
    return error_after([&](auto& model) {
      onnx::TensorProto& bound = *model.mutable_graph()->add_initializer();
      bound = initializer(model, "dropout.ratio");
      bound.set_name("bound");
      change(bound);
      onnx::NodeProto& clip = node(model, "relu");
      clip.set_op_type("Clip");
      clip.add_input("bound");
    });
  };
  EXPECT_THAT(with_own_bound([](auto& bound) { bound.add_dims(1); }),
              HasSubstr("the min of a Clip is f32[1]"));
  EXPECT_THAT(with_own_bound([&](auto& bound) { bound.set_raw_data(not_a_number); }),
              HasSubstr("op 'relu' (Clip"));
}

// Shapes, axes, pads: inputs in the file, attributes in the graph.
TEST_F(HostileOnnx, AttributesThatAreInputs) {
  const auto with_input = [&](const std::string& type, int dtype, const std::vector<std::int64_t>& dims,
                              const std::string& raw) {
    return error_after([&](auto& model) {
      onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
      tensor.set_name("given");
      tensor.set_data_type(dtype);
      tensor.mutable_dims()->Assign(dims.begin(), dims.end());
      tensor.set_raw_data(raw);
      onnx::NodeProto& changed = node(model, "relu");
      changed.set_op_type(type);
      changed.add_input("given");
    });
  };
  const auto i64 = onnx::TensorProto::INT64;
  const std::string huge("\0\0\0\0\0\0\0\x10", 8);  // 2^60
  EXPECT_THAT(with_input("Reshape", i64, {1}, huge), HasSubstr("op 'relu' (Reshape"));
  EXPECT_THAT(with_input("Reshape", i64, {2}, huge + huge), HasSubstr("no usable number of elements"));
  EXPECT_THAT(with_input("Reshape", i64, {2}, huge), HasSubstr("needs 16 bytes of raw data, there are 8"));
  EXPECT_THAT(with_input("Reshape", i64, {}, huge), HasSubstr("the shape of a Reshape is i64[]"));
  EXPECT_THAT(with_input("Reshape", i64, {1, 1}, huge), HasSubstr("the shape of a Reshape is i64[1, 1]"));
  EXPECT_THAT(with_input("Reshape", i64, {-1}, huge), HasSubstr("a dimension of -1"));
  EXPECT_THAT(with_input("Reshape", onnx::TensorProto::FLOAT, {2}, huge),
              HasSubstr("the shape of a Reshape is f32[2]"));
  EXPECT_THAT(with_input("Tile", i64, {1}, huge), HasSubstr("1 repeats for 4 axes"));
  EXPECT_THAT(with_input("Trilu", i64, {1}, huge), HasSubstr("the k of a Trilu is i64[1]"));
  EXPECT_THAT(error_after([](auto& model) {
                node(model, "relu").set_op_type("Reshape");
                node(model, "relu").add_input("x");
              }),
              HasSubstr("its shape \"x\" is no initializer"));
  EXPECT_THAT(error_after([](auto& model) {
                node(model, "relu").set_op_type("Reshape");
                node(model, "relu").add_input("dropout.ratio");
              }),
              HasSubstr("dropout.ratio"));
  EXPECT_THAT(error_after([](auto& model) { node(model, "relu").set_op_type("Reshape"); }),
              HasSubstr("has 1 inputs, not 2 to 2"));
}

TEST_F(HostileOnnx, ConstantsAndCasts) {
  EXPECT_THAT(error_after([](auto& model) {
                onnx::TensorProto& tensor = *model.mutable_graph()->add_initializer();
                tensor.set_name("yes");
                tensor.set_data_type(onnx::TensorProto::BOOL);
                tensor.set_raw_data("\x02");
                node(model, "relu").set_op_type("Where");
                node(model, "relu").add_input("yes");
                node(model, "relu").add_input("conv_out");
              }),
              HasSubstr("initializer \"yes\": has a bool of 2"));
  for (const std::int64_t type : {std::int64_t{10}, std::int64_t{-1}, std::int64_t{1} << 40}) {
    EXPECT_THAT(error_after([&](auto& model) {
                  node(model, "relu").set_op_type("Cast");
                  onnx::AttributeProto& to = *node(model, "relu").add_attribute();
                  to.set_name("to");
                  to.set_type(onnx::AttributeProto::INT);
                  to.set_i(type);
                }),
                HasSubstr(fmt::format("element type {} is not supported", type)));
  }
  EXPECT_THAT(error_after([](auto& model) {
                node(model, "relu").set_op_type("Split");
                node(model, "relu").add_output("more");
                node(model, "relu").add_output("more");
              }),
              HasSubstr("two values of the graph are called 'more'"));
}

TEST_F(HostileOnnx, InitializersOfTwoUsesOrNone) {
  EXPECT_THAT(error_after([](auto& model) { node(model, "skip").set_input(1, "bn_1.running_mean"); }),
              HasSubstr("initializer \"bn_1.running_mean\": must be used as"));
  EXPECT_THAT(error_after([](auto& model) {
                auto& extra = *model.mutable_graph()->add_initializer();
                extra = initializer(model, "dropout.ratio");
                extra.set_name("extra");
              }),
              HasSubstr("initializer \"extra\""));
}

TEST_F(HostileOnnx, NotUtf8) {
  for (const auto& change : std::initializer_list<std::function<void(onnx::ModelProto&)>>{
           [](auto& model) { node(model, "relu").set_name("\xff"); },
           [](auto& model) { node(model, "relu").set_output(0, "\xff"); },
           [](auto& model) { node(model, "relu").set_op_type("\xff"); },
           [](auto& model) { initializer(model, "conv.weight").set_name("\xff"); },
           [](auto& model) { model.mutable_graph()->mutable_input(0)->set_name("\xff"); }}) {
    EXPECT_THAT(error_after(change), AllOf(HasSubstr("not UTF-8"), Not(HasSubstr("\xff"))));
  }
}

}  // namespace
}  // namespace rookery
