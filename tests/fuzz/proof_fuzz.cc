// Bytes choose the forms of two logs of a synthetic run, and what is wrong with one of them: a log
// that is wrong by what both show passes never, and a right one always. The first byte is the kind
// of the case; tests/compare/proof has the others.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>

#include "tests/compare/proof/proof_case.h"
#include "tests/fuzz/memory_file.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using assay::testing_support::MemoryFile;
  if (size == 0) return 0;
  assay::proof::Chance chance(std::span(data + 1, size - 1));
  const assay::proof::ProofCase made =
      assay::proof::make_case(data[0] % assay::proof::count_kinds(), chance);
  if (made.kind.empty()) return 0;
  const auto file = [](const std::string& text) {
    return MemoryFile(reinterpret_cast<const uint8_t*>(text.data()), text.size());
  };
  const MemoryFile ref = file(made.ref);
  const MemoryFile got = file(made.got);
  const assay::proof::Answer answer = assay::proof::compare_files(ref.path(), got.path());
  if (assay::proof::is_proper(made, answer)) return 0;
  std::fprintf(stderr, "%s (%s): exit %d: %s\n%s\n%s\n", made.kind.c_str(), made.details.c_str(),
               static_cast<int>(answer.exit), answer.text.c_str(), made.ref.c_str(),
               made.got.c_str());
  std::abort();
}
