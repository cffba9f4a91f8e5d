#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cmath>
#include <map>
#include <memory>

#include "assay/cli/commands.h"
#include "assay/cli/json_buffer.h"
#include "assay/cli/output.h"
#include "base/error.h"
#include "engine/file_type.h"
#include "engine/gguf.h"

namespace assay {
namespace {

void write_text(PrettyJsonWriter& writer, std::string_view text) {
  const std::string shown = printable(text, 4096);
  writer.String(shown.data(), static_cast<rapidjson::SizeType>(shown.size()));
}

std::string value_text(const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    return fmt::format("array of {}", array->size());
  }
  if (const auto* text = std::get_if<std::string_view>(&value)) return printable(*text, 60);
  if (const auto* flag = std::get_if<bool>(&value)) return *flag ? "true" : "false";
  if (const auto* number = std::get_if<double>(&value)) return fmt::format("{:g}", *number);
  if (const auto* number = std::get_if<int64_t>(&value)) return fmt::format("{}", *number);
  return fmt::format("{}", std::get<uint64_t>(value));
}

void write_value(PrettyJsonWriter& writer, const GgufValue& value) {
  if (const auto* array = std::get_if<GgufArray>(&value)) {
    writer.StartObject();
    writer.Key("array_of");
    writer.Uint64(array->size());
    writer.EndObject();
  } else if (const auto* text = std::get_if<std::string_view>(&value)) {
    write_text(writer, *text);
  } else if (const auto* flag = std::get_if<bool>(&value)) {
    writer.Bool(*flag);
  } else if (const auto* number = std::get_if<double>(&value)) {
    // JSON has no such numbers; logs have them as strings, and so has this.
    if (std::isfinite(*number)) {
      writer.Double(*number);
    } else {
      writer.String(std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity");
    }
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    writer.Int64(*integer);
  } else {
    writer.Uint64(std::get<uint64_t>(value));
  }
}

int64_t n_parameters(const Gguf& gguf) {
  int64_t count = 0;
  for (const GgufTensor& tensor : gguf.tensors()) count += tensor.rows() * tensor.columns();
  return count;
}

std::string as_json(const Gguf& gguf) {
  JsonBuffer buffer;
  PrettyJsonWriter writer(buffer);
  writer.SetIndent(' ', 1);
  writer.StartObject();
  writer.Key("file");
  write_text(writer, gguf.path());
  writer.Key("gguf_version");
  writer.Uint(gguf.version());
  writer.Key("architecture");
  write_text(writer, gguf.get_string("general.architecture", ""));
  writer.Key("type");
  write_text(writer, file_type_name(gguf));
  writer.Key("parameters");
  writer.Int64(n_parameters(gguf));
  writer.Key("hyperparameters");
  writer.StartObject();
  for (const auto& [key, value] : gguf.metadata()) {
    writer.Key(printable(key).c_str());
    write_value(writer, value);
  }
  writer.EndObject();
  writer.Key("tensors");
  writer.StartArray();
  for (const GgufTensor& tensor : gguf.tensors()) {
    writer.StartObject();
    writer.Key("name");
    write_text(writer, tensor.name);
    writer.Key("type");
    write_text(writer, tensor_type_info(tensor.type).name);
    writer.Key("shape");
    writer.StartArray();
    for (const int64_t dim : tensor.dims) writer.Int64(dim);
    writer.EndArray();
    writer.Key("bytes");
    writer.Uint64(tensor.data.size());
    writer.EndObject();
  }
  writer.EndArray();
  writer.EndObject();
  return buffer.GetString();
}

std::string as_text(const Gguf& gguf) {
  std::string text = fmt::format(
      "{}\n{} {}, GGUF version {}, {:.1f} MB, {:.1f} M parameters\n\n",
      printable(gguf.path(), 4096),
      printable(gguf.get_string("general.architecture", "no architecture")), file_type_name(gguf),
      gguf.version(), static_cast<double>(gguf.file_bytes()) / 1e6,
      static_cast<double>(n_parameters(gguf)) / 1e6);
  for (const auto& [key, value] : gguf.metadata()) {
    text += fmt::format("{:<44} {}\n", printable(key), value_text(value));
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
  struct Flags {
    std::string model_path;
    bool json = false;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command =
      app.add_subcommand("inspect", "Show a model file's architecture, hyperparameters, tensors");
  command->add_option("MODEL", flags->model_path, "Model file (GGUF)")->required();
  command->add_flag("--json", flags->json, "One JSON object on stdout");
  command->callback([flags, &exit_code] {
    const Gguf gguf(flags->model_path);
    print_text(flags->json ? as_json(gguf) + "\n" : as_text(gguf));
    exit_code = kInParity;
  });
}

}  // namespace assay
