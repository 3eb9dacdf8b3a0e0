// Requests over HTTP (RFC 9110) by libcurl, tried again where that may help.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace rookery {

// How S3 wants requests signed (AWS Signature Version 4).
struct Signature {
  std::string key_id, secret;
  std::string region;
};

struct ByteRange {
  std::uint64_t first = 0;
  std::uint64_t bytes = 1;
};

struct HttpRequest {
  std::string url;
  std::string shown;  // for messages
  std::vector<std::string> headers;
  std::optional<Signature> signature;
  std::string certificates;  // a file of those that are trusted; empty: the system's
  bool follows_redirects = true;
  std::optional<ByteRange> range;
  // What is put there, in place of asking for what is: a body of so many bytes, from a file at this place.
  struct Upload {
    std::uint64_t bytes = 0;
    // Fills `into` with what stands from `offset` on.
    std::function<void(std::uint64_t offset, std::span<std::byte> into)> read;
  };
  std::optional<Upload> upload;
  bool removes = false;        // what is there, in place of asking for it
  std::size_t most_bytes = 0;  // of the answer
};

struct HttpAnswer {
  int status = 0;
  std::string body;
  std::string etag;           // as the server gives it, or when it was last modified where it gives none
  std::string content_range;  // "bytes 0-99/1234"
};

// How long a server may take.
struct Patience {
  std::chrono::seconds connecting{10};
  std::chrono::seconds silent{30};       // without a byte
  int tries = 5;                         // connections that break, silence, and answers 408, 429 and 5xx
  std::chrono::milliseconds pause{200};  // before the second try; each further one waits twice as long
};
// That of this process: $ROOKERY_SERVER_PATIENCE seconds of silence where that is set.
Patience patience_of_process();

// Any number of threads, each of which keeps its connections. Answers of any status but those that are tried
// again. DataError naming the address and what was wrong the last time: no connection, silence, an answer
// that is cut off or longer than `most_bytes`. Interrupted when a stop signal comes.
HttpAnswer exchange(const HttpRequest& request, const Patience& patience = patience_of_process());

}  // namespace rookery
