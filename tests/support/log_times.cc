// In every test program: what it runs writes logs that do not say when they were written, so that
// tests may compare their bytes. A test of the times asks for them.

#include <cstdlib>

namespace assay {
namespace {

const bool kOff = setenv("ASSAY_LOG_TS", "off", 1) == 0;

}  // namespace
}  // namespace assay
