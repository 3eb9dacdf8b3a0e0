#include "trainer/storage/remote/http.hpp"

#include <curl/curl.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "models/base/error.hpp"
#include "models/base/libraries/format.hpp"
#include "models/base/process/stop_signals.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

constexpr std::size_t kMostHeader = 4096;

// Of an answer that says what is wrong, more is not looked at.
constexpr std::size_t kMostComplaint = 16U << 10;

// One attempt: the answer as far as it came.
struct Attempt {
  const HttpRequest* request = nullptr;
  HttpAnswer answer;
  std::string last_modified;
  std::uint64_t sent = 0;
  bool is_too_long = false;
  std::exception_ptr problem;  // of what reads the body that is sent
  // When the last byte has come or gone, and how many there were by then.
  std::chrono::steady_clock::time_point moved = std::chrono::steady_clock::now();
  curl_off_t bytes = 0;
  std::chrono::seconds patience{0};
  bool is_silent = false;
};

std::size_t on_body(char* bytes, std::size_t size, std::size_t count, void* to) {
  auto& attempt = *static_cast<Attempt*>(to);
  const std::size_t more = size * count;
  const bool is_complaint = attempt.answer.status >= 300;
  if (is_complaint) {
    attempt.answer.body.append(bytes, std::min(more, kMostComplaint - attempt.answer.body.size()));
    return more;
  }
  if (more > attempt.request->most_bytes - attempt.answer.body.size()) {
    attempt.is_too_long = true;
    return 0;
  }
  attempt.answer.body.append(bytes, more);
  return more;
}

bool is_header(std::string_view line, std::string_view name) {
  return line.size() > name.size() && line[name.size()] == ':' &&
         std::equal(name.begin(), name.end(), line.begin(),
                    [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

// Of "HTTP/1.1 206 Partial Content".
int status_of(std::string_view line) {
  int status = 0;
  const std::size_t blank = std::min(line.find(' '), line.size() - 1);
  std::from_chars(line.data() + blank + 1, line.data() + line.size(), status);
  return status;
}

std::size_t on_header(char* bytes, std::size_t size, std::size_t count, void* to) {
  auto& attempt = *static_cast<Attempt*>(to);
  const std::string_view line(bytes, size * count);
  if (line.size() > kMostHeader) return line.size();
  const auto value_of = [&](std::string_view name) {
    std::string_view value = line.substr(name.size() + 1);
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.front())) != 0)
      value.remove_prefix(1);
    while (!value.empty() && std::isspace(static_cast<unsigned char>(value.back())) != 0)
      value.remove_suffix(1);
    return std::string(value);
  };
  if (line.starts_with("HTTP/")) {  // what was before is of a redirection or a 100
    attempt.answer = {.status = status_of(line)};
    attempt.last_modified.clear();
  }
  for (const auto& [name, field] : {std::pair{"etag", &attempt.answer.etag},
                                    {"content-range", &attempt.answer.content_range},
                                    {"last-modified", &attempt.last_modified}}) {
    if (is_header(line, name)) *field = value_of(name);
  }
  return line.size();
}

std::size_t on_upload(char* into, std::size_t size, std::size_t count, void* from) {
  auto& attempt = *static_cast<Attempt*>(from);
  const HttpRequest::Upload& upload = *attempt.request->upload;
  const std::uint64_t bytes = std::min<std::uint64_t>(size * count, upload.bytes - attempt.sent);
  try {
    upload.read(attempt.sent, std::as_writable_bytes(std::span(into, bytes)));
  } catch (...) {
    attempt.problem = std::current_exception();
    return CURL_READFUNC_ABORT;
  }
  attempt.sent += bytes;
  return bytes;
}

// Where a connection breaks that was kept, the library begins again by itself.
int on_seek(void* from, curl_off_t offset, int /*origin*/) {
  static_cast<Attempt*>(from)->sent = static_cast<std::uint64_t>(offset);
  return CURL_SEEKFUNC_OK;
}

// Called about once a second, also while nothing moves.
int on_progress(void* of, curl_off_t, curl_off_t downloaded, curl_off_t, curl_off_t uploaded) {
  auto& attempt = *static_cast<Attempt*>(of);
  const auto now = std::chrono::steady_clock::now();
  if (downloaded + uploaded != attempt.bytes) {
    attempt.bytes = downloaded + uploaded;
    attempt.moved = now;
  }
  attempt.is_silent = now - attempt.moved >= attempt.patience;
  const bool is_stopped = stop_signal() != 0 && !is_stop_deferred();
  return is_stopped || attempt.is_silent ? 1 : 0;
}

