#pragma once

#include <functional>
#include <string_view>

namespace assay {

// Takes a report piece by piece: a report may be larger than what one likes to hold in memory.
using TextSink = std::function<void(std::string_view)>;

}  // namespace assay
