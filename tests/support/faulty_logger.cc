// A logger with the defect of the published logs, for tests of what finds it: its flush is
// registered with std::atexit inside the constructor of a function-local static. Handlers run in
// reverse order, and the static's destructor is registered when its constructor has ended: so at
// exit the records are freed first, and the flush prints what the allocator has put in their place.
//
// faulty_logger FILE TRUTH RECORDS VALUES fixed|exact SEED: FILE is the faulty log, TRUTH one that
// is written at once. Values are normal with deviation 4, printed with %.6f or all their digits.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

struct Entry {
  std::string checkpoint;
  int token_idx;
  std::vector<float> values;
};

const char* log_path;
const char* format;

void print(std::FILE* file, const Entry& entry) {
  std::fprintf(file,
               "{\"checkpoint\":\"logits\",\"token_idx\":%d,\"dtype\":\"f32\","
               "\"shape\":\"[32000]\",\"values\":[",
               entry.token_idx);
  for (size_t i = 0; i < entry.values.size(); ++i) {
    const float value = entry.values[i];
    if (i > 0) std::fputc(',', file);
    // As the published logger does with what is not finite.
    std::fprintf(file, format, static_cast<double>(value - value == 0 ? value : 0));
  }
  std::fputs("]}\n", file);
}

class Logger {
 public:
  static Logger& get() {
    static Logger logger;
    return logger;
  }
  void log(int token_idx, const std::vector<float>& values) {
    Entry entry{"logits", token_idx, {}};
    entry.values.reserve(values.size());
    for (const float value : values) entry.values.push_back(value);
    entries_.push_back(entry);
  }

 private:
  Logger() {
    std::atexit([] { get().flush(); });
  }
  void flush() {
    std::FILE* file = std::fopen(log_path, "w");
    for (const Entry& entry : entries_) print(file, entry);
    std::fclose(file);
  }

  std::vector<Entry> entries_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  log_path = argv[1];
  format = std::strcmp(argv[5], "exact") == 0 ? "%.9g" : "%.6f";
  const int records = std::atoi(argv[3]);
  std::mt19937 random(static_cast<unsigned>(std::atoi(argv[6])));
  std::normal_distribution<float> normal(0, 4);
  std::vector<float> values(static_cast<size_t>(std::atoi(argv[4])));
  std::FILE* truth = std::fopen(argv[2], "w");
  for (int token_idx = 0; token_idx < records; ++token_idx) {
    for (float& value : values) value = normal(random);
    Logger::get().log(token_idx, values);
    print(truth, {"logits", token_idx, values});
  }
  std::fclose(truth);
}