struct EndHandle {
  void operator()(CURL* handle) const { curl_easy_cleanup(handle); }
};
using Handle = std::unique_ptr<CURL, EndHandle>;
struct EndShare {
  void operator()(CURLSH* share) const { curl_share_cleanup(share); }
};

// Connections, and what is known of servers, for one request after the other. Each has a handle of its own:
// one that is used again follows a pointer to what it has freed where an answer begins with a folded line
// (libcurl 7.88).
class Connections {
 public:
  Connections() {
    static const CURLcode kGlobal = curl_global_init(CURL_GLOBAL_DEFAULT);
    if (kGlobal == CURLE_OK) share_.reset(curl_share_init());
    if (share_ == nullptr) throw std::bad_alloc();
    for (const curl_lock_data what : {CURL_LOCK_DATA_CONNECT, CURL_LOCK_DATA_DNS, CURL_LOCK_DATA_SSL_SESSION})
      curl_share_setopt(share_.get(), CURLSHOPT_SHARE, what);  // NOLINT(*-vararg)
  }

  Handle handle() const {
    Handle handle(curl_easy_init());
    if (handle == nullptr) throw std::bad_alloc();
    curl_easy_setopt(handle.get(), CURLOPT_SHARE, share_.get());  // NOLINT(*-vararg)
    return handle;
  }

 private:
  std::unique_ptr<CURLSH, EndShare> share_;
};

// Those that nobody uses: threads come and go, what they are connected to stays for the next.
class IdleConnections {
 public:
  std::unique_ptr<Connections> take() {
    const std::scoped_lock lock(mutex_);
    if (idle_.empty()) return std::make_unique<Connections>();
    std::unique_ptr<Connections> connections = std::move(idle_.back());
    idle_.pop_back();
    return connections;
  }

  void give_back(std::unique_ptr<Connections> connections) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(connections));
  }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Connections>> idle_;
};

class BorrowedConnections {
 public:
  BorrowedConnections() : connections_(idle().take()) {}
  ~BorrowedConnections() { idle().give_back(std::move(connections_)); }
  BorrowedConnections(const BorrowedConnections&) = delete;
  BorrowedConnections& operator=(const BorrowedConnections&) = delete;

  const Connections* operator->() const { return connections_.get(); }

 private:
  static IdleConnections& idle() {
    static IdleConnections connections;
    return connections;
  }

  std::unique_ptr<Connections> connections_;
};

using Headers = std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)>;

Headers headers_of(const HttpRequest& request) {
  Headers list(nullptr, curl_slist_free_all);
  for (const std::string& header : request.headers) {
    curl_slist* longer = curl_slist_append(list.get(), header.c_str());
    if (longer == nullptr) throw std::bad_alloc();
    (void)list.release();
    list.reset(longer);
  }
  return list;
}

