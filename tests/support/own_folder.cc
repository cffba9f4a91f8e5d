// In every test program: testing::TempDir() is a folder of its own, which goes with the process.
// ctest runs cases side by side, each in a process of its own, and two may name their files alike.

#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace assay {
namespace {

constexpr char kVariable[] = "TEST_TMPDIR";  // GoogleTest's

class OwnFolder {
 public:
  OwnFolder() {
    const char* shared = std::getenv(kVariable);
    std::string path = std::string(shared == nullptr ? "/tmp" : shared) + "/XXXXXX";
    if (mkdtemp(path.data()) == nullptr) return;  // then it stays the shared one
    chmod(path.c_str(), 0755);                    // some cases have other users read in it
    setenv(kVariable, path.c_str(), 1);
    path_ = path;
  }
  OwnFolder(const OwnFolder&) = delete;
  OwnFolder& operator=(const OwnFolder&) = delete;
  ~OwnFolder() {
    if (path_.empty() || getpid() != owner_) return;  // a child that ends here does not own it
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

 private:
  pid_t owner_ = getpid();
  std::string path_;
};

const OwnFolder kOwnFolder;

}  // namespace
}  // namespace assay
