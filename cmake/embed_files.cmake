# Writes SOURCE, C++ in which `assay::VARIABLE` is a std::string_view of the bytes of FILES.
set(bytes "")
foreach(file ${FILES})
  file(READ ${file} more HEX)
  string(APPEND bytes "${more}")
endforeach()
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "'\\\\x\\1'," bytes "${bytes}")
string(REGEX REPLACE "(0a',)" "\\1\n" bytes "${bytes}")
file(WRITE ${SOURCE} "#include <string_view>

namespace assay {

extern const std::string_view ${VARIABLE};

namespace {
constexpr char ${VARIABLE}_bytes[] = {
${bytes}'\\0'};
}  // namespace

const std::string_view ${VARIABLE}(${VARIABLE}_bytes, sizeof(${VARIABLE}_bytes) - 1);

}  // namespace assay
")