// NOLINTBEGIN(*-vararg): so is the library's interface
void set_up(CURL* curl, const HttpRequest& request, Attempt& attempt, const Patience& patience) {
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_PATH_AS_IS, 1L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "rookery");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, request.follows_redirects ? 1L : 0L);
  curl_easy_setopt(curl, CURLOPT_MAXREDIRS, 5L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, static_cast<long>(patience.connecting.count()));
  // The library's own limit on speed takes the mean of several seconds.
  curl_easy_setopt(curl, CURLOPT_NOPROGRESS, 0L);
  curl_easy_setopt(curl, CURLOPT_XFERINFODATA, &attempt);
  curl_easy_setopt(curl, CURLOPT_XFERINFOFUNCTION, on_progress);
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, on_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &attempt);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, on_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &attempt);
  if (!request.certificates.empty()) curl_easy_setopt(curl, CURLOPT_CAINFO, request.certificates.c_str());
  if (request.signature) {
    curl_easy_setopt(curl, CURLOPT_AWS_SIGV4,
                     fmt::format("aws:amz:{}:s3", request.signature->region).c_str());
    curl_easy_setopt(curl, CURLOPT_USERNAME, request.signature->key_id.c_str());
    curl_easy_setopt(curl, CURLOPT_PASSWORD, request.signature->secret.c_str());
  }
  if (request.range) {
    const auto [first, bytes] = *request.range;
    curl_easy_setopt(curl, CURLOPT_RANGE, fmt::format("{}-{}", first, first + bytes - 1).c_str());
  }
  if (request.removes) curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, "DELETE");
  if (request.upload) {
    curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(curl, CURLOPT_INFILESIZE_LARGE, static_cast<curl_off_t>(request.upload->bytes));
    curl_easy_setopt(curl, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(curl, CURLOPT_READDATA, &attempt);
    curl_easy_setopt(curl, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(curl, CURLOPT_SEEKDATA, &attempt);
  }
}

bool is_worth_another_try(CURLcode code) {
  switch (code) {
    case CURLE_COULDNT_RESOLVE_HOST:
    case CURLE_COULDNT_CONNECT:
    case CURLE_PARTIAL_FILE:
    case CURLE_OPERATION_TIMEDOUT:
    case CURLE_GOT_NOTHING:
    case CURLE_SEND_ERROR:
    case CURLE_RECV_ERROR:
    case CURLE_SSL_CONNECT_ERROR:
    case CURLE_HTTP2:
    case CURLE_HTTP2_STREAM:
      return true;
    default:
      return false;
  }
}

bool is_worth_another_try(int status) {
  return status == 408 || status == 429 || status == 500 || status == 502 || status == 503 || status == 504;
}

// What a try came to: an answer, or why there is none.
struct Outcome {
  std::optional<HttpAnswer> answer;
  std::string problem;
  bool is_final = false;
};

Outcome attempt_once(const HttpRequest& request, const Patience& patience) {
  const BorrowedConnections connections;
  const Handle handle = connections->handle();
  CURL* const curl = handle.get();
  Attempt attempt{.request = &request, .patience = patience.silent};
  const Headers headers = headers_of(request);
  set_up(curl, request, attempt, patience);
  if (headers) curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  std::array<char, CURL_ERROR_SIZE> reason{};
  curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason.data());
  const CURLcode code = curl_easy_perform(curl);
  long status = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
  if (attempt.problem) std::rethrow_exception(attempt.problem);
  if (code == CURLE_ABORTED_BY_CALLBACK) throw_if_stopped();
  if (attempt.is_silent) {
    return {.problem = fmt::format("the server has been silent for {} s (ROOKERY_SERVER_PATIENCE)",
                                   patience.silent.count())};
  }
  if (attempt.is_too_long) {
    constexpr int kAllOfIt = 200;
    return {
        .problem =
            request.range && status == kAllOfIt
                ? "the server does not serve parts of files (ranges): have it do so, or copy the file here"
                : fmt::format("the answer ({}) is longer than the {} bytes asked for", status,
                              request.most_bytes),
        .is_final = true};
  }
  if (code != CURLE_OK) {
    const std::string_view told(reason.data());
    return {.problem = printable(told.empty() ? curl_easy_strerror(code) : told, kMostOfAReason),
            .is_final = !is_worth_another_try(code)};
  }
  attempt.answer.status = static_cast<int>(status);
  if (attempt.answer.etag.empty()) attempt.answer.etag = attempt.last_modified;
  const bool is_final = !is_worth_another_try(attempt.answer.status);
  return {.answer = std::move(attempt.answer),
          .problem = fmt::format("the server answers {}", status),
          .is_final = is_final};
}
// NOLINTEND(*-vararg)

// Wakes up for a stop signal.
void wait_for(std::chrono::milliseconds time) {
  constexpr std::chrono::milliseconds kSignalsAreSeen{50};
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end) {
    throw_if_stopped();
    std::this_thread::sleep_for(std::min(time, kSignalsAreSeen));
  }
}

}  // namespace

Patience patience_of_process() {
  constexpr const char* kName = "ROOKERY_SERVER_PATIENCE";
  Patience patience;
  const char* given = std::getenv(kName);  // NOLINT(concurrency-mt-unsafe): nobody sets it
  if (given == nullptr) return patience;
  int seconds = 0;
  const char* end = given + std::strlen(given);
  const auto [stop, error] = std::from_chars(given, end, seconds);
  constexpr int kMost = 3600;
  if (error != std::errc() || stop != end || seconds < 1 || seconds > kMost)
    throw ConfigError(fmt::format("{}: '{}' is not a number of seconds from 1 to {}", kName, given, kMost));
  patience.silent = std::chrono::seconds(seconds);
  patience.connecting = std::min(patience.connecting, patience.silent);
  return patience;
}

HttpAnswer exchange(const HttpRequest& request, const Patience& patience) {
  for (int tried = 1;; ++tried) {
    Outcome outcome = attempt_once(request, patience);
    if (outcome.answer && outcome.is_final) return std::move(*outcome.answer);
    if (outcome.is_final || tried >= patience.tries) {
      throw DataError(fmt::format("{}: {}{}", request.shown, outcome.problem,
                                  tried > 1 ? fmt::format(" (tried {} times)", tried) : ""));
    }
    wait_for(patience.pause * (1 << (tried - 1)));
  }
}

}  // namespace rookery
