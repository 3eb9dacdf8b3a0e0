// Locks between processes (flock(2)): one holds a file alone, or several share it, until they let go or end.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace rookery {

// One thread. Where a lock cannot be had, because the file system has none or nobody may make the file, the
// log warns and all goes on as if it were held; where the folder is missing, it goes on so without a warning.
class FileLock {
 public:
  enum class Kind : std::uint8_t { kShared, kExclusive };

  // Makes the file, which stays; takes no lock yet.
  explicit FileLock(std::filesystem::path path);
  ~FileLock();
  FileLock(FileLock&& other) noexcept;
  FileLock& operator=(FileLock&&) = delete;

  // Whether the lock is ours now.
  bool try_take(Kind kind);
  // Waits for it; `on_waiting` is told, once, who holds it. Interrupted when a stop signal comes that no
  // StopDeferral keeps back.
  void take(Kind kind, const std::function<void(const std::string& holders)>& on_waiting);
  // "process 4711 (provider_0), process 4712 (provider_1)", as far as they can be seen.
  std::string holders() const;

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;  // -1: no lock can be had
};

}  // namespace rookery
