// What a web server answers: a server on this machine sends the input and closes the connection, whatever it
// was asked for. Nothing is fetched from where an answer points to.
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "models/base/error.hpp"
#include "trainer/storage/remote/remote_file.hpp"

namespace {

using namespace rookery;

class Server {
 public:
  Server() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    sockaddr_in address{.sin_family = AF_INET, .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)}};
    socklen_t size = sizeof address;
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    if (bind(listener_, any, size) != 0 || listen(listener_, 8) != 0 ||
        getsockname(listener_, any, &size) != 0)
      std::abort();
    url_ = "http://127.0.0.1:" + std::to_string(ntohs(address.sin_port)) + "/file";
    std::thread([this] { serve(); }).detach();  // until the process ends
  }
  const std::string& url() const { return url_; }
  void answer_with(std::string_view answer) {
    const std::lock_guard lock(mutex_);
    answer_ = answer;
  }

 private:
  void serve() {
    for (;;) {
      const int connection = accept(listener_, nullptr, nullptr);
      std::string asked;
      std::array<char, 4096> some{};
      while (asked.find("\r\n\r\n") == std::string::npos) {
        const ssize_t got = ::read(connection, some.data(), some.size());
        if (got <= 0) break;
        asked.append(some.data(), static_cast<std::size_t>(got));
      }
      {
        const std::lock_guard lock(mutex_);
        for (std::string_view left = answer_; !left.empty();) {
          const ssize_t sent = send(connection, left.data(), left.size(), MSG_NOSIGNAL);
          if (sent <= 0) break;
          left.remove_prefix(static_cast<std::size_t>(sent));
        }
      }
      close(connection);
    }
  }

  int listener_;
  std::string url_;
  std::mutex mutex_;
  std::string answer_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Server& server = *new Server;  // its thread uses it to the end
  server.answer_with({reinterpret_cast<const char*>(data), size});
  constexpr std::size_t kBytes = 8;
  HttpRequest request{.url = server.url(), .shown = "a file", .follows_redirects = false};
  request.range = ByteRange{0, kBytes};
  request.most_bytes = kBytes;
  try {
    const HttpAnswer answer = exchange(
        request, {.connecting = std::chrono::seconds(5), .silent = std::chrono::seconds(5), .tries = 1});
    // What is answered once is not tried again: the same once more, with all that is checked of it.
    std::vector<std::byte> bytes(kBytes);
    if (answer.body.size() <= kBytes) remote_file(request, kBytes, "e")->read(0, bytes);
  } catch (const DataError&) {
  }
  return 0;
}
