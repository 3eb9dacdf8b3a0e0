// Files on servers, read by ranges.
#pragma once

#include <cstdint>
#include <string>

#include "trainer/storage/random_file.hpp"
#include "trainer/storage/remote/http.hpp"

namespace rookery {

// Says what a server's answer of another status than was hoped for means. DataError.
using Refuse = void (*)(const HttpRequest& request, const HttpAnswer& answer);
[[noreturn]] void refuse_http(const HttpRequest& request, const HttpAnswer& answer);

// The file that `request`, which has no range yet, asks for. Each part that is read is checked: it must be
// the part that was asked for, and of the same content as those before (ETag).
//
// Asks the server how large it is. DataError when there is none, or its server has no ranges.
SharedFile open_remote_file(HttpRequest request, Refuse refuse = refuse_http);
// Size and ETag are known.
SharedFile remote_file(HttpRequest request, std::uint64_t bytes, const std::string& etag,
                       Refuse refuse = refuse_http);

}  // namespace rookery
