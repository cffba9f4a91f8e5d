#pragma once

#include <concepts>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "assay/log/json_text.h"

namespace assay {

// A number or another value that is JSON already.
struct RawJson {
  std::string text;
};

template <class T>
inline constexpr bool kIsTuple = false;
template <class... Ts>
inline constexpr bool kIsTuple<std::tuple<Ts...>> = true;

// Appends a boolean, a number, text, an optional of these (null), or a tuple of these (an array).
template <class T>
void append_json(std::string& out, const T& value) {
  if constexpr (std::same_as<T, RawJson>) {
    out += value.text;
  } else if constexpr (std::same_as<T, bool>) {
    out += value ? "true" : "false";
  } else if constexpr (std::unsigned_integral<T>) {
    append_json_number(out, uint64_t{value});
  } else if constexpr (std::integral<T>) {
    append_json_number(out, int64_t{value});
  } else if constexpr (std::floating_point<T>) {
    append_json_number(out, value);
  } else if constexpr (std::convertible_to<const T&, std::string_view>) {
    append_json_string(out, value);
  } else if constexpr (kIsTuple<T>) {
    char before = '[';
    const auto append = [&](const auto& element) {
      out += before;
      before = ',';
      append_json(out, element);
    };
    std::apply([&](const auto&... elements) { (append(elements), ...); }, value);
    out += ']';
  } else if (value) {
    append_json(out, *value);
  } else {
    out += "null";
  }
}

// Appends one JSON object to a string, member by member: the one way in which reports and commands
// write JSON. What a terminal would obey becomes \uNNNN, and what does not fit into memory is
// a std::bad_alloc.
class JsonObject {
 public:
  explicit JsonObject(std::string& out) : out_(out) { out_ += '{'; }

  // The next member begins a line.
  void new_line() { new_line_ = true; }

  void key(std::string_view name) {
    if (!first_) out_ += new_line_ ? ",\n" : ",";
    first_ = new_line_ = false;
    append_json_string(out_, name);
    out_ += ':';
  }

  template <class T>
  void member(std::string_view name, const T& value) {
    key(name);
    append_json(out_, value);
  }

  // "name":{...}, whose members `write` adds to the object that it is given.
  template <class Write>
  void object(std::string_view name, const Write& write) {
    key(name);
    append_object(write);
  }

  // The same of what an optional or a pointer holds: null where that is nothing.
  template <class Optional, class Write>
  void object_or_null(std::string_view name, const Optional& optional, const Write& write) {
    key(name);
    if (optional) {
      append_object([&](JsonObject& inner) { write(inner, *optional); });
    } else {
      out_ += "null";
    }
  }

  // "name":[...]: `write` is given an object and an element, and adds the members, or is given an
  // element and returns a value.
  template <class Range, class Write = std::identity>
  void array(std::string_view name, const Range& range, const Write& write = {}) {
    key(name);
    elements(range, write, "", [](std::string_view) {});
  }

  // The same on a line of its own, as are its elements; given to the sink now and then.
  template <class Range, class Sink, class Write = std::identity>
  void lines(std::string_view name, const Range& range, const Sink& sink, const Write& write = {}) {
    new_line();
    key(name);
    elements(range, write, "\n  ", sink);
  }

  // The same after key(), with `before` in front of each element.
  template <class Range, class Write, class Sink>
  void elements(const Range& range, const Write& write, std::string_view before, const Sink& sink) {
    constexpr size_t kFlushBytes = 1 << 16;
    out_ += '[';
    bool first = true;
    for (const auto& element : range) {
      if (!first) out_ += ',';
      first = false;
      out_ += before;
      if constexpr (std::invocable<const Write&, JsonObject&, decltype(element)>) {
        append_object([&](JsonObject& inner) { write(inner, element); });
      } else {
        append_json(out_, std::invoke(write, element));
      }
      if (before.empty() || out_.size() < kFlushBytes) continue;
      sink(out_);
      out_.clear();
    }
    out_ += ']';
  }

  void end() { out_ += '}'; }

 private:
  template <class Write>
  void append_object(const Write& write) {
    JsonObject inner(out_);
    write(inner);
    inner.end();
  }

  std::string& out_;
  bool first_ = true;
  bool new_line_ = false;
};

// {...}, whose members `write` adds to the object that it is given.
template <class Write>
std::string json_of(const Write& write) {
  std::string out;
  JsonObject object(out);
  write(object);
  object.end();
  return out;
}

// A line of the same, given to the sink now and then.
template <class Sink, class Write>
void write_json_line(const Sink& sink, const Write& write) {
  std::string out;
  JsonObject object(out);
  write(object);
  object.end();
  out += '\n';
  sink(out);
}

}  // namespace assay
