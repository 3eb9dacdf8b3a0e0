#include "trainer/checkpoint/checkpoint_writer.hpp"

#include <spdlog/spdlog.h>

#include <exception>
#include <system_error>
#include <utility>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/machine/machine_memory.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

template <typename Tensors>
std::int64_t bytes_in(const Tensors& tensors,
                      const TensorType& (*type_of)(const typename Tensors::mapped_type&)) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<std::int64_t>(type_of(tensor).bytes());
  return bytes;
}

// Copies a tensor into the one of its name.
ConstTensorView copied(const std::string& name, const TensorView& view, StateDict& copies) {
  Tensor& tensor = copies.try_emplace(name, view.type).first->second;
  copy(view, tensor.view());
  return std::as_const(tensor).view();
}

}  // namespace

CheckpointWriter::CheckpointWriter(CheckpointOwner owner, std::optional<CheckpointBucket> bucket, int keep)
    : owner_(std::move(owner)), bucket_(std::move(bucket)), keep_(keep) {}

CheckpointWriter::~CheckpointWriter() {
  finish();
  if (const auto step = under_way())
    spdlog::info("waiting until the checkpoint of step {} is in the bucket", *step);
}

void CheckpointWriter::finish() {
  if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::finish_upload() {
  finish();
  if (upload_.valid()) upload_.wait();
}

std::int64_t CheckpointWriter::bytes() const {
  return bytes_in(copies_, [](const Tensor& tensor) -> const TensorType& { return tensor.type(); });
}

void CheckpointWriter::write_now(const CheckpointFacts& facts,
                                 const std::map<std::string, TensorView>& training_state,
                                 const std::optional<CheckpointUpload>& upload) {
  finish();
  StateDict of_devices;
  StateViews views;
  for (const auto& [name, view] : training_state)
    views.emplace(name, view.device == nullptr ? ConstTensorView(view) : copied(name, view, of_devices));
  write(facts, views, upload);
}

void CheckpointWriter::write_beside(const CheckpointFacts& facts,
                                    const std::map<std::string, TensorView>& training_state,
                                    const std::optional<CheckpointUpload>& upload) {
  finish();
  if (!can_copy(training_state)) return write_now(facts, training_state, upload);
  StateViews views;
  for (const auto& [name, view] : training_state) views.emplace(name, copied(name, view, copies_));
  thread_ = std::jthread([this, facts, views, upload] { write(facts, views, upload); });
}

bool CheckpointWriter::can_copy(const std::map<std::string, TensorView>& training_state) const {
  if (!copies_.empty()) return true;
  const std::int64_t bytes =
      bytes_in(training_state, [](const TensorView& view) -> const TensorType& { return view.type; });
  const std::int64_t available = available_memory();
  if (available == 0 || bytes < available) return true;
  spdlog::info("checkpoints: no memory for a copy of {}, {} are left: training waits while they are written",
               memory_text(static_cast<double>(bytes)), memory_text(static_cast<double>(available)));
  return false;
}

void CheckpointWriter::write(const CheckpointFacts& facts, const StateViews& training_state,
                             const std::optional<CheckpointUpload>& upload) {
  try {
    write_part(part_path(owner_, facts.run.step), owner_, facts, training_state);
    newest_ = facts.run.step;
  } catch (const DataError& error) {
    spdlog::warn("the checkpoint of step {} is not written: {}: training goes on{}", facts.run.step,
                 error.what(), newest_ ? fmt::format(", and the checkpoint of step {} stays", *newest_) : "");
    return;
  }
  if (upload && bucket_) begin_upload(facts.run.step, *upload);
}

bool CheckpointWriter::is_uploaded_within(std::chrono::seconds patience) const {
  return !upload_.valid() || upload_.wait_for(patience) == std::future_status::ready;
}

std::optional<std::int64_t> CheckpointWriter::under_way() const {
  return is_uploaded_within(std::chrono::seconds(0)) ? std::nullopt : last_upload_;
}

void CheckpointWriter::begin_upload(std::int64_t step, const CheckpointUpload& upload) {
  last_upload_ = step;
  try {
    upload_ = std::async(std::launch::async, [this, step, upload, before = std::move(upload_)]() mutable {
      if (before.valid()) before.get();  // and its state goes
      put_into_bucket(step, upload);
    });
  } catch (const std::system_error& error) {
    spdlog::warn("the bucket does not get the checkpoint of step {}: no thread: {}", step, error.what());
  }
}

// A signal that ends the run at once ends this, too; who trains hears of it by itself.
void CheckpointWriter::put_into_bucket(std::int64_t step, const CheckpointUpload& upload) {
  try {
    bucket_->put(step);
    newest_uploaded_ = step;
    if (upload.whole) bucket_->remove_old(*upload.whole, keep_);
  } catch (const std::exception& error) {
    const bool is_there = newest_uploaded_ == step;
    spdlog::warn("the bucket {} the checkpoint of step {}: {}: training goes on",
                 is_there ? "keeps older ones than" : "does not get", step, error.what());
  }
}

}  // namespace rookery
