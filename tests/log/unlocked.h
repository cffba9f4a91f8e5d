#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <string>

namespace assay {

// Waits until no writer and no guard has the log: the lock is that of their common open file.
inline void wait_until_unlocked(const std::string& path) {
  const int log = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  flock(log, LOCK_EX);
  close(log);
}

}  // namespace assay
