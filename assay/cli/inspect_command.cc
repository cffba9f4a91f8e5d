#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "assay/cli/commands.h"
#include "assay/cli/output.h"
#include "assay/report/json_object.h"
#include "assay/weights/key_differences.h"
#include "base/error.h"
#include "engine/file_type.h"
#include "engine/gguf.h"

namespace assay {
namespace {

constexpr size_t kMostOfText = 4096;

void append_value(JsonObject& object, const std::string& key, const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    object.object(key, [&](JsonObject& inner) { inner.member("array_of", array->size()); });
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    object.member(key, printable(*text, kMostOfText));
  } else if (const auto* number = std::get_if<double>(&value)) {
    object.member(key, RawJson{json_decimal(*number)});
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    object.member(key, *flag);
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    object.member(key, *integer);
  } else {
    object.member(key, std::get<uint64_t>(value));
  }
}

int64_t n_parameters(const Gguf& gguf) {
  int64_t count = 0;
  for (const GgufTensor& tensor : gguf.tensors()) count += tensor.rows() * tensor.columns();
  return count;
}

void append_tensor(JsonObject& object, const GgufTensor& tensor) {
  object.member("name", printable(tensor.name, kMostOfText));
  object.member("type", printable(tensor_type_info(tensor.type).name, kMostOfText));
  object.array("shape", tensor.dims);
  object.member("bytes", tensor.data.size());
}

std::string as_json(const Gguf& gguf) {
  return json_of([&](JsonObject& object) {
    object.member("file", printable(gguf.path(), kMostOfText));
    if (gguf.version() > 0) object.member("gguf_version", gguf.version());
    object.member("architecture",
                  printable(gguf.get_string("general.architecture", ""), kMostOfText));
    object.member("type", printable(file_type_name(gguf), kMostOfText));
    object.member("parameters", n_parameters(gguf));
    object.object("hyperparameters", [&](JsonObject& parameters) {
      for (const auto& [key, value] : gguf.metadata()) {
        append_value(parameters, printable(key), value);
      }
    });
    object.array("tensors", gguf.tensors(), append_tensor);
  });
}

// JSON with a line for each value, indented by its depth.
std::string indented(std::string_view json) {
  std::string out;
  size_t depth = 0;
  bool in_text = false;
  const auto new_line = [&] { out.append("\n").append(depth, ' '); };
  for (size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    const bool opens = !in_text && (c == '{' || c == '[');
    const bool closes = !in_text && (c == '}' || c == ']');
    if (closes) --depth;
    if (closes && json[i - 1] != '{' && json[i - 1] != '[') new_line();
    out += c;
    if (in_text && c == '\\') {
      out += json[++i];
    } else if (c == '"') {
      in_text = !in_text;
    } else if (opens) {
      ++depth;
      if (json[i + 1] != '}' && json[i + 1] != ']') new_line();
    } else if (!in_text && c == ',') {
      new_line();
    } else if (!in_text && c == ':') {
      out += ' ';
    }
  }
  return out;
}

std::string as_text(const Gguf& gguf) {
  std::string text = fmt::format(
      "{}\n{} {}, {}, {:.1f} MB, {:.1f} M parameters\n\n", printable(gguf.path(), 4096),
      printable(gguf.get_string("general.architecture", "no architecture")), file_type_name(gguf),
      gguf.version() > 0 ? fmt::format("GGUF version {}", gguf.version()) : "Hugging Face folder",
      static_cast<double>(gguf.file_bytes()) / 1e6, static_cast<double>(n_parameters(gguf)) / 1e6);
  for (const auto& [key, value] : gguf.metadata()) {
    text += fmt::format("{:<44} {}\n", printable(key), metadata_text(value));
  }
  text += fmt::format("\n{} tensors\n", gguf.tensors().size());
  for (const GgufTensor& tensor : gguf.tensors()) {
    text += fmt::format("{:<32} {:<5} [{}]\n", printable(tensor.name),
                        tensor_type_info(tensor.type).name, fmt::join(tensor.dims, ", "));
  }
  return text;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  struct Given {
    std::string model_path;
    bool json = false;
  };
  auto flags = std::make_shared<Given>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show a model's architecture, hyperparameters, tensors");
  command->add_option("MODEL", flags->model_path, "GGUF file or Hugging Face folder")->required();
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags, &exit_code] {
    const Gguf gguf(flags->model_path);
    print_text(flags->json ? indented(as_json(gguf)) + "\n" : as_text(gguf));
    exit_code = kInParity;
  });
}

}  // namespace assay
