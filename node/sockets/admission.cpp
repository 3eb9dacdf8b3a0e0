#include "node/sockets/admission.hpp"

#include <algorithm>
#include <zmq_addon.hpp>

#include "models/base/libraries/format.hpp"
#include "models/base/text.hpp"

namespace rookery {
namespace {

// The frames of a request behind the asking socket's id and the empty one, by RFC 27.
enum Request : std::size_t {
  kVersion = 2,
  kRequestId = 3,
  kAddress = 5,
  kMechanism = 7,
  kUser = 8,
  kPassword = 9
};
constexpr std::size_t kFrames = 10;
constexpr const char* kCopyAgain = "copy node_data from the same clusterize run to every machine";

std::string node_in(const std::string& user) {
  return user.substr(0, user.find('@'));
}

std::string plan_in(const std::string& user) {
  const auto at = user.find('@');
  return at == std::string::npos ? "" : user.substr(at + 1);
}

}  // namespace

Admission::Admission(zmq::context_t& context, PlanKey key, std::vector<std::string> nodes)
    : key_(std::move(key)), nodes_(std::move(nodes)), socket_(context, zmq::socket_type::router) {
  socket_.set(zmq::sockopt::linger, 0);
  socket_.bind("inproc://zeromq.zap.01");
}

int Admission::node_of(const std::string& user) const {
  const auto found = std::ranges::find(nodes_, node_in(user));
  return found == nodes_.end() ? -1 : static_cast<int>(found - nodes_.begin());
}

std::string Admission::reason_against(const Credentials& given) const {
  if (plan_in(given.user) != key_.plan_id) {
    return fmt::format("it runs plan {}, this node plan {}: {}", printable(plan_in(given.user), kMostOfAName),
                       key_.plan_id, kCopyAgain);
  }
  if (node_of(given.user) < 0)
    return fmt::format("{} is not a peer in this plan", printable(node_in(given.user), kMostOfAName));
  if (given.password != key_.token)
    return fmt::format("it has the files of another clusterize run: {}", kCopyAgain);
  return "";
}

void Admission::serve(
    const std::function<void(int node, const std::string& from, const std::string& reason)>& refused) {
  std::vector<zmq::message_t> frames;
  while (frames.clear(),
         zmq::recv_multipart(socket_, std::back_inserter(frames), zmq::recv_flags::dontwait)) {
    std::string reason = "it does not introduce itself";
    Credentials given;
    if (frames.size() == kFrames && frames[kMechanism].to_string_view() == "PLAIN") {
      given = {frames[kUser].to_string(), frames[kPassword].to_string()};
      reason = reason_against(given);
    }
    if (frames.size() <= kAddress) continue;
    const bool admitted = reason.empty();
    const std::string user = admitted ? node_in(given.user) : "";
    const std::vector<zmq::const_buffer> answer{zmq::buffer(frames[0].to_string_view()),
                                                zmq::str_buffer(""),
                                                zmq::buffer(frames[kVersion].to_string_view()),
                                                zmq::buffer(frames[kRequestId].to_string_view()),
                                                admitted ? zmq::str_buffer("200") : zmq::str_buffer("400"),
                                                zmq::str_buffer(""),
                                                zmq::buffer(user),
                                                zmq::str_buffer("")};
    static_cast<void>(zmq::send_multipart(socket_, answer, zmq::send_flags::dontwait));
    if (!admitted) refused(node_of(given.user), frames[kAddress].to_string(), reason);
  }
}

}  // namespace rookery
