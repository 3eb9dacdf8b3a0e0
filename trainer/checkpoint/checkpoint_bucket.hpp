// Checkpoints in a bucket: s3://BUCKET/PREFIX/<step>/<part>, by the names that they have in
// node_data/checkpoints.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "trainer/checkpoint/checkpoint_part.hpp"
#include "trainer/storage/remote/s3.hpp"

namespace rookery {

// Where a stage's parts are put besides. One thread at a time.
class CheckpointBucket {
 public:
  // Asks the server for what lies there, so that a wrong key or bucket is told before anybody trains.
  // ConfigError for what is no address; DataError.
  CheckpointBucket(const std::string& address, CheckpointOwner owner);

  // Puts the stage's part of this step there, and reads it back to compare. DataError naming the key.
  void put(std::int64_t step) const;
  // Of its parts up to the step `whole` the newest `keep` stay. DataError naming the key.
  void remove_old(std::int64_t whole, int keep) const;

 private:
  S3Address place(std::int64_t step) const;

  S3 s3_;
  S3Address folder_;
  CheckpointOwner owner_;
};

// A copy of a whole checkpoint, in $TMPDIR (by default /var/tmp) as long as the object.
class FetchedCheckpoint {
 public:
  // Of those below the address, which may be that of one step, the highest step of the plan that was put
  // there last. ConfigError where none has all of its parts; DataError when it cannot be fetched. What the
  // parts say is checked by who reads them.
  explicit FetchedCheckpoint(const std::string& address);
  ~FetchedCheckpoint();
  FetchedCheckpoint(const FetchedCheckpoint&) = delete;
  FetchedCheckpoint& operator=(const FetchedCheckpoint&) = delete;

  // Of parts, called by their step.
  const std::filesystem::path& folder() const { return folder_; }
  // "s3://BUCKET/PREFIX/<step>"
  const std::string& address() const { return address_; }

 private:
  std::filesystem::path temporary_, folder_;
  std::string address_;
};

}  // namespace rookery
