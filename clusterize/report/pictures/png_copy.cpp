#include "clusterize/report/pictures/png_copy.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <optional>
#include <system_error>

#include "models/base/files/files.hpp"

namespace rookery {
namespace {

// One copy under way: beside its place there are the SVG file and the PNG file until it is whole.
class Drawing {
 public:
  explicit Drawing(const PngCopy& copy)
      : path_(copy.path), svg_(copy.path.string() + ".svg"), png_(copy.path.string() + ".new") {
    write_file(svg_, copy.svg);
    // Neither begins with what could be an option.
    std::string program = "rsvg-convert", output = "--output=" + png_.string();
    std::string input = std::filesystem::absolute(svg_).string();
    std::array<char*, 4> arguments{program.data(), output.data(), input.data(), nullptr};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
      posix_spawn_file_actions_addopen(&actions, stream, "/dev/null", O_RDWR, 0);
    pid_t process = -1;
    if (::posix_spawnp(&process, program.c_str(), &actions, nullptr, arguments.data(), environ) == 0)
      process_ = process;
    posix_spawn_file_actions_destroy(&actions);
  }

  void finish() {
    int status = -1;
    while (process_ && ::waitpid(*process_, &status, 0) < 0 && errno == EINTR) {
    }
    process_.reset();
    std::error_code ignored;
    if (status == 0) std::filesystem::rename(png_, path_, ignored);
    if (status != 0 || ignored) std::filesystem::remove(path_, ignored);
    std::filesystem::remove(png_, ignored);
    std::filesystem::remove(svg_, ignored);
  }

 private:
  const std::filesystem::path path_, svg_, png_;
  std::optional<pid_t> process_;
};

}  // namespace

void write_png_copies(const std::vector<PngCopy>& copies) {
  std::vector<Drawing> drawings;
  drawings.reserve(copies.size());
  for (const PngCopy& copy : copies) drawings.emplace_back(copy);
  for (Drawing& drawing : drawings) drawing.finish();
}

}  // namespace rookery
