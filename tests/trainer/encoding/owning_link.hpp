// A compressed link of tests with what is beneath it and what it keeps of samples.
#pragma once

#include <memory>
#include <utility>

#include "trainer/encoding/compressed_link.hpp"

namespace rookery {

class OwningLink final : public Link {
 public:
  OwningLink(std::unique_ptr<Link> beneath, int rank, EdgeEncoding encoding,
             std::unique_ptr<Reconstructions> kept = nullptr)
      : beneath_(std::move(beneath)),
        kept_(std::move(kept)),
        link_(*beneath_, rank, std::move(encoding), kept_.get()) {}
  std::unique_ptr<PendingTransfer> begin_send(int to, const MessageKey& key,
                                              ConstTensorView tensor) override {
    return link_.begin_send(to, key, tensor);
  }
  std::unique_ptr<PendingTransfer> begin_receive(int from, const MessageKey& key, TensorView into) override {
    return link_.begin_receive(from, key, into);
  }
  void flush() override { link_.flush(); }

 private:
  std::unique_ptr<Link> beneath_;
  std::unique_ptr<Reconstructions> kept_;
  CompressedLink link_;
};

}  // namespace rookery
