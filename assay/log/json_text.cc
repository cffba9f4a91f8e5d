#include "assay/log/json_text.h"

#include <fmt/format.h>
#include <rapidjson/internal/dtoa.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <concepts>
#include <future>
#include <iterator>
#include <system_error>
#include <thread>
#include <vector>

#include "base/character.h"
#include "base/utf8.h"

// Numbers as text, which both writers of logs share.
#define ASSAY_TAP_IMPLEMENTATION
#define ASSAY_TAP_STATIC
#define ASSAY_TAP_WITHOUT_LOG
#include "tap/assay_tap.h"

namespace assay {
namespace {

// A thread takes as long to start as 1,500 values take to write.
constexpr size_t kValuesWorthThread = size_t{32} * 1024;

// "a,b,..."
void append_values(std::string& out, std::span<const float> values) {
  constexpr size_t kBatch = 256;
  char text[17 * kBatch + 64];
  while (!values.empty()) {
    const size_t count = std::min(values.size(), kBatch);
    const char* bracket = assay_tap_write_floats(text, values.data(), count) - 1;
    out.append(text + 1, static_cast<size_t>(bracket - text) - 1);
    values = values.subspan(count);
    if (!values.empty()) out += ',';
  }
}

// Asking the system how many processors there are takes 6 to 17 microseconds, longer than most
// arrays take to write.
size_t threads_for(size_t values) {
  const size_t worth = values / kValuesWorthThread;
  if (worth < 2) return 1;
  return std::min<size_t>(worth, std::clamp(std::thread::hardware_concurrency(), 1U, 8U));
}

// The same by another thread; or by the caller, if the system has no more threads.
std::future<std::string> text_of_values(std::span<const float> values) {
  const auto write = [values] {
    std::string text;
    text.reserve(values.size() * 11);
    append_values(text, values);
    return text;
  };
  try {
    return std::async(std::launch::async, write);
  } catch (const std::system_error&) {
    return std::async(std::launch::deferred, write);
  }
}

// \uNNNN, or two of them, as JSON has characters beyond U+FFFF.
void append_json_escape(std::string& out, char32_t code) {
  const auto append = [&](char32_t unit) {
    fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<uint32_t>(unit));
  };
  if (code <= 0xFFFF) return append(code);
  append(0xD800 + ((code - 0x10000) >> 10));
  append(0xDC00 + (code & 0x3FF));
}

template <std::integral Number>
void append_whole(std::string& out, Number value) {
  char text[24];
  const auto end = std::to_chars(text, text + sizeof(text), value).ptr;
  out.append(text, static_cast<size_t>(end - text));
}

}  // namespace

void append_json_string(std::string& out, std::string_view text) {
  out += '"';
  const auto plain = [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; };
  const auto plain_end = std::ranges::find_if_not(text, plain);
  out.append(text.begin(), plain_end);
  text.remove_prefix(static_cast<size_t>(plain_end - text.begin()));
  while (!text.empty()) {
    const char lead = text[0];
    const Character character = first_character(text);
    if (lead == '"' || lead == '\\') {
      out += '\\';
      out += lead;
    } else if (character.visible) {
      out += text.substr(0, character.bytes);
    } else {
      append_json_escape(out, utf8_length(text) == 0 ? U'\uFFFD' : character.code);
    }
    text.remove_prefix(character.bytes);
  }
  out += '"';
}

void append_json_time(std::string& out) {
  char text[ASSAY_TAP_NUMBER_SIZE];
  out.append(text, static_cast<size_t>(assay_tap_write_time(text) - text));
}

void append_json_number(std::string& out, float value) {
  char text[ASSAY_TAP_NUMBER_SIZE];
  out.append(text, assay_tap_print_float(text, value));
}
void append_json_number(std::string& out, double value) {
  char text[ASSAY_TAP_NUMBER_SIZE];
  out.append(text, assay_tap_print_double(text, value));
}
void append_json_number(std::string& out, int64_t value) {
  append_whole(out, value);
}
void append_json_number(std::string& out, uint64_t value) {
  append_whole(out, value);
}

std::string json_decimal(double value, int most_places) {
  std::string out;
  if (std::isfinite(value)) {
    char text[32];
    out.assign(text, rapidjson::internal::dtoa(value, text, most_places));
  } else {
    append_json_number(out, value);
  }
  return out;
}

void append_json_array(std::string& out, std::span<const double> values) {
  constexpr size_t kBatch = 64;
  char text[26 * kBatch + 64];
  out += '[';
  while (!values.empty()) {
    const size_t count = std::min(values.size(), kBatch);
    const char* bracket = assay_tap_write_doubles(text, values.data(), count) - 1;
    out.append(text + 1, static_cast<size_t>(bracket - text) - 1);
    values = values.subspan(count);
    if (!values.empty()) out += ',';
  }
  out += ']';
}

void append_json_array(std::string& out, std::span<const float> values) {
  const size_t parts = threads_for(values.size());
  const auto border = [&](size_t part) { return values.size() * part / parts; };
  std::vector<std::future<std::string>> others;
  for (size_t i = 1; i < parts; ++i) {
    others.push_back(text_of_values(values.subspan(border(i), border(i + 1) - border(i))));
  }
  out += '[';
  append_values(out, values.first(border(1)));
  for (auto& other : others) {
    out += ',';
    out += other.get();
  }
  out += ']';
}

}  // namespace assay
