// The log as a test sees it: lines to wait for.
#pragma once

#include <spdlog/sinks/base_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace rookery {

class CapturedLog {
 public:
  CapturedLog() : before_(spdlog::default_logger()), sink_(std::make_shared<Sink>()) {
    spdlog::set_default_logger(std::make_shared<spdlog::logger>("test", sink_));
  }
  ~CapturedLog() { spdlog::set_default_logger(before_); }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  // Whether a line holding `text` is there, or comes within half a minute.
  bool has(const std::string& text) { return sink_->has(text, std::chrono::seconds(30)); }
  // Whether it is there now.
  bool holds(const std::string& text) { return sink_->has(text, std::chrono::seconds(0)); }
  // All until now.
  std::vector<std::string> lines() { return sink_->lines(); }

 private:
  class Sink : public spdlog::sinks::base_sink<std::mutex> {
   public:
    bool has(const std::string& text, std::chrono::seconds wait) {
      std::unique_lock lock(lines_mutex_);
      return came_.wait_for(lock, wait, [&] {
        return std::any_of(lines_.begin(), lines_.end(),
                           [&](const std::string& line) { return line.find(text) != std::string::npos; });
      });
    }

    std::vector<std::string> lines() {
      const std::scoped_lock lock(lines_mutex_);
      return lines_;
    }

   protected:
    void sink_it_(const spdlog::details::log_msg& message) override {
      const std::scoped_lock lock(lines_mutex_);
      lines_.emplace_back(message.payload.data(), message.payload.size());
      came_.notify_all();
    }
    void flush_() override {}

   private:
    std::mutex lines_mutex_;
    std::condition_variable came_;
    std::vector<std::string> lines_;
  };

  std::shared_ptr<spdlog::logger> before_;
  std::shared_ptr<Sink> sink_;
};

}  // namespace rookery
