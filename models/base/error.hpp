// Errors are what the world does wrong; they carry a chain of context, outermost first, so that the
// whole reads "reading node_data: node_configs.json: 1/benchmarks/ram: -8 is not a ...".
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <utility>

namespace rookery {

class Error : public std::exception {
 public:
  explicit Error(std::string message) : message_(std::move(message)) {}

  // Puts "context: " before the message.
  virtual void add_context(std::string_view context) { message_ = std::string(context) + ": " + message_; }

  // Puts "; advice" behind it: what the reader can do.
  void add_advice(std::string_view advice) { message_ += "; " + std::string(advice); }

  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// A setting, a pool, a plan or a model that a person wrote cannot be used.
class ConfigError : public Error {
  using Error::Error;
};

// A file or a data set is broken, missing, or cannot be written.
class DataError : public Error {
  using Error::Error;
};

// A peer is gone, silent, or sends what it must not.
class TransportError : public Error {
  using Error::Error;
};

// The run has ended under the hands of whoever trains, by another node as a rule. The message says all there
// is to say, also what was done here: what happened elsewhere is not the end of a chain of what went wrong
// here.
class RunEnded : public TransportError {
  using TransportError::TransportError;

 public:
  void add_context(std::string_view) override {}
};

// A command was typed wrongly; programs exit with 2.
class UsageError : public Error {
  using Error::Error;
};

// The program was asked to stop by a signal; programs exit with 128 + signal().
class Interrupted : public Error {
 public:
  Interrupted(int signal, std::string message) : Error(std::move(message)), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

// Runs `action` and puts `context` before the message of any Error that leaves it.
template <typename Action>
decltype(auto) with_context(std::string_view context, Action&& action) {
  try {
    return std::forward<Action>(action)();
  } catch (Error& error) {
    error.add_context(context);
    throw;
  }
}

}  // namespace rookery
