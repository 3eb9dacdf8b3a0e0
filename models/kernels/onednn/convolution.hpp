// Shared by oneDNN's convolutions and their gradients; internal to this back end. They are direct, since the
// order in which oneDNN's Winograd adds up depends on the number of threads.
#pragma once

#include <cstdint>
#include <vector>

#include "models/kernels/onednn/program.hpp"
#include "models/kernels/shapes/shapes.hpp"

namespace rookery::onednn {

struct ConvDescription {
  ConvShape shape;
  bool keeps_blocks = false;
  dnnl::memory::data_type source = dnnl::memory::data_type::f32;
  dnnl::memory::dims x, w, bias, y;
  dnnl::memory::dims strides, dilations, pad_begin, pad_end;
  Tag x_tag = Tag::nchw, y_tag = Tag::nchw;  // of the op's arguments

  dnnl::memory::desc own_x() const { return as_given(x, x_tag); }
  dnnl::memory::desc plain_w() const { return as_given(w, w.size() == 5 ? Tag::goihw : Tag::oihw); }
  dnnl::memory::desc plain_bias() const { return as_given(bias, Tag::x); }
  dnnl::memory::desc own_y() const { return as_given(y, y_tag); }
  // Layouts that primitives are asked for: where vectors are as wide as a block, blocked images as they are;
  // otherwise any. Sources may be rounded to bf16; results are f32.
  dnnl::memory::desc source_x() const { return {x, source, keeps_blocks ? x_tag : Tag::any}; }
  dnnl::memory::desc source_w() const { return {w, source, Tag::any}; }
  dnnl::memory::desc source_y() const { return {y, source, keeps_blocks ? y_tag : Tag::any}; }
  dnnl::memory::desc result_x() const { return as_given(x, keeps_blocks ? x_tag : Tag::any); }
  dnnl::memory::desc result_w() const { return as_given(w, Tag::any); }
  dnnl::memory::desc result_y() const { return as_given(y, keeps_blocks ? y_tag : Tag::any); }

 private:
  static dnnl::memory::desc as_given(const dnnl::memory::dims& dims, Tag tag) {
    return {dims, dnnl::memory::data_type::f32, tag};
  }
};

// dnnl::error for a convolution that oneDNN does not have.
ConvDescription describe_convolution(const KernelRequest& request);

// Is there an input or output at this place?
inline bool is_given(const std::vector<ValueId>& ids, std::size_t place) {
  return place < ids.size() && ids[place] != kNoValue;
}

struct Run {
  std::int64_t first, count;
};
// `count` units in `parts` runs of nearly equal length, each of whole blocks.
std::vector<Run> runs(std::int64_t count, std::int64_t parts, std::int64_t block = 1);
// Some images of an argument of the op in its layout.
dnnl::memory images_of(Program& program, const dnnl::memory& whole, Tag tag, const Run& images);

dnnl::convolution_forward::primitive_desc forward_descriptor(const ConvDescription& d, bool bias);

}  // namespace rookery::onednn
