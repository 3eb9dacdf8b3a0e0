// A TCP proxy between a node and a peer's address, whose connections a test can cut.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "node/sockets/address.hpp"

namespace rookery {

class TcpProxy {
 public:
  explicit TcpProxy(const std::string& target) : target_(Address::parse(target)), listener_(new_socket()) {
    sockaddr_in own = loopback(0);
    socklen_t size = sizeof own;
    if (::bind(listener_, reinterpret_cast<sockaddr*>(&own), size) != 0 || ::listen(listener_, 16) != 0) {
      throw std::runtime_error("the proxy cannot listen");
    }
    ::getsockname(listener_, reinterpret_cast<sockaddr*>(&own), &size);
    port_ = ntohs(own.sin_port);
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
  ~TcpProxy() {
    thread_.request_stop();
    wake();
    thread_.join();
    ::close(listener_);
    ::close(wake_);
  }
  TcpProxy(const TcpProxy&) = delete;
  TcpProxy& operator=(const TcpProxy&) = delete;

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  // Closes all connections at once; what is under way in them is lost. New ones are let through.
  void cut() {
    cuts_wanted_.fetch_add(1);
    wake();
  }
  // Closes so many of them.
  void cut(int connections) {
    cuts_of_some_.fetch_add(connections);
    wake();
  }
  // From now on bytes vanish and connections stand, as when a cable is pulled.
  void swallow() {
    swallowing_ = true;
    wake();
  }
  int connections() const { return connections_; }
  std::uint64_t bytes() const { return bytes_; }  // that went through, both ways

 private:
  static int new_socket() { return ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0); }
  static sockaddr_in loopback(std::uint16_t port) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
  }
  void wake() {
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t written = ::write(wake_, &one, sizeof one);
  }

  void run(const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      std::vector<pollfd> items{{wake_, POLLIN, 0}, {listener_, POLLIN, 0}};
      for (const auto& [from, to] : pairs_) items.push_back({from, POLLIN, 0});
      ::poll(items.data(), items.size(), -1);
      if (items[0].revents != 0) {
        std::uint64_t count = 0;
        [[maybe_unused]] const ssize_t got = ::read(wake_, &count, sizeof count);
      }
      if (cuts_wanted_.exchange(0) > 0) drop_all();
      for (int left = cuts_of_some_.exchange(0); left > 0 && !pairs_.empty(); --left)
        drop(pairs_.begin()->first);
      if (items[1].revents != 0) accept_one();
      for (std::size_t i = 2; i < items.size(); ++i) {
        if (items[i].revents != 0 && pairs_.contains(items[i].fd)) forward(items[i].fd);
      }
    }
    drop_all();
  }

  void accept_one() {
    const int from = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
    if (from < 0) return;  // no descriptor is free
    const int to = new_socket();
    const sockaddr_in target = loopback(target_.port);
    if (::connect(to, reinterpret_cast<const sockaddr*>(&target), sizeof target) != 0) {
      ::close(from);
      ::close(to);
      return;
    }
    const int on = 1;
    for (const int end : {from, to}) ::setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    pairs_[from] = to;
    pairs_[to] = from;
    ++connections_;
  }

  void forward(int from) {
    std::array<char, 1 << 16> block{};
    const ssize_t size = ::recv(from, block.data(), block.size(), 0);
    if (size <= 0) return drop(from);
    bytes_ += static_cast<std::uint64_t>(size);
    for (ssize_t done = 0; !swallowing_ && done < size;) {
      const ssize_t sent =
          ::send(pairs_[from], block.data() + done, static_cast<std::size_t>(size - done), MSG_NOSIGNAL);
      if (sent <= 0) return drop(from);
      done += sent;
    }
  }

  void drop(int end) {
    const int other = pairs_.at(end);
    for (const int each : {end, other}) {
      const linger now{1, 0};  // reset: unsent bytes are dropped
      ::setsockopt(each, SOL_SOCKET, SO_LINGER, &now, sizeof now);
      ::close(each);
      pairs_.erase(each);
    }
  }

  void drop_all() {
    while (!pairs_.empty()) drop(pairs_.begin()->first);
  }

  Address target_;
  int listener_;
  int wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  std::uint16_t port_ = 0;
  std::map<int, int> pairs_;  // each end and its other
  std::atomic<int> cuts_wanted_{0};
  std::atomic<int> cuts_of_some_{0};
  std::atomic<bool> swallowing_{false};
  std::atomic<int> connections_{0};
  std::atomic<std::uint64_t> bytes_{0};
  std::jthread thread_;
};

}  // namespace rookery
