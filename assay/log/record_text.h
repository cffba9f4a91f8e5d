#pragma once

#include <string>
#include <string_view>

#include "assay/log/record.h"

namespace assay {

// Appends ,"key":"value".
void append_json_member(std::string& out, std::string_view key, std::string_view value);

// Appends the object of a record's `summary`, of a tensor of `n` elements, without unknown members:
// NaN means that no element is finite, so it is written only then.
void append_summary(std::string& out, const Summary& summary, int64_t n);

// The first line of a log, with its newline.
std::string header_line(const LogHeader& header);

// Appends the line of a record as LogWriter writes it, with its newline, and with any further
// members that a record of another writer may hold.
void append_record_line(std::string& out, const Record& record);

}  // namespace assay
